// One schema of every operation, checked by the page and by the server.
import { z } from "zod";
import type { PlainFigure } from "../../figures/index.js";
import type { Inspection } from "../../formats/checkpoint/index.js";
import type { SchemaField as Field } from "../../kit/settings/index.js";
import type { AnalysisPage as Analysis, Suggestion } from "../../merge/analysis/index.js";
import type { MethodReference as Method } from "../../merge/index.js";
import type { PlanSummary } from "../../merge/output/index.js";
import { evaluation, evaluationOperations, ofEarlierJob } from "./evaluations.js";
import { experiment, planEntry } from "./experiments.js";

// Far above what people write; what comes back from models is bounded by its own limits.
const MAX_TEXT = 1_000_000;
const MAX_PATH = 4096;
const MAX_ENTRIES = 1000;
/** Values in the input of a verb. */
const MAX_VALUES = 10_000;

const text = z.string().max(MAX_TEXT);
const path = z
  .string()
  .max(MAX_PATH)
  .regex(/^[^\0]*$/, "must not have a NUL character");
/** A folder, `FOLDER+ADAPTER`, or the name of a model on the hub. */
const source = path.trim().min(1, "must not be empty");
/** A name that is also that of a file in the project. */
export const name = z
  .string()
  .max(100)
  .regex(/^[\p{L}\p{N}][\p{L}\p{N} _.-]*$/u, "must begin with a letter or digit, and have no / or other signs");
/** A recipe of the project as a source. */
export const recipeSource = (recipe: string) => `recipes/${recipe}.yaml`;
/** Path of a plan inside the project. */
const planPath = z
  .string()
  .max(MAX_PATH)
  .regex(/^(?![/\\])(?!(.*[/\\])?\.\.([/\\]|$))[^\0]+\.ya?ml$/, "must be a YAML file in the project");
const count = z.int().min(0);
const list = <T extends z.ZodType>(of: T) => z.array(of).max(MAX_ENTRIES);

export const expert = z.strictObject({ name, source });
const prompt = z.strictObject({ text, system: text.optional() });

/** The first items of a task. */
const live = z.strictObject({ task: source, limit: z.int().min(20).max(100) });

/** What a project has beside its recipes: models and prompts. */
export const settings = z.strictObject({
  base: source.nullable(),
  experts: list(expert),
  /** Name of the recipe that is shown. */
  recipe: name.nullable(),
  prompts: list(prompt),
  /** On what each version of the open recipe is scored; null: it is not. */
  live: live.nullish(),
});

export const project = z.strictObject({
  /** Absolute path. */
  folder: z.string(),
  /** Counts changes; a change of an older state is refused. */
  revision: count,
  settings,
  recipes: list(name),
});

/** A model as its card shows it. */
export interface Model extends Inspection {
  /** Why it does not fit the base; empty for the base itself. */
  readonly problems: readonly string[];
}

/** A verb as the page makes a form of it. */
export interface VerbReference {
  readonly name: string;
  readonly description: string;
  /** All fields that a page may set; those that are shown at once have no title. */
  readonly groups: readonly { readonly title: string; readonly fields: readonly Field[] }[];
  readonly canReplace: boolean;
  readonly canResume: boolean;
}

/** What a verb's job found. */
export interface VerbFound {
  readonly figures: readonly PlainFigure[];
  readonly notes: readonly string[];
}

/** A recipe's plan, or why there is none. */
export interface Check {
  readonly problems: readonly {
    /** From 1; null where a problem has no place. */
    readonly line: number | null;
    /** The field of the recipe that has it, or that the method lacks; null where it is of no field. */
    readonly field: string | null;
    readonly message: string;
  }[];
  readonly plan: CheckedPlan | null;
}

interface CheckedPlan extends PlanSummary {
  readonly layers: number;
  /** Layers of the language expert in a swap that does not say how many. */
  readonly defaults: { readonly bottom: number; readonly top: number };
  readonly memory: number;
  readonly notes: readonly string[];
}

