// The rows that an analysis counts, against what the engine multiplies by: every tiny decoder of test/fixtures/decoders.
import { copyFileSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, test } from "vitest";
import type { ReadTensor } from "../../../test/support/checkpoints.js";
import { CASES, readTensors } from "../../../test/support/decoder-fixtures.js";
import { specOf } from "../../../test/support/golden-decoders.js";
import { Bench } from "../../../test/support/merging.js";
import { readFolder, toNumbers } from "../../../test/support/numbers.js";
import { blockOf, type DecoderSpec, type Part } from "../../families/index.js";
import { type Checkpoint, openCheckpoint } from "../../formats/checkpoint/index.js";
import { type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";
import { elementCount } from "../../kit/index.js";
import { type RowAxis, rowLayout } from "../../tensor/measurements/index.js";
import { analyzeExperts } from "./analysis.js";
import { columnName, heatmapOf } from "./analysis-views.js";
import { isCounted } from "./counted.js";

const bench = new Bench();
const ROOT = join(import.meta.dirname, "../../..");
const MODELS = CASES.filter((name) => name !== "falcon3"); // its weights are Llama's
const folderOf = (name: string) => join(ROOT, "test/fixtures/decoders", name);

interface Rows {
  readonly input: number;
  readonly output: number;
}

/** Whether the family's page gives a matrix the part of its role in the decoder. */
const FITS: Readonly<Record<string, (part: Part) => boolean>> = {
  ...Object.fromEntries(["q", "k", "v", "o", "qDown", "kvDown", "kv"].map((role) => [role, isOfAttention])),
  ...Object.fromEntries(
    ["mix", "convolution", "outputGate", "rate", "decay", "mixed"].map((role) => [role, (part) => part === "mixer"]),
  ),
  gate: (part) => part === "gate_proj" || part === "gate_up_proj",
  up: (part) => part === "up_proj" || part === "gate_up_proj",
  gateUp: (part) => part === "gate_up_proj",
  down: (part) => part === "down_proj",
  router: (part) => part === "router",
  sharedGate: (part) => part === "shared_expert_gate",
  narrow: (part) => part === "feed_forward",
  widen: (part) => part === "feed_forward",
  inputGate: (part) => part === "other",
  inputUp: (part) => part === "other",
};

function isOfAttention(part: Part): boolean {
  return blockOf(part) === "attention" && !part.endsWith("_norm");
}

/** Inputs and outputs of every matrix of the layers, as the engine multiplies by it, with its roles. */
function multiplied({ layers }: DecoderSpec): Map<string, Rows & { readonly roles: readonly string[] }> {
  const found = new Map<string, Rows & { readonly roles: readonly string[] }>();
  for (const { weights, experts } of layers) {
    for (const [role, one] of [...Object.entries(weights), ...Object.entries(experts ?? {})]) {
      const { weight, weights: all = [weight], transposed } = one;
      if (!Object.hasOwn(FITS, role)) continue;
      for (const { name, shape, rows } of all) {
        const [height, width, taps] = shape;
        const [stored, matrices] = [rows?.of ?? height, rows?.matrices ?? 1];
        const columns = taps === undefined ? width * matrices : stored;
        const roles = [...(found.get(name)?.roles ?? []), role];
        found.set(name, {
          ...(transposed ? { input: stored, output: columns } : { input: columns, output: stored }),
          roles,
        });
      }
    }
  }
  return found;
}

/** Names as the engine has them, without the text before `layers`. */
const inLayers = ({ tensors, layerPrefix }: Checkpoint) =>
  [...tensors.values()]
    .filter(({ layer }) => layer !== null)
    .map((tensor) => ({ ...tensor, tensor: tensor.name, short: `layers.${tensor.name.slice(layerPrefix.length)}` }));

type LayerTensor = ReturnType<typeof inLayers>[number];

function rowsOf(tensor: LayerTensor, rows: RowAxis): number {
  const { matrices, axis } = rowLayout(tensor, rows);
  const width = tensor.shape.at(-1) ?? 1;
  return axis === "vector" ? 1 : axis === "rows" ? elementCount(tensor.shape) / width : matrices * width;
}

describe("every matrix of the layers is counted, by its inputs and by its outputs:", () => {
  it.each(MODELS)("%s", async (name) => {
    const [checkpoint, wanted] = [await openCheckpoint(folderOf(name)), multiplied(specOf(name))];
    expect(checkpoint.architecture).not.toBe("unknown");
    const counted = inLayers(checkpoint).filter(isCounted);
    const found = counted.map((one) => {
      return [one.short, { input: rowsOf(one, "input"), output: rowsOf(one, "output") }] as const;
    });
    const plain = [...wanted].map(([tensor, { input, output }]) => [tensor, { input, output }] as const);
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(plain));
    const wrong = counted.filter(({ short, part }) => !wanted.get(short)?.roles.every((role) => FITS[role]?.(part)));
    expect(wrong.map(({ short, part }) => `${short} is ${part}`)).toEqual([]);
  });
});

