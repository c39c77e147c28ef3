// Reads folders with a tiny model and what transformers computed from it, for the engine's tests.
// Not a reader of checkpoints in general: expected.safetensors is read whole.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type DecoderSpec, readSpec } from "../../src/engine/model/index.js";
import { parseConfig } from "../../src/formats/checkpoint/index.js";
import { readTensors, type Values } from "./decoder-fixtures.js";

const FIXTURES = join(import.meta.dirname, "../fixtures/decoders");

// Further cases of the same layout may lie in a folder that this variable names.
const MORE = process.env.LAYERGRAFT_GOLDENS;

/** What transformers computed of one model. Rows are what is left of the batch without the padding before them. */
export interface Golden {
  readonly name: string;
  readonly folder: string;
  /** Tokens of each row. */
  readonly rows: readonly (readonly number[])[];
  /** Tokens of padding that stood before each row. */
  readonly padding: readonly number[];
  /** Tokens of a row with padding. */
  readonly width: number;
  /** Logits of each row, one list per token. */
  readonly logits: readonly (readonly (readonly number[])[])[];
  /** Most likely tokens that follow each row, as far as they were computed. */
  readonly greedy: readonly (readonly number[])[];
  /** By row of the padded batch; -100 where there is no loss. */
  readonly labels: readonly (readonly number[])[];
  readonly loss: number;
  /** The loss's derivative by each parameter. */
  readonly gradients: ReadonlyMap<string, Values>;
  /** Logits of the beginning of the first row alone, where frequencies depend on the length. */
  readonly short: readonly (readonly number[])[] | undefined;
}

const isCase = (folder: string) =>
  existsSync(join(folder, "config.json")) && existsSync(join(folder, "expected.safetensors"));

const foldersOf = (root: string): string[] =>
  readdirSync(root)
    .map((name) => join(root, name))
    .filter((folder) => isCase(folder) && readTensors(join(folder, "expected.safetensors")).has("logits"));

/** All cases, those of the repository first. */
export function allGoldens(): Golden[] {
  return [FIXTURES, ...(MORE === undefined ? [] : [MORE])].flatMap(foldersOf).map(readGolden);
}

/** A case of the repository. */
export function golden(name: string): Golden {
  return readGolden(join(FIXTURES, name));
}

/** The description of a case's decoder. @param name of a case of the repository, or its folder */
export function specOf(name: string): DecoderSpec {
  const file = join(resolve(FIXTURES, name), "config.json");
  const tensors = readTensors(join(resolve(FIXTURES, name), "model.safetensors"));
  return readSpec(parseConfig(JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>, file), tensors.keys());
}

function readGolden(folder: string): Golden {
  const tensors = readTensors(join(folder, "expected.safetensors"));
  const rowsOf = (name: string): number[][] => {
    const { shape, values } = tensors.get(name) as Values;
    return split(values, values.length / (shape[0] as number));
  };
  const mask = rowsOf("attention_mask");
  const padding = mask.map((row) => row.indexOf(1));
  const ids = rowsOf("input_ids");
  const width = ids[0]?.length as number;
  const vocabulary = tensors.get("logits")?.shape[2] as number;
  const short = tensors.get("short.logits");
  return {
    name: `${MORE !== undefined && folder.startsWith(MORE) ? "shared " : ""}${folder.split("/").at(-1)}`,
    folder,
    rows: ids.map((row, i) => row.slice(padding[i])),
    padding,
    width,
    logits: rowsOf("logits").map((row, i) => split(row, vocabulary).slice(padding[i])),
    greedy: rowsOf("greedy").map((row) => row.slice(width)),
    labels: rowsOf("labels"),
    loss: lossOf(folder, tensors),
    gradients: new Map(
      [...tensors].flatMap(([name, tensor]) =>
        name.startsWith("grad.") ? [[name.slice("grad.".length), tensor]] : [],
      ),
    ),
    short: short && split(short.values, vocabulary),
  };
}

/** Large cases have it in a file of its own. */
function lossOf(folder: string, tensors: ReadonlyMap<string, Values>): number {
  const stored = tensors.get("loss")?.values[0];
  if (stored !== undefined) return stored;
  return (JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as { loss: number }).loss;
}

function split(values: readonly number[], size: number): number[][] {
  return Array.from({ length: values.length / size }, (_, i) => values.slice(i * size, (i + 1) * size));
}

/** The largest distance of two lists of one length. */
export function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  let most = 0;
  for (let i = 0; i < a.length; i++) {
    const apart = Math.abs((a[i] as number) - (b[i] as number));
    // Not a number is far from everything.
    if (!(apart <= most)) most = Number.isNaN(apart) ? Number.POSITIVE_INFINITY : apart;
  }
  return most;
}

/** Natural log-probabilities of logits, in float64. */
export function logSoftmax(logits: readonly number[]): number[] {
  const most = Math.max(...logits);
  const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0));
  return logits.map((logit) => logit - most - total);
}

/**
 * Keeps a case's largest difference in the file that LAYERGRAFT_DIFFERENCES names, for the table of docs/families.md:
 * LAYERGRAFT_DIFFERENCES=test/fixtures/decoders/differences.json npx vitest run src/engine/golden.test.ts src/engine/gradients.test.ts --no-file-parallelism
 */
export function noteDifference(name: string, of: "logits" | "gradients", difference: number): void {
  const file = process.env.LAYERGRAFT_DIFFERENCES;
  if (file === undefined) return;
  const all = (existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {}) as Record<
    string,
    Record<string, number>
  >;
  const most = Math.max(all[name]?.[of] ?? 0, Number(difference.toPrecision(2)));
  const noted = Object.entries({ ...all, [name]: { ...all[name], [of]: most } }).sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(file, `${JSON.stringify(Object.fromEntries(noted), null, 1)}\n`);
}