const progress = z.strictObject({
  /** The model that this is about, where a job has several. */
  model: z.string().optional(),
  phase: z.string(),
  done: z.number(),
  total: z.number(),
  unit: z.enum(["bytes", "items", "steps"]),
  /** What runs in parallel, with shares from 0 to 1. */
  parts: z.array(z.strictObject({ label: z.string(), share: z.number(), what: z.string() })).optional(),
});

export type Progress = z.infer<typeof progress>;

/** A digest of each source as it is now: of a model's description and the stamps of its files. null: it cannot be opened. */
const fingerprints = z.record(z.string(), z.string().nullable());

type Fingerprints = z.infer<typeof fingerprints>;
/** Whether sources have changed since; those that cannot be opened now have not. */
export const haveChanged = (then: Fingerprints = {}, now: Fingerprints) =>
  Object.entries(then).some(([source, one]) => one !== (now[source] ?? one));

const models = list(z.strictObject({ name: z.string().max(200), source }))
  .min(1)
  .max(8);

/** Whether a value has no more than people write, with texts and lists as elsewhere here. */
function isWritten(value: z.core.util.JSONType): boolean {
  let entries = 0;
  const fits = (part: unknown): boolean => {
    if (++entries > MAX_VALUES) return false;
    if (typeof part === "string") return part.length <= MAX_TEXT && !part.includes("\0");
    if (Array.isArray(part)) return part.length <= MAX_ENTRIES && part.every(fits);
    return typeof part !== "object" || part === null || Object.values(part).every(fits);
  };
  return fits(value);
}

/** An input whose further fields are those of a verb, whose schema checks them. */
const withFields = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z.object(shape).catchall(z.json().refine(isWritten, "has more than a person writes"));
/** A recipe, and how its model is written. */
const writing = { recipe: name, resume: z.boolean().optional(), force: z.boolean().optional() };

/** Inputs of long operations, by kind. */
export const jobInputs = {
  /** Any verb; its own schema checks the input. */
  verb: z.strictObject({
    verb: z.string().max(100),
    input: z.record(z.string().max(100), z.json()).refine(isWritten, "has more than a person writes"),
    force: z.boolean().optional(),
    resume: z.boolean().optional(),
  }),
  /** Where experts changed. */
  analyze: z.strictObject({ base: source, experts: list(expert).min(1) }),
  /** Recipes to start from. `names`: what their reasons call the experts. `score`: what they are scored on, if anything. */
  suggest: z.strictObject({
    base: source,
    task: source,
    language: source,
    names: z.strictObject({ task: expert.shape.name, language: expert.shape.name }).optional(),
    score: live.optional(),
  }),
  /** Answers of several models to one prompt, with fields of `generate`. */
  answer: z.preprocess(ofEarlierJob, withFields({ models, prompts: z.tuple([text]), chat: z.boolean() })),
  /** Scores of several models on a task, with fields of `eval`; files start from the project. */
  evaluate: z.preprocess(ofEarlierJob, withFields({ models, tasks: z.tuple([source]) })),
  /** Writes a recipe's model, with fields of `merge`. */
  merge: withFields({ ...writing, out: source }),
  /** Writes a recipe's model for another program, with fields of `export`. */
  export: withFields({ ...writing, out: source }),
  /** Pushes a merged model to the hub, with the token of the environment and fields of `push`. */
  push: withFields({ source, name: z.string().max(200) }),
  /** Runs what is left of a plan, as the page has read it. */
  experiment: z.strictObject({ plan: planPath, planDigest: z.string().max(100), allowCode: z.boolean().optional() }),
} as const;
export type JobKind = keyof typeof jobInputs;
export type JobInput<K extends JobKind = JobKind> = z.infer<(typeof jobInputs)[K]>;
const KINDS = Object.keys(jobInputs) as [JobKind, ...JobKind[]];

/** What a job wrote or pushed. */
export const made = z.strictObject({
  bytes: count,
  /** What the command line prints as notes and warnings. */
  notes: z.array(z.string()),
  /** Page of the repository that has it. */
  url: z.string().optional(),
});
export type Written = z.infer<typeof made>;

