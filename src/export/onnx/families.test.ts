// Exported folders of all families in ONNX Runtime, fed as transformers.js feeds them, against transformers.
// @module-tag slow
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { ExportedModel } from "../../../test/support/exported-model.js";
import { allGoldens, distance, type Golden, specOf } from "../../../test/support/golden-decoders.js";
import { openModelSource } from "../../engine/index.js";
import { planOnnx } from "./plan-onnx.js";
import { writeOnnx } from "./write-onnx.js";

const folder = temporaryFolder();

/** Rows padded on the left. */
function padded({ rows, padding }: Golden) {
  const ids = rows.map((row, i) => [...Array<number>(padding[i] as number).fill(0), ...row]);
  const mask = rows.map((row, i) => [...Array<number>(padding[i] as number).fill(0), ...row.map(() => 1)]);
  return { ids, mask };
}

// Float32 in both, additions in another order; logits are of a size up to 10.
const LOGITS = 1e-4;

const hasStates = ({ folder }: Golden) => specOf(folder).recurrence !== null;

/** States and heads of several sizes are refused; texts of a dynamic rotation are longer here than an export's tables. */
function isExported({ folder }: Golden) {
  const { recurrence, layers, kvHeads, headDim, ropes } = specOf(folder);
  const isEven = layers.every((one) => one.kvHeads === kvHeads && one.headDim === headDim && one.valueDim === headDim);
  return recurrence === null && isEven && ropes.every(({ dynamic }) => dynamic === undefined);
}

it.each(allGoldens().filter(({ name }) => name.startsWith("gemma4")))("$name is refused", async ({ folder: model }) => {
  const source = await openModelSource(model);
  const reason = /cannot be exported as ONNX: its layers have heads of different sizes or share keys/;
  expect(() => planOnnx(source, { type: "fp32" })).toThrow(reason);
});

const isLatent = ({ name }: Golden) => name.startsWith("deepseek_v3");

it.each(allGoldens().filter(isLatent))("$name is refused: its keys and values have two widths", async ({ folder }) => {
  const source = await openModelSource(folder);
  expect(() => planOnnx(source, { type: "fp32" })).toThrow("values of another width than keys");
});

describe.each(allGoldens().filter(isExported))("$name as fp32", (expected: Golden) => {
  let model: ExportedModel;
  beforeAll(async () => {
    const out = join(folder, expected.name);
    await writeOnnx(planOnnx(await openModelSource(expected.folder), { type: "fp32" }), { out });
    model = await ExportedModel.open(out);
  });
  afterAll(() => model.close());

  it("has the logits of transformers: at once, padded, in parts, and of the last position", async () => {
    const { ids, mask } = padded(expected);
    const unpadded = (logits: readonly (readonly number[][])[]) =>
      logits.map((list, row) => list.slice(expected.padding[row]));
    model.reset();
    const whole = await model.pass(ids, mask);
    expect(distance(unpadded(whole).flat(2), expected.logits.flat(2))).toBeLessThan(LOGITS);
    model.reset();
    const parts = ids.map((): number[][] => []);
    for (let from = 0; from < expected.width; from += 5) {
      const cut = (lists: readonly (readonly number[])[]) => lists.map((list) => list.slice(from, from + 5));
      for (const [row, list] of (await model.pass(cut(ids), cut(mask))).entries()) parts[row]?.push(...list);
    }
    // Where frequencies depend on the length, a text in parts has others at its beginning.
    if (expected.short === undefined) {
      expect(distance(unpadded(parts).flat(2), expected.logits.flat(2))).toBeLessThan(LOGITS);
    }
    model.reset();
    const last = await model.pass(ids, mask, 1);
    expect(last.map(({ length }) => length)).toEqual(ids.map(() => 1));
    expect(
      distance(
        last.flat(2),
        whole.flatMap((list) => list.at(-1) ?? []),
      ),
    ).toBeLessThan(LOGITS);
  });

  it("generates as transformers, padded in a batch", async () => {
    const { ids, mask } = padded(expected);
    const { greedy } = expected;
    model.reset();
    const prompts = ids.slice(0, greedy.length);
    expect(await model.greedy(prompts, mask.slice(0, greedy.length), greedy[0]?.length ?? 0)).toEqual(greedy);
  });
});

it.each(allGoldens().filter(hasStates))("$name is refused, as its states have no cache there", async ({ folder }) => {
  const source = await openModelSource(folder);
  expect(() => planOnnx(source, { type: "fp32" })).toThrow(/the export has no cache for the states of/);
});
