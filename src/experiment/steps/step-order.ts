// What a step's process reads: the step, and where its models are on this machine.
import type { ModelSource, Step } from "./step.js";

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
  /** Of training: absolute path of the event file to write. */
  readonly eventFile?: string;
}

export const STEP_FILES = { order: "step.json", log: "log.txt", exit: "exit.json" } as const;

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
