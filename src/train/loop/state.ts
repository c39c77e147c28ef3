// The state of a run as a folder, to resume from: weights and moments in float32, and the progress as JSON.
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import {
  openSafetensors,
  readTensorPieces,
  type SafetensorsFile,
  type TensorInfo,
  type TensorToWrite,
  writeSafetensors,
} from "../../formats/safetensors/index.js";
import { canonicalJson, changesOf, exists, readJsonObject, writeFolder } from "../../kit/files/index.js";
import { CheckpointError, formatShape, LayergraftError, own, RecipeError, sameShape } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { recordOf } from "../../kit/settings/index.js";
import type { Parameter } from "./optimizer.js";

const VERSION = 1;
const PAGE = "state.json";
const TENSORS = "tensors.safetensors";

const count = z.int().min(0);

// States of 1.0 have more fields, so others are ignored.
const progressSchema = z.object({
  step: count,
  samples: count,
  tokens: count,
  /** Of each stream, as the stream writes it. */
  position: z.array(z.json()),
  /** Bytes of the log up to this step; what follows is cut off. */
  logBytes: count,
  /** The lowest held-out loss, and after how many samples it was measured. */
  best: z.strictObject({ score: z.number(), samples: count }).nullable(),
  /** Measurements since the best, for early stopping. */
  sinceBest: count,
});

/** How far a run is. It has no state of random generators, as each random number is a function of the seed and its purpose. */
export type Progress = z.output<typeof progressSchema>;

const pageSchema = z.strictObject({
  version: z.literal(VERSION),
  progress: progressSchema,
  /** The run, defaults filled in. */
  configuration: z.json(),
  /** Digests of base and data, by a name for messages. */
  inputs: recordOf(z.string()),
  /** When the run began, which chat templates may write. States of earlier versions have none. */
  started: z.iso.datetime({ local: true }).optional(),
  parameterSteps: recordOf(count),
});

type Page = z.output<typeof pageSchema>;

export interface StateToWrite {
  readonly progress: Progress;
  readonly configuration: Page["configuration"];
  readonly inputs: Readonly<Record<string, string>>;
  readonly started?: string | undefined;
  readonly parameters: Iterable<Omit<Parameter, "gradient">>;
}

/** A complete state, whose tensors are not read yet. */
export interface SavedState extends Omit<Page, "version"> {
  readonly folder: string;
  readonly file: SafetensorsFile;
}

/** Arrays of a parameter, which prefix its name. */
const ARRAYS = ["weights", "first", "second"] as const;

const tensorName = (array: (typeof ARRAYS)[number], parameter: string) => `${array}.${parameter}`;

/** Numbered by state, not by step: a step may be saved twice, before and after a resume. */
const FOLDER = /^state-(\d{1,15})$/;

const folderName = (number: number) => `state-${number}`;

/** Numbers of the states in a folder, the newest last. */
async function stateNumbers(states: string): Promise<number[]> {
  if (!(await exists(states))) return [];
  const names = await readdir(states);
  return names
    .flatMap((name) => Number(FOLDER.exec(name)?.[1] ?? Number.NaN))
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
}

/**
 * Writes a state, then removes the earlier ones, so that at any moment one complete state is there.
 * @param states the folder of states; made if missing
 * @returns the folder of the new state
 * @throws DiskFullError if there is no room; the former state stays
 */
export async function writeState(states: string, state: StateToWrite): Promise<string> {
  const { progress, configuration, inputs, started } = state;
  const parameters = [...state.parameters];
  const former = await stateNumbers(states);
  const final = join(states, folderName((former.at(-1) ?? 0) + 1));
  await mkdir(states, { recursive: true });
  const fill = async (partial: string) => {
    const tensors = parameters.flatMap((parameter) =>
      ARRAYS.map((array): TensorToWrite => {
        const name = tensorName(array, parameter.name);
        return { name, dtype: "F32", shape: parameter.shape, data: parameter[array] };
      }),
    );
    await writeSafetensors(join(partial, TENSORS), tensors);
    const parameterSteps = Object.fromEntries(parameters.map(({ name, steps }) => [name, steps]));
    const page: Page = { version: VERSION, progress, configuration, inputs: { ...inputs }, started, parameterSteps };
    await writeFile(join(partial, PAGE), `${JSON.stringify(JSON.parse(canonicalJson(page)), undefined, 1)}\n`);
  };
  await writeFolder(final, `the state of step ${progress.step}`, fill, { retry: "resume" });
  for (const number of former) await rm(join(states, folderName(number)), { recursive: true, force: true });
  return final;
}