/** A line for a model: the rows that its layers multiply by, those that are counted by kind, and vectors, which have none. */
async function lineOf(name: string): Promise<string> {
  const checkpoint = await openCheckpoint(folderOf(name));
  const all = [...multiplied(specOf(name)).values()].reduce((sum, { input }) => sum + input, 0);
  const tensors = inLayers(checkpoint);
  const { analysis } = await analyzeExperts({ base: folderOf(name), experts: { same: folderOf(name) } });
  const { rows = 0 } = analysis.matrices.experts[0] ?? {};
  const columns = heatmapOf(analysis).columns.map((column) => {
    const own = tensors.filter((one) => isCounted(one) && columnName(one.part) === column);
    return `${column} ${own.reduce((sum, one) => sum + rowsOf(one, "input"), 0)}`;
  });
  const vectors = tensors.filter((one) => !isCounted(one)).map(kindOfVector);
  const cells = [`\`${name}\``, rows, all, columns.join(", "), [...new Set(vectors)].sort().join(", ")];
  return `| ${cells.join(" | ")} |`;
}

function kindOfVector({ tensor, part }: LayerTensor): string {
  if (part.endsWith("_norm") || /norm\d?\.(weight|bias)$/.test(tensor)) return "norms";
  if (/[._]bias$/.test(tensor) && !/\.(dt_bias|expert_bias|e_score_correction_bias)$/.test(tensor)) return "biases";
  return `\`${tensor.replace(/^.*\.(?=[^.]+$)/, "")}\``;
}

test("the table of the documentation has the rows of every family", async () => {
  const text = readFileSync(join(ROOT, "docs/families.md"), "utf8");
  const [, table = ""] = /<!-- rows -->\n\n([\s\S]*?)\n\n<!-- end: rows -->/.exec(text) ?? [];
  const lines = [];
  for (const name of MODELS) lines.push(await lineOf(name));
  expect(table.split("\n").slice(2)).toEqual(lines);
});

/** A copy of the gpt-oss fixture, or of Nemotron-H's, with other values. */
async function written(name: string, change: (tensor: string, shape: readonly number[], i: number) => number) {
  const folder = bench.next(name);
  mkdirSync(folder);
  copyFileSync(join(folderOf(name), "config.json"), join(folder, "config.json"));
  const stored = readTensors(join(folderOf(name), "model.safetensors"));
  const tensors = [...stored].map(([tensor, { shape, values }]): TensorData => {
    const data = Float32Array.from(values, (value, i) => value + change(tensor, shape, i));
    return { name: tensor, dtype: "F32", shape: [...shape], data: new Uint8Array(data.buffer) };
  });
  await writeSafetensors(join(folder, "model.safetensors"), tensors);
  return folder;
}

test.each([
  // Experts [5, in 8, out 16]: of expert 1 the weights of input 3, of all others a little.
  ["gpt_oss", "mlp.experts.gate_up_proj", (i: number) => Math.floor(i / 16) === 8 + 3],
  // Their biases [5, out 16], a row for each expert.
  ["gpt_oss", "mlp.experts.gate_up_proj_bias", (i: number) => Math.floor(i / 16) === 1],
  // A convolution [channels, 1, 3 taps], a row for each channel.
  ["nemotron_h", "mixer.conv1d.weight", (i: number) => Math.floor(i / 3) === 4],
] as const)("%s: revert restores the rows of %s that an analysis measures", async (name, end, isInRow) => {
  const moved = (tensor: string, _: unknown, i: number) =>
    tensor.endsWith(`.${end}`) ? (isInRow(i) ? 0.5 : 2 ** -10) : 0;
  const [base, expert] = [await written(name, () => 0), await written(name, moved)];
  const { analysis, rows } = await analyzeExperts({ base, experts: { expert } });
  const { tensors } = await bench.merge({ method: "revert", expert, base, rows_below: 0.25 });
  const changed = analysis.tensors.filter(({ tensor }) => tensor.endsWith(`.${end}`));
  expect(changed.length).toBeGreaterThan(0);
  for (const { tensor } of changed) {
    const large = [...(rows.get(`expert/${tensor}`) ?? [])].filter((row) => row > 0.25);
    expect(large).toEqual([0.5]);
    const [before, after, merged] = await Promise.all(
      [readFolder(base), readFolder(expert), tensors].map(async (all) =>
        toNumbers((await all).get(tensor) as ReadTensor),
      ),
    );
    expect(merged).toEqual(after?.map((value, i) => (isInRow(i) ? value : before?.[i])));
  }
});
