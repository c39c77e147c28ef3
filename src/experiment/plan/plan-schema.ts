// The schema of plans: every field with its default and its meaning.

import { z } from "zod";
import { didYouMean, MOST_THREADS, parseBytes } from "../../core/index.js";
import { WEIGHT_TYPES, type WeightType } from "../../engine/index.js";
import { FILE_TYPE_NAMES, type FileType } from "../../export/index.js";
import { DEFAULT_TYPE } from "../../llama/index.js";
import { type JsonSchema, jsonSchemaOf, type SchemaField, schemaFields } from "../../settings/index.js";
import { LLAMA } from "../steps/step.js";

const NAME = /^[A-Za-z0-9][\w.+-]*$/;
export const NAME_RULE = "must consist of letters, digits, -, _, . and +, and start with a letter or digit";

/** Checkpoints of a run, and of a family's selection. */
export const MAX_CHECKPOINTS = 1000;
/** Configurations and models of a merge. More are a mistake, and would fill the memory before anything runs. */
const MAX_CONFIGURATIONS = 10_000;
export const MAX_MODELS = 100_000;

export const formatLimit = (number: number) => number.toLocaleString("en-US");

const text = z.string("must be text").min(1, "must not be empty");
const name = text.regex(NAME, NAME_RULE);
const count = z.int("must be a whole number").min(1, "must be at least 1");
const flag = z.boolean("must be true or false");
const whole = z.int("must be a whole number").min(0, "must not be negative");
const share = z.number("must be a number").gt(0, "must be above 0").lt(1, "must be below 1");
const mapping = z.record(z.string(), z.json());

/** One of some words; of a misspelled one, the error suggests which. */
const oneOf = <const T extends readonly string[]>(words: T, rule: string) =>
  z.enum(words, { error: ({ input }) => `${rule}${typeof input === "string" ? didYouMean(input, words) : ""}` });

export const ROLES = ["task", "language", "joint", "other"] as const;
export type Role = (typeof ROLES)[number];

/** Words that recipes use for something else. */
export const RESERVED = ["base", "all", ...ROLES] as const;

const trl = z.strictObject({
  python: text.optional().describe("Python interpreter with TRL and PEFT (default: python3)"),
  processes: count.optional().describe("processes of a run, usually one for each GPU (default: 1)"),
  precision: z
    .enum(["float32", "bfloat16"], "must be float32 or bfloat16")
    .optional()
    .describe("precision of matrix products; weights and moments are always float32 (default: float32)"),
  gradient_checkpointing: flag.optional().describe("recompute activations instead of keeping them"),
});

/** Fields of `training` and of a family's `train`. */
const common = {
  engine: z
    .enum(["embedded", "trl"], "must be embedded or trl")
    .optional()
    .describe("embedded: layergraft trains; trl: TRL on PyTorch (default: embedded)"),
  trl: trl.optional().describe("settings of engine trl"),
};

const training = z.strictObject({
  from: text.optional().describe("expert or merge to start from; a merge is written once (default: the plan's base)"),
  like: z
    .union([name, z.array(name).min(1)], { error: "must be a name under `training`, or a list of them" })
    .optional()
    .describe(
      "settings under `training` to start from; later ones override earlier ones, the family's own override all",
    ),
  run: mapping.default({}).describe("fields of `layergraft train` for all runs; base and out are filled in"),
  runs: z
    .array(z.looseObject({ name: name.describe("name of the run; its other fields override the common ones") }))
    .min(1, "must list at least one run")
    .optional()
    .describe("runs that differ in some fields: for each a name and those fields, such as preset, seed or optimizer"),
  seeds: z
    .array(whole)
    .min(1, "must list at least one seed")
    .optional()
    .describe("one run for each seed; instead of `runs`"),
  ...common,
});

const selection = z.strictObject({
  top: count
    .max(MAX_CHECKPOINTS, `must be at most ${formatLimit(MAX_CHECKPOINTS)}`)
    .default(3)
    .describe("checkpoints to keep"),
  by: z
    .union([text, z.array(text).min(1)], { error: "must be a task, or a list of tasks whose scores are averaged" })
    .describe("task whose score decides, or tasks whose mean score does"),
  guards: z
    .array(
      z.strictObject({
        task: text.describe("task on which a checkpoint must not be worse than the base"),
        within: z
          .number("must be a number")
          .min(0, "must not be negative")
          .default(0)
          .describe("points that it may be below the base"),
      }),
    )
    .default([])
    .describe("refuse checkpoints that lost more than so many points against the base"),
  one_per_run: flag.default(true).describe("keep at most one checkpoint of each run"),
  one_per: z
    .literal("data", "must be data")
    .optional()
    .describe("keep at most one checkpoint of all runs with the same data, so that experts differ"),
});