/**
 * Finds and checks the newest state, without reading tensors.
 * @returns undefined if there is none
 * @throws CheckpointError or FormatError if it is damaged, or of another version
 */
export async function findState(states: string): Promise<SavedState | undefined> {
  const newest = (await stateNumbers(states)).at(-1);
  if (newest === undefined) return undefined;
  const folder = join(states, folderName(newest));
  const path = join(folder, PAGE);
  const withAdvice = (error: unknown) => {
    if (!(error instanceof LayergraftError)) throw error;
    throw new CheckpointError(`${error.message}. Remove ${folder} to start again.`, error.where, error);
  };
  const json = await readJsonObject(path).catch(withAdvice);
  if (json.version !== VERSION) {
    throw new CheckpointError(
      `${path} has version ${JSON.stringify(json.version)}, but this layergraft reads version ${VERSION}. Resume with the layergraft that wrote it.`,
      { file: path, field: "version", expected: String(VERSION), actual: String(json.version) },
    );
  }
  const parsed = pageSchema.safeParse(json);
  if (!parsed.success) {
    const fields = parsed.error.issues.map((issue) => issue.path.join(".") || "the whole file");
    const message = `${path} is damaged: ${formatSome(fields)}. Remove ${folder} to start again.`;
    throw new CheckpointError(message, { file: path, field: fields[0] ?? "" });
  }
  const { version: _, ...page } = parsed.data;
  return { ...page, folder, file: await openSafetensors(join(folder, TENSORS)).catch(withAdvice) };
}

/**
 * Fills parameters from a state: weights, moments, steps.
 * @throws CheckpointError if the state has other parameters or shapes; nothing is changed then
 */
export async function restoreParameters(
  { file, folder, parameterSteps }: SavedState,
  parameters: ReadonlyMap<string, Parameter>,
): Promise<void> {
  const stored = new Map(file.tensors.map((tensor) => [tensor.name, tensor]));
  const kept = [...parameters.values()].flatMap((parameter) =>
    ARRAYS.map((array) => ({ parameter, array, name: tensorName(array, parameter.name) })),
  );
  const problems = kept.flatMap(({ parameter, name }) => {
    const found = stored.get(name);
    if (!found) return [`${name} is missing`];
    if (found.dtype === "F32" && sameShape(found.shape, parameter.shape)) return [];
    return [`${name} is ${found.dtype} ${formatShape(found.shape)}, not F32 ${formatShape(parameter.shape)}`];
  });
  const known = new Set(kept.map(({ name }) => name));
  problems.push(...file.tensors.filter(({ name }) => !known.has(name)).map(({ name }) => `${name} is not trained now`));
  problems.push(
    ...[...parameters.keys()]
      .filter((name) => !Object.hasOwn(parameterSteps, name))
      .map((name) => `the steps of ${name} are missing`),
  );
  if (problems.length > 0) {
    const message = `${folder} is not a state of this run: ${formatSome(problems)}. Remove it to start again.`;
    throw new CheckpointError(message, { file: file.path });
  }
  for (const { parameter, array, name } of kept) {
    const { buffer, byteOffset } = parameter[array];
    let at = byteOffset;
    for await (const piece of readTensorPieces(file, stored.get(name) as TensorInfo)) {
      new Uint8Array(buffer, at, piece.length).set(piece);
      at += piece.length;
    }
  }
  for (const parameter of parameters.values()) parameter.steps = own(parameterSteps, parameter.name) ?? 0;
}

/** Fields that may change: when and how to save, and threads, which change the last bits of sums at most. */
const FREE = /^(out|threads|save_dtype|revert|lora\.merge|checkpoints\.(keep|every_samples))(\.|\[|$)/;

export interface ResumeParts {
  readonly configuration: unknown;
  /** Digests of what is read, by a name for messages. */
  readonly inputs: Readonly<Record<string, string>>;
}

/** @throws RecipeError with every field and input that differs */
export function requireSameRun(saved: ResumeParts, current: ResumeParts): void {
  const changes = changesOf(saved.configuration, current.configuration);
  const problems = changes.filter(({ field }) => !FREE.test(field)).map(({ text }) => text);
  for (const { field, saved: was, current: is } of changesOf(saved.inputs, current.inputs)) {
    if (was === undefined) problems.push(`${field} was not read before`);
    else problems.push(is === undefined ? `${field} is not read any more` : `${field} has changed since`);
  }
  if (problems.length === 0) return;
  const message = "a run can only resume unchanged. Undo these changes, or start a new run in another folder:";
  throw new RecipeError(message, problems);
}
