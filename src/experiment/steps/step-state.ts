// The state of a step, from its folder: a result if it is done, otherwise how the last attempt went.
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { readJsonObject, writeFileAtomically } from "../../kit/files/index.js";
import type { ModelSource, Step } from "./step.js";

const ATTEMPT_FILE = "attempt.json";

const runner = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("local"), host: z.string(), pid: z.int() }),
  z.object({ kind: z.literal("slurm"), job: z.string() }),
]);
export type StepRunnerId = z.output<typeof runner>;

const attemptSchema = z.discriminatedUnion("state", [
  z.object({ state: z.literal("running"), since: z.string(), runner }),
  z.object({ state: z.literal("failed"), reason: z.string() }),
  /** It was stopped, or its process is gone. It can be resumed. */
  z.object({ state: z.literal("stopped"), reason: z.string() }),
]);
export type Attempt = z.output<typeof attemptSchema>;

export type StepState =
  | { readonly state: "pending"; readonly reason?: string }
  | { readonly state: "running"; readonly since: string; readonly runner: StepRunnerId }
  | { readonly state: "failed"; readonly reason: string }
  /** `seconds`: duration of the step, in all attempts; 0 of results from earlier versions. */
  | { readonly state: "done"; readonly seconds: number };

/** How the last attempt went; undefined if there was none, or the file is damaged. */
export async function readAttempt(folder: string): Promise<Attempt | undefined> {
  try {
    return attemptSchema.parse(await readJsonObject(join(folder, ATTEMPT_FILE)));
  } catch {
    return undefined;
  }
}

/** Saves how an attempt goes; undefined removes it, because there is a result. */
export async function saveAttempt(folder: string, attempt: Attempt | undefined): Promise<void> {
  if (attempt) await writeFileAtomically(join(folder, ATTEMPT_FILE), `${JSON.stringify(attempt)}\n`);
  else await rm(join(folder, ATTEMPT_FILE), { force: true });
}

export interface StepOrder {
  readonly step: Step;
  /** Absolute folders of the models that the step names by identity. */
  readonly folders: Readonly<Record<string, string>>;
  readonly settings: StepSettings;
}

export interface StepSettings {
  /** Absolute folder that the plan's relative paths start from. */
  readonly folder: string;
  /** Absolute folder of the data sets of evaluation. */
  readonly data?: string;
  readonly allowCode: boolean;
  readonly unsafeCode?: boolean;
  readonly threads?: number;
  /** When the experiment began, as a clock on the wall showed it, which chat templates may write. */
  readonly started?: string;
}

export const STEP_FILES = {
  order: "step.json",
  log: "log.txt",
  exit: "exit.json",
  notes: "notes.txt",
  worked: "worked.txt",
} as const;

/** Replaces the identities in a source by folders. */
export function withFolders(source: ModelSource, folders: Readonly<Record<string, string>>): ModelSource {
  return replaced(source, folders) as ModelSource;
}

function replaced(value: unknown, folders: Readonly<Record<string, string>>): unknown {
  if (typeof value === "string") return Object.hasOwn(folders, value) ? folders[value] : value;
  if (Array.isArray(value)) return value.map((inner) => replaced(inner, folders));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, replaced(inner, folders)]));
}
