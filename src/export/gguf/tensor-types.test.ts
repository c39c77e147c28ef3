// Compares encodings with those that llama.cpp's own quantiser (llama_model_quantize, November 2026) chose for models of
// these shapes: 32 and 80 layers with a head, 28 with a tied one, fused projections, rows that do not fill blocks.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { chooseEncodings, type FileType, type TypedTensor } from "./tensor-types.js";

interface Chosen {
  /** Matrices: name, rows, columns. */
  readonly tensors: readonly string[];
  /** A letter per tensor, by type. */
  readonly [type: string]: string | readonly string[];
}

const FILE = join(import.meta.dirname, "../../../test/fixtures/gguf/types.json");
const CASES = JSON.parse(readFileSync(FILE, "utf8")) as Record<string, Chosen>;
const LETTERS: Readonly<Record<string, string>> = {
  F16: "h",
  Q4_0: "4",
  Q8_0: "8",
  Q5_0: "5",
  Q5_1: "1",
  Q4_K: "a",
  Q5_K: "b",
  Q6_K: "c",
};
const TYPES = ["q4_k_m", "q5_k_m", "q6_k", "q4_0", "q8_0"] as const;

function parse(entry: string): TypedTensor {
  const [name = "", rows, columns] = entry.split(" ");
  return { name, shape: [Number(rows), Number(columns)], layer: Number(/^blk\.(\d+)/.exec(name)?.[1] ?? -1) };
}

test.each(Object.keys(CASES).flatMap((name) => TYPES.map((type): [string, FileType] => [name, type])))(
  "%s as %s gets the encodings of llama.cpp",
  (name, type) => {
    const chosen = CASES[name] as Chosen;
    const tensors = chosen.tensors.map(parse);
    const layers = 1 + Math.max(...tensors.map(({ layer }) => layer));
    const tied = !tensors.some((tensor) => tensor.name === "output.weight");
    const { encodings, notes } = chooseEncodings(tensors, type, { layers, tied, is70B: layers === 80 });
    expect(encodings.map((encoding) => LETTERS[encoding]).join("")).toBe(chosen[type]);
    // Rows of 96 fill blocks of 32.
    expect(notes.length > 0).toBe(name === "odder" || (name === "odd" && type !== "q8_0"));
  },
);

const TRAITS = { layers: 1, tied: true, is70B: false };

test("rows that do not fill blocks are named with what is used instead", () => {
  const tensors = ["blk.0.ffn_up.weight 64 96", "blk.0.ffn_down.weight 96 40", "blk.0.attn_norm.weight 4 40"].map(
    parse,
  );
  expect(chooseEncodings(tensors, "q4_k_m", TRAITS)).toEqual({
    encodings: ["Q5_0", "F16", "F32"],
    notes: [
      "rows do not fill blocks of q4_k, so q5_0 is used for blk.0.ffn_up.weight",
      "rows do not fill blocks of q6_k, so f16 is used for blk.0.ffn_down.weight",
    ],
  });
});

test("embeddings of layers are as the tied embedding, and values count among those that there are", () => {
  const outside = ["token_embd.weight 8 256", "per_layer_token_embd.weight 8 256", "per_layer_model_proj.weight 8 256"];
  const values = [0, 1, 2, 3].map((layer) => `blk.${layer}.attn_v.weight 8 256`);
  const { encodings } = chooseEncodings([...outside, ...values].map(parse), "q4_k_m", { ...TRAITS, layers: 32 });
  expect(encodings).toEqual(["Q6_K", "Q6_K", "F16", "Q4_K", "Q4_K", "Q6_K", "Q6_K"]);
});

test("overrides apply to the tensors that they match, the first one first", () => {
  const tensors = ["token_embd.weight 8 256", "blk.0.ffn_up.weight 8 256", "blk.0.ffn_down.weight 8 256"].map(parse);
  const chosen = (...overrides: string[]) => chooseEncodings(tensors, "q4_0", TRAITS, overrides).encodings;
  expect(chosen()).toEqual(["Q6_K", "Q4_0", "Q4_0"]);
  expect(chosen("ffn_(up|gate)=F16", "ffn=q8_0")).toEqual(["Q6_K", "F16", "Q8_0"]);
  expect(chosen("^token=q5_k")).toEqual(["Q5_K", "Q4_0", "Q4_0"]);
});

test.each([
  ["ffn_up", "must be PATTERN=TYPE, such as ffn_down=q8_0"],
  ["=q8_0", "must be PATTERN=TYPE"],
  ["ffn_up=q3_k", "types are f32, f16, bf16"],
  ["ffn_(=q8_0", "Invalid regular expression"],
  ["lm_head=q8_0", "matches no tensor; names are like blk.0.ffn_up.weight"],
])("the override %s is refused", (override, reason) => {
  const tensors = [parse("blk.0.ffn_up.weight 8 256")];
  expect(() => chooseEncodings(tensors, "q4_0", TRAITS, [override])).toThrow(reason);
});

test("convolutions stay float32, which llama.cpp asks for, and so do routers", () => {
  const names = ["ssm_conv1d", "shortconv.conv", "ffn_gate_inp", "ssm_out"].map((name) => `blk.0.${name}.weight`);
  const tensors = names.map((name) => ({ name, shape: [256, 256], layer: 0 }));
  for (const type of ["f16", "bf16", "q4_k_m"] as const) {
    const { encodings } = chooseEncodings(tensors, type, { layers: 1, tied: false, is70B: false });
    expect(encodings.slice(0, 3)).toEqual(["F32", "F32", "F32"]);
    expect(encodings[3]).not.toBe("F32");
  }
});