const family = z.strictObject({
  role: z
    .enum(ROLES, `must be one of ${ROLES.join(", ")}`)
    .describe("task: trained on the task; language: trained on a language; joint: trained on both; other"),
  language: name.optional().describe("language code of a language expert as task names use it, such as sw"),
  folders: z
    .union([z.array(text).min(1), z.record(z.string(), text)], {
      error: "must be a list of folders, or names with a folder each",
    })
    .optional()
    .describe("folders of existing experts: a list (named FAMILY-1, FAMILY-2, ...) or a mapping from names to folders"),
  train: training.optional().describe("experts to train; instead of `folders`"),
  select: selection
    .optional()
    .describe("how to choose among the checkpoints of all runs (default: the last of each run)"),
});

type Grid = Readonly<Record<string, readonly unknown[]>>;

function combinationsOf(grid: Grid): number {
  return Object.values(grid).reduce((product, values) => product * values.length, 1);
}

const finite = z.number("must be a number");

/** More numbers than a model has layers are a mistake. */
const MAX_GRADIENT = 200;

const range = z
  .strictObject({
    from: finite.describe("least value"),
    to: finite.describe("greatest value"),
    whole: flag.optional().describe("whole numbers only (default: where the field takes no others)"),
    gradient: z
      .int("must be a whole number")
      .min(2, "must be at least 2")
      .max(MAX_GRADIENT, `must be at most ${MAX_GRADIENT}`)
      .optional()
      .describe("a gradient of this many numbers over the layers, instead of one number"),
  })
  .refine(({ from, to }) => from < to, { path: ["to"], error: "must be above from" })
  .refine(({ from, to, whole }) => !whole || (Number.isInteger(from) && Number.isInteger(to)), {
    path: ["whole"],
    error: "needs whole numbers for from and to",
  });

const merge = z.strictObject({
  name: text
    .max(200, "must be at most 200 characters")
    // Not a pattern: editors that check plans may read it without Unicode's classes.
    .refine((name) => !/\p{Cc}/u.test(name), "must not contain line breaks or other control characters")
    .describe("name in tables"),
  recipe: mapping
    .optional()
    .describe(
      "recipe of any method, with names for its sources: an expert; a family or role, for each of its experts in turn (two families make all pairs); `all FAMILY` in a list, for all of them at once; another merge of one combination; `base`",
    ),
  from: text
    .optional()
    .describe(
      "expert or merge that `base` means in the recipe, such as what the experts started from (default: the plan's base)",
    ),
  suggest: z
    .strictObject({
      task: text.describe("task expert, or a family of task experts"),
      language: text.describe("language expert, or a family of language experts"),
    })
    .optional()
    .describe("take the configurations that an analysis of the two experts suggests; instead of `recipe`"),
  grid: z
    .record(z.string(), z.array(z.json()).min(1, "must list at least one value"))
    // Counted before any is made.
    .refine((grid) => combinationsOf(grid) <= MAX_CONFIGURATIONS, {
      error: ({ input }) =>
        `has ${formatLimit(combinationsOf(input as Grid))} combinations; the limit is ${formatLimit(MAX_CONFIGURATIONS)}. List fewer values, or split the merge`,
    })
    .default({})
    .describe("recipe fields with the values to try; all combinations are tried"),
  space: z
    .record(
      z.string(),
      z.union([z.array(z.json()).min(1, "must list at least one value"), range], {
        error: "must be a list of values, or { from, to }",
      }),
    )
    .optional()
    .describe(
      "recipe fields with a list or range of values, for search.how random, cma-es or halving; a name with dots is an inner field, such as `models.0.weight`",
    ),
  configurations: z
    .array(mapping)
    .max(MAX_CONFIGURATIONS, `must be at most ${formatLimit(MAX_CONFIGURATIONS)}`)
    .default([])
    .describe("more configurations to try; each lists the recipe fields that it sets"),
  default: mapping.optional().describe("configuration that is always reported, without a search"),
  pairs: z
    .union([z.literal("all"), z.array(z.array(text).min(1)).min(1)], {
      error: "must be all, or a list of lists of experts",
    })
    .default("all")
    .describe("combinations of experts to merge; each is a list of names"),
  figure: z
    .literal("line", "must be line")
    .optional()
    .describe(
      "line: evaluate every configuration on all reported items, without a search, and draw the scores over the grid's one field of numbers, with a line for each combination of the others",
    ),
  column: name.optional().describe("column of the paper's tables: soup, ties, swap, language or multilingual"),
});

