import type { z } from "zod";
import type { FileType } from "../../export/index.js";
import { digestOfValue } from "../../kit/files/index.js";
import type { TrlPrecision } from "../../train/index.js";

/** Raise it when results differ from an earlier version's, so that steps run again. */
const STEP_FORMAT = 1;

export const LLAMA = "llama";

export type JsonValue = z.core.util.JSONType;

/** Where a model is: a folder, or output of an earlier step. */
export type Location =
  | { readonly folder: string }
  /** `adapterOf`: identity of the model that the output is an adapter to. */
  | { readonly step: string; readonly path: string; readonly adapterOf?: string };

/** A recipe whose sources are identities, or one identity. */
export type ModelSource = string | { readonly method: string; readonly [field: string]: unknown };

/** A task with its settings, as the plan has it. */
export interface TaskRequest {
  readonly task: string;
  readonly shots?: number;
  readonly limit?: number;
  readonly protocol?: string;
  readonly max_new_tokens?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly repeats?: number;
  readonly prompts?: string;
}

interface StepFields {
  /** `evaluate swahili-2 on mgsm_sw` */
  readonly label: string;
  readonly needs: readonly string[];
  /** By identity, the models that the step uses. */
  readonly locations: Readonly<Record<string, Location>>;
}

export interface TrainStep extends StepFields {
  readonly kind: "train";
  readonly key: string;
  readonly name: string;
  /** Fields of the run; `base` is an identity, and there is no `out`. */
  readonly run: Readonly<Record<string, JsonValue>>;
  /** Identity of the run's data; undefined: not checked. */
  readonly data?: string;
  /** Settings of TRL; undefined: layergraft trains. */
  readonly trl?: {
    readonly python: string;
    readonly processes: number;
    readonly precision: TrlPrecision;
    readonly gradient_checkpointing: boolean;
  };
}

export interface AnalyzeStep extends StepFields {
  readonly kind: "analyze";
  readonly key: string;
  readonly base: string;
  /** Two, whose changes are compared, or one, whose change is mapped: identities by what the analysis names them. */
  readonly experts: Readonly<Record<string, string>>;
  /** What the plan calls them, for notes. */
  readonly names?: Readonly<Record<string, string>>;
  /** As `layergraft analyze` takes it. Default: auto. */
  readonly threshold?: string;
}

/** Writes a merge, or a model with an adapter, that training or another merge starts from. */
export interface MergeStep extends StepFields {
  readonly kind: "merge";
  readonly key: string;
  readonly model: ModelSource;
}

/** How the plan calls a model. */
export interface ModelName {
  readonly name: string;
  /** The plan's entry that it is a model of, a family of experts or a merge: `math`, `layer swap`; of the base, `base`. */
  readonly entry: string;
  /** Of a merge: `bottom 2, top 1`; otherwise empty. */
  readonly configuration: string;
  /** Of a merge: whether a plan's search starts from this configuration. */
  readonly isDefault?: boolean;
}

/** What runs a model. */
export interface Runner {
  readonly backend: string;
  /** llama.cpp: encoding of the weights. */
  readonly type?: FileType;
  /** Variables of the chat template. */
  readonly chat_template_kwargs?: Readonly<Record<string, JsonValue>>;
}

/** How many items of a task. */
export interface TaskItems {
  readonly task: string;
  readonly count: number;
}

export interface EvaluateStep extends StepFields, Runner {
  readonly kind: "evaluate";
  readonly key: string;
  /** The model in the plan; of several names, the first. */
  readonly of: ModelName;
  readonly model: ModelSource;
  readonly request: TaskRequest;
  /** Digest of all items of the task and how they are judged; undefined: not checked. */
  readonly digest?: string;
  /** Indexes in the task's order; null: all items. */
  readonly items: readonly number[] | null;
}

/** Carries out a verb. */
export interface VerbStep extends StepFields {
  readonly kind: "verb";
  readonly key: string;
  /** The entry of the plan's `steps`. */
  readonly name: string;
  readonly verb: string;
  /** What it takes; models are identities. */
  readonly input: Readonly<Record<string, unknown>>;
}

export type Step = TrainStep | AnalyzeStep | MergeStep | EvaluateStep | VerbStep;
export type StepKind = Step["kind"];
export const KINDS: readonly StepKind[] = ["train", "analyze", "merge", "evaluate", "verb"];

/** The key of a step: a digest of everything that its result depends on. Labels, folders and resources are not part of it. */
export function stepKey(kind: StepKind, inputs: unknown): string {
  // 120 bits: unique, and short enough for a folder's name.
  return `${kind}-${digestOfValue([STEP_FORMAT, kind, inputs]).slice(0, 30)}`;
}

export function kindOf(key: string): StepKind {
  return key.slice(0, key.indexOf("-")) as StepKind;
}

/** Folder of the model that a merge step writes, in the step's folder. */
export const WRITTEN_MODEL = "model";

/** The identity of a step's output at a path in its folder. */
export function madeBy(key: string, path: string): string {
  return `step:${key}:${path}`;
}

/** Whether a backend can run many models: the engine, llama.cpp, or a server command. */
export function isStepBackend(backend: string): boolean {
  return backend === "engine" || backend === LLAMA || /^serve:.*\{port\}/s.test(backend);
}