export const job = z.strictObject({
  id: z.string().regex(/^[\w-]{1,80}$/),
  kind: z.enum(KINDS),
  /** A line for people. */
  title: z.string(),
  input: z.json(),
  /** Of the models that it shows something of, when it started. Jobs of earlier versions have none. */
  fingerprints: fingerprints.optional(),
  state: z.enum(["running", "done", "failed", "cancelled", "interrupted"]),
  /** Milliseconds since 1970. */
  started: z.number(),
  ended: z.number().nullable(),
  progress: progress.nullable(),
  error: z.string().nullable(),
  /** Of kinds that write or push, once they are done. Jobs of earlier versions have none. */
  made: made.optional(),
  /** Option of the input that allows what the job refused: force, allowUnrelated. */
  option: z.string().optional(),
});
export type Job = z.infer<typeof job>;

const entryKind = z.enum(["folder", "model", "adapter", "onnx"]);
const folderEntry = z.strictObject({ name: z.string(), kind: entryKind });

type JobStart = { [K in JobKind]: { kind: K; input: JobInput<K> } }[JobKind];
const starts = KINDS.map((kind) => z.strictObject({ kind: z.literal(kind), input: jobInputs[kind] as z.ZodType }));
const start = z.discriminatedUnion(
  "kind",
  starts as [(typeof starts)[number], ...typeof starts],
) as unknown as z.ZodType<JobStart>;

