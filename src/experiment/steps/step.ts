// A step of an experiment as a value: what it does, with what, and the key that it is known by. Nothing is run here.

import type { z } from "zod";
import { digestOfValue } from "../../core/index.js";

/** Raised when a step's result would differ from an earlier version's, so that it is computed again. */
const STEP_FORMAT = 1;

export type Json = z.core.util.JSONType;

/** Where a model is found: a folder of the user's, or what an earlier step left. */
export type Location =
  | { readonly folder: string }
  /** `adapterOf`: what it left is an adapter to the model of this identity. */
  | { readonly step: string; readonly path: string; readonly adapterOf?: string };

/** A recipe whose sources are identities, or one identity. */
export type ModelSource = string | { readonly method: string; readonly [field: string]: unknown };

/** What evaluation is asked for, as the plan says it. */
export interface TaskRequest {
  readonly task: string;
  readonly shots?: number;
  readonly limit?: number;
  readonly protocol?: string;
}

interface StepParts {
  /** For people: `evaluate swahili-2 on mgsm_sw`. */
  readonly label: string;
  /** Steps that must be done before. */
  readonly needs: readonly string[];
  /** Where the models that the step names by their identity are. */
  readonly locations: Readonly<Record<string, Location>>;
}

export interface TrainStep extends StepParts {
  readonly kind: "train";
  readonly key: string;
  /** Name of the run. */
  readonly name: string;
  /** Fields of the run; `base` is an identity, and there is no `out`. */
  readonly run: Readonly<Record<string, Json>>;
  /** What identified the data of the run when the step was named; undefined: any data will do. */
  readonly data?: string;
  /** How TRL trains it; undefined where layergraft does. */
  readonly trl?: {
    readonly python: string;
    readonly processes: number;
    readonly precision: "float32" | "bfloat16";
    readonly gradient_checkpointing: boolean;
  };
}

export interface AnalyzeStep extends StepParts {
  readonly kind: "analyze";
  readonly key: string;
  readonly base: string;
  readonly task: string;
  readonly language: string;
}

export interface EvaluateStep extends StepParts {
  readonly kind: "evaluate";
  readonly key: string;
  readonly model: ModelSource;
  readonly request: TaskRequest;
  /** Of all items of the task, and how they are judged, when the step was named; undefined: any will do. */
  readonly digest?: string;
  /** Places of the items in the task's own order; null: all of them. */
  readonly items: readonly number[] | null;
  readonly backend: string;
}

export type Step = TrainStep | AnalyzeStep | EvaluateStep;
export type StepKind = Step["kind"];
export const KINDS: readonly StepKind[] = ["train", "analyze", "evaluate"];

/**
 * The key of a step: a digest of everything that its result depends on. Labels, places and resources are not among it,
 * so a model that moved or a plan that was renamed computes nothing again.
 */
export function stepKey(kind: StepKind, inputs: unknown): string {
  // 120 bits: enough that no two steps share one, short enough for folders' names.
  return `${kind}-${digestOfValue([STEP_FORMAT, kind, inputs]).slice(0, 30)}`;
}

/** The kind of the step that has a key. */
export function kindOf(key: string): StepKind {
  return key.slice(0, key.indexOf("-")) as StepKind;
}

/** The identity of what a step left at a path of its folder. */
export function madeBy(key: string, path: string): string {
  return `step:${key}:${path}`;
}

/** Whether a backend is one that steps can use: the engine, or a server that is started for each model. */
export function isStepBackend(backend: string): boolean {
  return backend === "engine" || /^serve:.*\{port\}/s.test(backend);
}