const modelKinds = ["base", "experts", "merges"] as const;

const task = z.union(
  [
    text.transform((name) => ({ task: name, of: [...modelKinds] })),
    z.strictObject({
      task: text.describe("name of a task, or the file of your own"),
      of: z
        .array(z.enum(modelKinds, "must be base, experts or merges"))
        .min(1)
        .default([...modelKinds])
        .describe("models to evaluate"),
      shots: whole.optional().describe("solved examples in each prompt (default: the protocol's)"),
      limit: count.optional().describe("maximum number of items"),
      protocol: text.optional().describe("protocol (default: the task's first)"),
    }),
  ],
  { error: "must be a task such as mgsm_sw, or { task, of, shots, limit, protocol }" },
);

const evaluation = z.strictObject({
  tasks: z
    .array(task)
    .min(1, "must list at least one task")
    .describe(
      "tasks; `{language}` in a name stands for the language of the model's language expert, or for every language in turn",
    ),
  backend: text
    .default("engine")
    .describe(
      "backend that runs the models: engine, llama (llama.cpp), or serve:COMMAND with {model} and {port}, which starts your own server for each model",
    ),
  type: z
    .enum(FILE_TYPE_NAMES, `must be one of ${FILE_TYPE_NAMES.join(", ")}`)
    .optional()
    .describe(`llama: encoding of the weights, as in export (default: ${DEFAULT_TYPE})`),
  weights: z
    .enum(WEIGHT_TYPES, "must be float32, int8 or int4")
    .default("float32")
    .describe("engine: what matrices are held in; int8 and int4 take less memory, and scores differ slightly"),
  data: text.optional().describe("folder with the data sets (default: read from the hub)"),
  allow_code: flag.default(false).describe("execute programs that models write, in a sandbox"),
  unsafe_code: flag
    .default(false)
    .describe("with `allow_code`: execute them also where the kernel does not confine them"),
});

const search = z.strictObject({
  by: text.optional().describe("task that decides (default: the first one)"),
  how: oneOf(["grid", "halving", "random", "cma-es"], "must be grid, halving, random or cma-es")
    .default("grid")
    .describe(
      "grid: evaluate every configuration on all items of the search; halving: evaluate all on a few items, then the better ones on more; random: evaluate configurations drawn from the grid or space; cma-es: let results decide where in the space to look next",
    ),
  budget: count
    .max(MAX_CONFIGURATIONS, `must be at most ${formatLimit(MAX_CONFIGURATIONS)}`)
    .default(40)
    .describe("random, cma-es, and halving in a space: configurations to evaluate"),
  choose_on: oneOf(["held-out", "test", "both"], "must be held-out, test or both")
    .default("held-out")
    .describe(
      "held-out: choose on some items, compare on the others; test: choose on the reported items, as the paper did; both: report both",
    ),
  share: share.default(0.4).describe("held-out: share of the items used for the search"),
  rounds: count.max(10, "must be at most 10").default(3).describe("halving: number of rounds; each doubles the items"),
  keep: share.default(0.5).describe("halving: share of the configurations kept for the next round"),
  seed: whole.default(0).describe("random seed for drawing items and configurations"),
});

const average = z.strictObject({
  name: text.describe("name of its table, and of its row in tables of tasks"),
  tasks: z
    .array(text)
    .min(1, "must list at least one task")
    .describe("tasks to average, each counting alike; `{language}` in a name stands for every language"),
});

export const CONTROLS = ["random", "reverse", "into-base", "from-base", "itself"] as const;
export type ControlKind = (typeof CONTROLS)[number];

const MAX_DRAWS = 100;

const controlKinds = z
  .array(oneOf(CONTROLS, `must be one of ${CONTROLS.join(", ")}`))
  .min(1, "must list at least one control");

const controlFields = z.strictObject({
  kinds: controlKinds
    .default([...CONTROLS])
    .describe(
      "random: as many layers, drawn at random; reverse: the experts exchanged; into-base: the base in place of the task expert; from-base: the base in place of the language expert; itself: the task expert with itself",
    ),
  of: z
    .array(text)
    .min(1, "must list at least one merge")
    .optional()
    .describe("names of the merges that get controls (default: every merge with method swap)"),
  draws: count
    .max(MAX_DRAWS, `must be at most ${MAX_DRAWS}`)
    .default(3)
    .describe("sets of layers to draw, each another one; their scores are averaged"),
  seed: whole.default(0).describe("random seed for drawing layers"),
});