/** Every operation: `POST /api/NAME` with the input as JSON, and the output as JSON. */
export const operations = {
  "project.read": { input: z.strictObject({}), output: project },
  /** Replaces fields of the settings. */
  "project.change": { input: z.strictObject({ revision: count, change: settings.partial() }), output: project },
  /** Writes the example's folder into the project, and opens its models. */
  "project.example": { input: z.strictObject({ revision: count }), output: project },
  /** Folders and models in a folder of this machine. */
  browse: {
    input: z.strictObject({ folder: path.nullable() }),
    /** `kind`: what the path itself is. If that is not a folder of models, `folder` and `entries` are those above it. */
    output: z.strictObject({
      path: z.string(),
      kind: entryKind,
      folder: z.string(),
      parent: z.string().nullable(),
      entries: z.array(folderEntry),
    }),
  },
  inspect: { input: z.strictObject({ source, base: source.nullable() }), output: z.custom<Model>() },
  fingerprints: { input: z.strictObject({ sources: list(source) }), output: fingerprints },
  methods: {
    input: z.strictObject({}),
    output: z.custom<{ readonly methods: readonly Method[] }>(),
  },
  verbs: { input: z.strictObject({}), output: z.custom<{ readonly verbs: readonly VerbReference[] }>() },
  "recipe.read": { input: z.strictObject({ name }), output: z.strictObject({ text, version: z.string() }) },
  /** Refused if the file is no longer of that version; null makes a new one. */
  "recipe.write": {
    input: z.strictObject({ name, text, version: z.string().nullable() }),
    output: z.strictObject({ version: z.string() }),
  },
  /** Its results stay its own; the project then shows the new name where it showed the old one. */
  "recipe.rename": { input: z.strictObject({ name, to: name }), output: z.strictObject({}) },
  "recipe.remove": { input: z.strictObject({ name }), output: z.strictObject({}) },
  /** Writes the plan of an experiment: a recipe against its models and their soup, on a task. */
  "recipe.experiment": {
    /** `force` replaces a plan that is there. */
    input: z.strictObject({
      name,
      task: source,
      force: z.boolean(),
      /** Values of fields of the recipe: a map of their scores. */
      grid: z.record(z.string().max(100), z.array(z.number()).min(1).max(100)).optional(),
    }),
    /** `plan`: its path in the project. `isThere`: nothing was written, because another plan is there. */
    output: z.strictObject({ file: z.string(), plan: z.string(), isThere: z.boolean() }),
  },
  /** The recipe of a mergekit configuration. `layers`: of the models, if known. */
  "recipe.convert": {
    input: z.strictObject({ text, layers: count.nullable() }),
    output: z.strictObject({ recipe: z.record(z.string(), z.json()), notes: z.array(z.string()) }),
  },
  /** Puts files into the project: a task, its declaration first, or an evaluation. `path`: in the project. */
  take: {
    input: z.strictObject({
      kind: z.enum(["task", "evaluation"]),
      name,
      files: z
        .array(z.strictObject({ name, text: z.string() }))
        .min(1)
        .max(100),
    }),
    output: z.strictObject({ path: z.string() }),
  },
  /** Writes a page of the recipe that opens anywhere. `url`: where the server shows it. `force`, `isThere`: as above. */
  "recipe.share": {
    input: z.strictObject({ name, force: z.boolean() }),
    /** `picture`: SVG. */
    output: z.strictObject({ file: z.string(), url: z.string(), isThere: z.boolean(), picture: z.string() }),
  },
  /** Keeps the picture of a shared page as pixels, in base64. */
  "recipe.picture": {
    input: z.strictObject({ name, png: z.string().max(3_500_000) }),
    output: z.strictObject({}),
  },
  /** `problem`: why llama.cpp cannot have the recipe's model, as its family or tokenizer; null if it can. `types`: its encodings. */
  "recipe.exportable": {
    input: z.strictObject({ name }),
    output: z.strictObject({ problem: z.string().nullable(), types: z.array(z.string()) }),
  },
  /** Scores the recipe as it is on the disk; a question before this one is then cancelled. */
  "recipe.score": {
    input: z.strictObject({ name, task: source, limit: count.min(1) }),
    output: evaluation,
  },
  "recipe.check": { input: z.strictObject({ text }), output: z.custom<Check>() },
  /** Plans in the project. */
  "experiment.list": { input: z.strictObject({}), output: z.array(planEntry) },
  /** How far an experiment is; null if that is still the version that the page has. */
  "experiment.read": {
    input: z.strictObject({ plan: planPath, version: z.string().max(100).nullable() }),
    output: experiment.nullable(),
  },
  /** YAML of a recipe of its report. */
  "experiment.recipe": {
    input: z.strictObject({ plan: planPath, id: z.string().max(200) }),
    output: z.strictObject({ text }),
  },
  "job.start": { input: start, output: job },
  "job.cancel": { input: z.strictObject({ id: job.shape.id }), output: job },
  "job.list": { input: z.strictObject({}), output: z.array(job) },
  /** What an analysis found. */
  "analysis.read": { input: z.strictObject({ id: job.shape.id }), output: z.custom<Analysis>() },
  /** The most changed rows of one matrix, by experts in the order of the analysis. */
  "analysis.rows": {
    input: z.strictObject({ id: job.shape.id, layer: count, column: z.string().max(100) }),
    output: z.array(z.strictObject({ index: count, changes: z.array(z.number().nullable()) })),
  },
  /** What a job made; its form depends on the kind. */
  "job.result": { input: z.strictObject({ id: job.shape.id }), output: z.json() },
  ...evaluationOperations,
} as const;
export type Operations = typeof operations;
export type OperationName = keyof Operations;
export type Input<N extends OperationName> = z.infer<Operations[N]["input"]>;
export type Output<N extends OperationName> = z.infer<Operations[N]["output"]>;

/** What `GET /api/events` sends. */
export const event = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("job"), job }),
  /** The settings or the recipes, by a tab or another program. */
  z.strictObject({ type: z.literal("project") }),
  /** New text of an answer that a job generates. */
  z.strictObject({ type: z.literal("text"), job: z.string(), stream: z.string(), text: z.string() }),
]);
export type StudioEvent = z.infer<typeof event>;

/** Body of a reply that is not 200. */
export const failure = z.strictObject({
  error: z.strictObject({ code: z.string(), message: z.string() }),
});

export type Project = z.infer<typeof project>;
export type Settings = z.infer<typeof settings>;
export type { Analysis, Field, Method, Suggestion };
export type Expert = z.infer<typeof expert>;
