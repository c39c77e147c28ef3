// Reads of each expert only the blocks that changed most, and the base's in place of the others (MergePipe, arXiv 2602.13273).

import { z } from "zod";
import type { Checkpoint, CheckpointTensor } from "../../formats/checkpoint/index.js";
import { keptText } from "../../kit/files/index.js";
import { elementCount, RecipeError, sameShape } from "../../kit/index.js";
import { commandLine, formatPercent } from "../../kit/printing/index.js";
import { packBits, unpackBits } from "../../tensor/expressions/index.js";
import { blockRowsOf } from "../../tensor/streaming/index.js";

/** Squared change of each block of rows, by tensor. */
export type Sketch = Readonly<Record<string, readonly number[]>>;

/** Blocks that are read, one bit each in base64, by source and tensor. A tensor that is not named is read as a whole. */
export type ReadBlocks = Readonly<Record<string, Readonly<Record<string, string>>>>;

// A change that is not finite has null.
const sketchSchema = z.record(z.string(), z.array(z.number().nonnegative().nullable().transform(Number)));

const sketchOf = (model: Checkpoint, base: Checkpoint) =>
  keptText(
    "sketches",
    [...model.files, ...base.files].map(({ path }) => path),
  );

/** Keeps a sketch beside those of other models, for `budget`. */
export async function keepSketch(model: Checkpoint, base: Checkpoint, sketch: Sketch): Promise<void> {
  const { keep } = await sketchOf(model, base);
  await keep(JSON.stringify(sketch, (_, value) => (typeof value === "number" ? Number(value.toPrecision(4)) : value)));
}