const controls = z
  .union([flag, controlKinds, controlFields], {
    error: "must be true, a list of controls, or { kinds, of, draws, seed }",
  })
  .transform((given) => {
    if (given === false) return undefined;
    return controlFields.parse(given === true ? {} : Array.isArray(given) ? { kinds: given } : given);
  });

const bytes = z.union([z.string(), z.int().positive()]).transform((size, context): number => {
  const found = typeof size === "number" ? size : parseBytes(size);
  if (found !== undefined) return found;
  context.addIssue({ code: "custom", message: "must be a size such as 16GB" });
  return z.NEVER;
});

const resources = {
  cores: count
    .max(MOST_THREADS, `must be at most ${MOST_THREADS}`)
    .optional()
    .describe("cores of one step (default: 1)"),
  memory: bytes.optional().describe("memory of one step, such as 16GB"),
  gpus: text.optional().describe("Slurm: value of --gres, such as gpu:1"),
  time: text.optional().describe("Slurm: time limit of one step, such as 04:00:00"),
  partition: text.optional().describe("Slurm: partition"),
  options: z.array(text).optional().describe("Slurm: more options for sbatch, passed unchanged"),
};

const executor = z.strictObject({
  kind: z.enum(["local", "slurm"], "must be local or slurm").default("local").describe("where steps run"),
  total_cores: count
    .max(4096, "must be at most 4096")
    .optional()
    .describe("local: cores of all steps together (default: all cores)"),
  total_memory: bytes
    .optional()
    .describe("local: memory of all steps together (default: three quarters of the machine's)"),
  ...resources,
  train: z.strictObject(resources).optional().describe("resources of training steps; override the above"),
  evaluate: z.strictObject(resources).optional().describe("resources of evaluation steps; override the above"),
  setup: text.optional().describe("Slurm: shell lines to run before each step, such as module load"),
  most_jobs: count.default(200).describe("Slurm: maximum number of queued and running jobs"),
  attempts: count
    .max(20)
    .default(3)
    .describe("attempts at a step whose machine fails; a step that fails by itself is not retried in the same run"),
});

/** Each round is trained and evaluated after the one before. */
const MAX_ROUNDS = 100;
const roundCount = z
  .int("must be a whole number")
  .min(2, "must be at least 2")
  .max(MAX_ROUNDS, `must be at most ${MAX_ROUNDS}`);
const rounds = z
  .union(
    [
      roundCount,
      z.strictObject({
        count: roundCount.describe("number of rounds"),
        from: text.optional().describe("merge that the next round starts from (default: the plan's only one)"),
      }),
    ],
    { error: `must be a number from 2 to ${MAX_ROUNDS}, or { count, from }` },
  )
  .transform((given): { readonly count: number; readonly from?: string | undefined } =>
    typeof given === "number" ? { count: given } : given,
  );

/** Each variant is a plan that is checked as a whole, with a report of its own. */
const MAX_VARIANTS = 100;

type Axes = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

function variantsIn(matrix: Axes): number {
  return Object.values(matrix).reduce((product, values) => product * Object.keys(values).length, 1);
}

const hasNames = (mapping: object) => Object.keys(mapping).every((key) => key.trim() !== "");

const matrix = z
  .record(
    z.string(),
    z
      .record(
        z.string(),
        z.record(z.string(), z.json(), "must be a mapping of fields of the plan; {} if it overrides none"),
      )
      .refine((values) => Object.keys(values).length > 0, "must have at least one value")
      .refine(hasNames, "must not have a value without a name"),
  )
  .refine(hasNames, "must not have an axis without a name")
  .refine((axes) => Object.keys(axes).length > 0, "must have at least one axis")
  .refine((axes) => variantsIn(axes) <= MAX_VARIANTS, {
    error: ({ input }) =>
      `has ${formatLimit(variantsIn(input as Axes))} combinations; the limit is ${MAX_VARIANTS}. List fewer values, or split the plan`,
  });

/** A plan as far as its matrix is concerned. */
export const matrixPlanSchema = z.looseObject({ matrix });

const PAIR_RULE = "must be a list of two experts or families, as in overlaps: [[math, swahili]]";

