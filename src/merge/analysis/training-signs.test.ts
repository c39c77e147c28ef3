// What changes show of training, on checkpoints whose changes are made: a LoRA product, roundings to bfloat16, frozen layers.
import { describe, expect, it } from "vitest";
import { encodeValues, type FloatDType, seededFloats, writeTiny } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { analyzeExperts } from "./analysis.js";
import { trainingSentences } from "./training-signs.js";

const bench = new Bench();
const SHAPES: Record<string, readonly number[]> = {
  "model.embed_tokens.weight": [40, 16],
  "model.layers.0.self_attn.q_proj.weight": [16, 16],
  "model.layers.0.input_layernorm.weight": [16],
  "model.layers.1.mlp.down_proj.weight": [16, 32],
};
const [EMBED, Q, NORM, DOWN] = Object.keys(SHAPES) as [string, string, string, string];

/** A model whose weights are a base's in bfloat16, plus `change` of each element of a tensor. */
async function model(dtype: FloatDType, change: (tensor: string, at: number) => number = () => 0): Promise<string> {
  const tensors = Object.entries(SHAPES).map(([name, shape], i) => {
    const count = shape.reduce((product, extent) => product * extent, 1);
    const stored = encodeValues(seededFloats(count, i + 1), "BF16");
    const base = new Float32Array(new Uint16Array(stored.slice().buffer).length);
    new Uint16Array(stored.slice().buffer).forEach((bits, at) => {
      base[at] = new Float32Array(new Uint32Array([bits << 16]).buffer)[0] as number;
    });
    return {
      name,
      dtype,
      shape: [...shape],
      data: encodeValues(
        base.map((value, at) => value + change(name, at)),
        dtype,
      ),
    };
  });
  return writeTiny(bench.next("m"), { layers: 2, edit: () => tensors });
}

async function signsOf(expert: string) {
  const { analysis } = await analyzeExperts({ base: await model("BF16"), experts: { expert } });
  const [found] = analysis.training;
  return { found, sentences: trainingSentences(analysis.training) };
}

describe("the signs of an expert's training", () => {
  it("are none where every tensor changed in float32, however little", async () => {
    const { found, sentences } = await signsOf(await model("F32", () => 1e-4));
    expect(found).toEqual({ expert: "expert", signs: [], unchangedShare: 0, changed: { tensors: 4, matrices: 2 } });
    expect(sentences).toEqual([]);
  });

  it("are weights that equal the base's, where the same change is stored in bfloat16", async () => {
    // Three of four weights move by less than half a unit of any weight's last place; the fourth by more than all of them.
    const { found, sentences } = await signsOf(await model("BF16", (_, at) => (at % 4 === 0 ? 8 : 1e-12)));
    expect(found).toMatchObject({ signs: ["mostly-unchanged"], unchangedShare: 0.75 });
    expect(sentences).toEqual([expect.stringMatching(/^expert: 75\.0% of the weights .* exactly the base's/)]);
  });

  it("are the same for as many weights in float32: what counts is that they are equal", async () => {
    const { found } = await signsOf(await model("F32", (_, at) => (at % 2 === 0 ? 1 : 0)));
    expect(found).toMatchObject({ signs: ["mostly-unchanged"], unchangedShare: 0.5 });
  });

  it("are matrices alone after a LoRA adapter is merged, and a norm or an embedding is enough against it", async () => {
    const lora = (tensor: string) => (tensor === Q || tensor === DOWN ? 0.5 : 0);
    const { found, sentences } = await signsOf(await model("F32", lora));
    expect(found).toMatchObject({ signs: ["matrices-only"], changed: { tensors: 2, matrices: 2 } });
    expect(sentences).toEqual([expect.stringMatching(/only matrices in the layers changed/)]);
    for (const other of [EMBED, NORM]) {
      const more = (tensor: string, at: number) => (tensor === other && at === 3 ? 1 : lora(tensor));
      expect((await signsOf(await model("F32", more))).found?.signs).toEqual([]);
    }
  });

  it("count no layer that was frozen", async () => {
    const { found } = await signsOf(await model("F32", (tensor) => (tensor === DOWN || tensor === EMBED ? 1 : 0)));
    expect(found).toEqual({ expert: "expert", signs: [], unchangedShare: 0, changed: { tensors: 2, matrices: 1 } });
  });

  it("are none where nothing changed, or nothing in a matrix", async () => {
    expect((await signsOf(await model("BF16"))).found).toMatchObject({ signs: [], unchangedShare: null });
    const norm = await model("F32", (tensor) => (tensor === NORM ? 1 : 0));
    expect((await signsOf(norm)).found).toMatchObject({ signs: [], unchangedShare: null });
  });
});