/** Undefined of a text that is no sketch, as of none. */
function readSketch(text = ""): Sketch | undefined {
  try {
    return sketchSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The base of a source: that of its recipe, or of one around it. */
function baseFor(id: string, sources: ReadonlyMap<string, Checkpoint>): string | undefined {
  const steps = id.split(".");
  const around = steps.map((_, i) => [...steps.slice(0, steps.length - 1 - i), "base"].join("."));
  return around.find((base) => sources.has(base));
}

/** The rows of a tensor by block; none where its rows cannot be exchanged with the base's. */
function blocksOf(own: CheckpointTensor, twin: CheckpointTensor | undefined): [from: number, to: number][] {
  const [rows = 1, columns = 1] = own.shape.slice(-2);
  const isPlain = ({ lowRank, gathered, blocks, coded, undo }: CheckpointTensor) =>
    !(lowRank || gathered || blocks || coded || undo);
  const isLike = twin && own.dtype === twin.dtype && sameShape(own.shape, twin.shape);
  if (!isLike || !isPlain(own) || !isPlain(twin) || own.shape.length < 2 || own.shape.length > 3) return [];
  const step = blockRowsOf(columns);
  const matrices = elementCount(own.shape) / (rows * columns);
  return Array.from({ length: matrices }, (_, i) =>
    Array.from({ length: Math.ceil(rows / step) }, (_, block): [number, number] => {
      return [i * rows + block * step, i * rows + Math.min(rows, (block + 1) * step)];
    }),
  ).flat();
}

/**
 * Chooses what to read of each source: of the share of its bytes, the blocks with the largest change by element.
 * @param models the sources that are merged, by label
 * @returns the blocks, and notes on what is left out
 * @throws RecipeError if a source has no base, or no sketch
 */
export async function chooseBlocks(
  budget: number,
  models: ReadonlyMap<string, Checkpoint>,
  isBase: (label: string) => boolean,
): Promise<{ readonly read: ReadBlocks; readonly notes: readonly string[] }> {
  const read: Record<string, Record<string, string>> = {};
  const notes: string[] = [];
  const lacking: [base: string, model: string][] = [];
  for (const [label, model] of models) {
    if (isBase(label)) continue;
    const baseLabel = baseFor(label, models);
    const base = models.get(baseLabel ?? "");
    if (!base) {
      const what = `${label} has no base, whose blocks replace those that are not read. Name the base, or remove budget.`;
      throw RecipeError.at({ field: "budget" }, what);
    }
    const sketch = readSketch((await sketchOf(model, base)).text);
    if (!sketch) {
      lacking.push([base.source, model.source]);
      continue;
    }
    const chosen = choose(budget, model, base, sketch);
    read[label] = chosen.read;
    notes.push(
      `budget ${budget}: reads ${formatPercent(chosen.share)} of ${label}, and leaves out ${formatPercent(chosen.leftOut)} of its squared change`,
    );
  }
  const [first] = lacking;
  if (first) {
    const models = lacking.map(([, model]) => model);
    const experts = models.map((model, i) => `expert-${i + 1}=${model}`);
    const command = commandLine`analyze --base ${first[0]} --expert ${experts}`;
    const what = `budget needs the size of each block's change, which is not known of ${models.join(", ")}.`;
    throw RecipeError.at(
      { field: "budget" },
      `${what} Measure it once, two seconds or more after it was written, with: ${command}`,
    );
  }
  return { read, notes };
}

function choose(budget: number, model: Checkpoint, base: Checkpoint, sketch: Sketch) {
  const bits = new Map<string, Uint8Array>();
  const blocks: { tensor: string; index: number; bytes: number; squares: number }[] = [];
  let [all, spent] = [0, 0];
  for (const [tensor, own] of model.tensors) {
    all += own.bytes;
    const rows = blocksOf(own, base.tensors.get(tensor));
    const squares = sketch[tensor] ?? [];
    if (rows.length === 0 || squares.length !== rows.length) {
      spent += own.bytes;
      continue;
    }
    bits.set(tensor, new Uint8Array(rows.length));
    const perRow = own.bytes / (rows.at(-1)?.[1] ?? 1);
    for (const [index, [from, to]] of rows.entries()) {
      blocks.push({ tensor, index, bytes: (to - from) * perRow, squares: squares[index] as number });
    }
  }
  let [changed, left] = [0, 0];
  // Equals stay in the order of the tensors.
  for (const { tensor, index, bytes, squares } of blocks.sort((a, b) => b.squares / b.bytes - a.squares / a.bytes)) {
    changed += squares;
    if (squares === 0) continue;
    if (spent + bytes > budget * all) left += squares;
    else {
      spent += bytes;
      (bits.get(tensor) as Uint8Array)[index] = 1;
    }
  }
  const read = Object.fromEntries([...bits].map(([tensor, flags]) => [tensor, packBits(flags)]));
  return { read, share: all > 0 ? spent / all : 0, leftOut: changed > 0 ? left / changed : 0 };
}

/** The sources, with the base's rows in place of blocks that are not read. */
export function withinBudget(sources: ReadonlyMap<string, Checkpoint>, read: ReadBlocks): Map<string, Checkpoint> {
  /** Row numbers from 0 on: tensors of a height share them. */
  const numbers = new Map<number, Int32Array>();
  return new Map(
    [...sources].map(([label, model]) => {
      const base = sources.get(baseFor(label, sources) ?? "");
      const own = read[label];
      if (!own || !base) return [label, model];
      const tensors = [...model.tensors].map(([name, tensor]): [string, CheckpointTensor] => {
        const twin = base.tensors.get(name);
        const blocks = blocksOf(tensor, twin);
        const packed = own[name];
        if (!twin || packed === undefined || blocks.length === 0) return [name, tensor];
        const height = blocks.at(-1)?.[1] ?? 0;
        const row = numbers.get(height) ?? Int32Array.from({ length: height }, (_, i) => i);
        numbers.set(height, row);
        const part = new Uint8Array(row.length);
        const flags = unpackBits(packed, blocks.length);
        for (const [i, [from, to]] of blocks.entries()) if (!flags[i]) part.fill(1, from, to);
        const parts = [tensor, twin].map(({ file, offset }) => ({ file, offset }));
        return [name, part.includes(1) ? { ...tensor, gathered: { parts, part, row } } : tensor];
      });
      return [label, { ...model, tensors: new Map(tensors) }];
    }),
  );
}