export const planSchema = z.strictObject({
  name: name.describe("name of the experiment"),
  matrix: matrix
    .optional()
    .describe(
      "axes with their values, each with the fields of the plan that it overrides; every combination of one value per axis is a variant of the plan, and all are one experiment",
    ),
  out: text.optional().describe("folder of the experiment (default: NAME.experiment beside the plan)"),
  base: text.describe("pretrained model: a folder, or a name on the hub, downloaded first"),
  assume: z
    .strictObject({
      parameters: z.number().positive().describe("parameters of the base"),
      layers: count.describe("transformer layers of the base"),
      bytes: bytes.describe("size of the base's weights, such as 16.1GB"),
    })
    .optional()
    .describe("sizes of the base, for estimates on a machine without it"),
  title: text.optional().describe("heading of the report"),
  notes: text.optional().describe("notes for readers of the report"),
  training: z
    .record(
      z.string(),
      z.strictObject({ ...common, run: mapping.default({}).describe("fields of `layergraft train`") }),
    )
    .default({})
    .describe("named settings of training runs, for `like`"),
  experts: z
    .record(z.string(), family)
    .default({})
    .describe(
      "families of interchangeable experts by name; base, all, task, language, joint and other are reserved names",
    ),
  overlaps: z
    .array(
      z
        .array(text, PAIR_RULE)
        // Text has a length, too.
        .refine((pair) => pair.length === 2, { error: PAIR_RULE, when: ({ value }) => Array.isArray(value) })
        .meta({ minItems: 2, maxItems: 2 }),
    )
    .default([])
    .describe(
      "pairs of experts or families whose changed rows the report compares by layer and part: how many of the rows that one changed both did",
    ),
  merges: z.array(merge).default([]).describe("merges of the experts"),
  rounds: rounds
    .optional()
    .describe(
      "rounds of training and merging: each later round trains the merge's experts again, from the merge of the round before; a number, or a mapping",
    ),
  controls: controls
    .optional()
    .describe(
      "controls of layer swaps, in their default configuration: true for all kinds, or a list of kinds, or a mapping. Searches ignore them, and none is marked best",
    ),
  evaluate: evaluation.describe("evaluation of every model"),
  averages: z
    .array(average)
    .default([])
    .describe(
      "averages of tasks or languages, each reported like a task: a main table, and a row of the paper's tables 2 and 5",
    ),
  search: search.prefault({}).describe("how to choose among a merge's configurations"),
  tables: z
    .array(z.literal([1, 2, 5, 6, "1", "2", "5", "6"], "must be 1, 2, 5 or 6"))
    .transform((tables) => tables.map(Number))
    .default([])
    .describe("tables of the paper to reproduce, beside the published numbers"),
  executor: executor.prefault({}).describe("where steps run, and their resources"),
});

/** An experiment's plan, defaults filled in. */
export type ExperimentPlan = z.output<typeof planSchema>;
/** A plan as it may be written. */
export type ExperimentInput = z.input<typeof planSchema>;
export type Family = ExperimentPlan["experts"][string];
export type Training = NonNullable<Family["train"]>;
export type Merge = ExperimentPlan["merges"][number];
export type Search = ExperimentPlan["search"];

export type { Json } from "../steps/step.js";

export function isName(word: string): boolean {
  return NAME.test(word);
}

/** The task that chooses among configurations. */
export function decidingTask({ search, evaluate }: Pick<ExperimentPlan, "search" | "evaluate">): string {
  return search.by ?? evaluate.tasks[0]?.task ?? "";
}

/** What runs the models of a plan: its backend, and for llama.cpp the encoding of the weights. */
export function runnerOf({ evaluate }: Pick<ExperimentPlan, "evaluate">): {
  backend: string;
  type?: FileType;
  weights?: WeightType;
} {
  const { backend, type = DEFAULT_TYPE, weights } = evaluate;
  if (backend === LLAMA) return { backend, type };
  // Without the default, as before there were others, so that results stay valid.
  return weights === "float32" ? { backend } : { backend, weights };
}

/** What runs the models, for people: `engine, float32`, `llama.cpp, q8_0`, `vllm serve {model}`. */
export function describeRunner(plan: Pick<ExperimentPlan, "evaluate">): string {
  const { backend, type, weights = "float32" } = runnerOf(plan);
  if (backend === LLAMA) return `llama.cpp, ${type}`;
  return backend === "engine" ? `engine, ${weights}` : backend.replace(/^serve:/, "").trim();
}

/** Codes of the languages of a plan's experts. */
export function languagesOf({ experts }: ExperimentPlan): string[] {
  return [...new Set(Object.values(experts).flatMap(({ language }) => language ?? []))];
}

/** The schema of plans as JSON Schema (draft 2020-12). */
export function planJsonSchema(): JsonSchema {
  return { title: "layergraft experiment", ...jsonSchemaOf(planSchema) };
}

/** All fields in the order of the schema; entries of lists under `[]`, named entries under `NAME`. */
export function planFields(): SchemaField[] {
  return schemaFields(planSchema);
}
