import { z } from "zod";
import { FILE_TYPE_NAMES } from "../../export/index.js";
import { DEFAULT_TYPE } from "../../export/llama/index.js";
import { MAX_THREADS } from "../../kit/index.js";
import { parseBytes } from "../../kit/printing/index.js";
import {
  type AsWritten,
  type JsonSchema,
  publishedSchema,
  type SchemaField,
  schemaFields,
} from "../../kit/settings/index.js";
import { templateVariables } from "../../train/data/index.js";
import type { Run } from "../../train/index.js";
import type { JsonValue, TrainStep } from "../steps/step.js";
import { common, expertFamily } from "./expert-schema.js";
import { controls, merge } from "./merge-schema.js";
import {
  count,
  flag,
  formatLimit,
  line,
  MAX_CONFIGURATIONS,
  mapping,
  name,
  oneOf,
  share,
  text,
  whole,
} from "./plan-values.js";
import { average, changes, pairOf, reportTable } from "./report-schema.js";
import type { Fields } from "./space.js";

const modelKinds = ["base", "experts", "merges", "controls"] as const;
const ALL: (typeof modelKinds)[number][] = ["base", "experts", "merges"];

const taskFields = z.strictObject({
  task: text.describe("name of a task, or the file of your own"),
  of: z
    .array(z.enum(modelKinds, "must be base, experts, merges or controls"))
    .min(1)
    .default([...ALL])
    .describe("models to evaluate; merges includes controls unless a task names these"),
  shots: whole.optional().describe("solved examples in each prompt (default: the protocol's)"),
  limit: count.optional().describe("maximum number of items"),
  protocol: text
    .optional()
    .describe("protocol (default: the task's first, or its chat protocol if the base has a chat template)"),
  max_new_tokens: count.optional().describe("maximum tokens of an answer (default: the protocol's)"),
  temperature: z
    .number()
    .positive("must be above 0")
    .max(10, "must be at most 10")
    .optional()
    .describe("sample answers: divides the logits (default: the most likely token)"),
  top_p: share.optional().describe("sample from the most likely tokens up to this total probability (default: all)"),
  top_k: count.optional().describe("sample from the k most likely tokens (default: all)"),
  repeats: count
    .max(1000, "must be at most 1,000")
    .optional()
    .describe("sampled answers to each item, whose verdicts are averaged (default: 1)"),
  prompts: text
    .optional()
    .describe(
      "mbpp: file with translated prompts, a row with `task_id` and `text` for each problem; problems without one are left out and counted; `{language}` as in the task",
    ),
});
const task = z.union([text.transform((name) => taskFields.parse({ task: name })), taskFields], {
  error: "must be a task such as mgsm_sw, or { task, of, shots, limit, protocol, ... }",
});

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
  chat_template_kwargs: templateVariables,
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
  choose_on: oneOf(["held-out", "test"], "must be held-out or test")
    .default("held-out")
    .describe(
      "held-out: choose on some items, compare on the others; test: choose on the reported items, as the paper did",
    ),
  share: share.default(0.4).describe("held-out: share of the items used for the search"),
  rounds: count.max(10, "must be at most 10").default(3).describe("halving: number of rounds; each doubles the items"),
  keep: share.default(0.5).describe("halving: share of the configurations kept for the next round"),
  seed: whole.default(0).describe("random seed for drawing items and configurations"),
});

const bytes = z.union([z.string(), z.int().positive()]).transform((size, context): number => {
  const found = typeof size === "number" ? size : parseBytes(size);
  if (found !== undefined) return found;
  context.addIssue({ code: "custom", message: "must be a size such as 16GB" });
  return z.NEVER;
});

const resources = {
  cores: count.max(MAX_THREADS, `must be at most ${MAX_THREADS}`).optional().describe("cores of one step (default: 1)"),
  memory: bytes.optional().describe("memory of one step, such as 16GB"),
  gpus: line.optional().describe("Slurm: value of --gres, such as gpu:1"),
  time: line.optional().describe("Slurm: time limit of one step, such as 04:00:00"),
  partition: line.optional().describe("Slurm: partition"),
  options: z.array(line).optional().describe("Slurm: more options for sbatch, passed unchanged"),
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
    .describe("attempts at a step whose machine fails; steps that crash are not retried in the same run"),
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
    .record(z.string(), expertFamily)
    .default({})
    .describe(
      "families of interchangeable experts by name; base, all, task, language, joint and other are reserved names",
    ),
  overlaps: z
    .array(pairOf("overlaps: [[math, swahili]]", "experts or families"))
    .default([])
    .describe(
      "pairs of experts or families whose changed rows the report compares by layer and part: how many of the rows that one changed both did",
    ),
  changes: z
    .array(changes)
    .default([])
    .describe("experts whose change the report draws by layer and part, as the paper's figures 2 and 4 to 9 do"),
  merges: z.array(merge).default([]).describe("merges of the experts"),
  allow_unrelated: flag.default(false).describe("merge experts that look unrelated to the base"),
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
  steps: z
    .record(z.string(), z.looseObject({ verb: line.describe("command, such as export, extract or measure") }))
    .default({})
    .describe(
      "other commands to carry out, by names of your own: `verb`, and the fields that it takes (see Calls and commands), with names of this plan for models; a family is each of its experts in turn. What a step writes is in its folder, under `out`",
    ),
  averages: z
    .array(average)
    .default([])
    .describe("averages of tasks or languages, each reported like a task, in a main table of its own"),
  tables: z
    .array(reportTable)
    .default([])
    .describe("tables of the report beside the main ones, such as a paper's, with the rows and columns listed"),
  comparisons: z
    .array(pairOf("comparisons: [[reverted, frozen]]", "families or merges"))
    .default([])
    .describe("pairs of families or merges, in their default configuration, whose difference is tested on each task"),
  search: search.prefault({}).describe("how to choose among a merge's configurations"),
  executor: executor.prefault({}).describe("where steps run, and their resources"),
});

/** A plan as its file has it, defaults filled in. */
export type WrittenPlan = z.output<typeof planSchema>;
/** A plan as it may be written. */
export type ExperimentInput = AsWritten<z.input<typeof planSchema>>;
export type WrittenGroup = WrittenPlan["experts"][string];
export type WrittenTraining = NonNullable<WrittenGroup["train"]>;
export type Merge = WrittenPlan["merges"][number];
export type Search = WrittenPlan["search"];

/** One of the ways to make a merge. */
export interface Configuration {
  /** `bottom 3, top 1`; empty if it sets nothing. Unique in a merge. */
  readonly label: string;
  readonly fields: Fields;
  readonly isDefault: boolean;
}

/** A merge of a settled plan, or a control of one. */
export interface PlannedMerge extends Merge {
  /** Each configuration once, in the order of the grid. Without a `default`, the first is it. */
  readonly all: readonly Configuration[];
  /** The swap's name, if it is a control. */
  readonly controlOf?: string;
}

/** A training run of a settled plan. */
export interface PlannedRun {
  /** Of the expert; with `select`, of the run alone. */
  readonly name: string;
  /** The fields that identify it, as written, without `base` and `out`. */
  readonly fields: Readonly<Record<string, JsonValue>>;
  /** The run with its preset and defaults; undefined if it is not valid. */
  readonly settings: Run | undefined;
  /** Where its data are, below `train`. */
  readonly dataPath: readonly PropertyKey[];
}

export interface PlannedTraining {
  readonly from?: string | undefined;
  readonly runs: readonly PlannedRun[];
  /** Whether the plan names the runs; otherwise they are numbered. */
  readonly isNamed: boolean;
  /** Settings of TRL; undefined: layergraft trains. */
  readonly trl: TrainStep["trl"];
}

/** A family of experts of a settled plan. */
export interface ExpertFamily extends Omit<WrittenGroup, "train"> {
  readonly train?: PlannedTraining | undefined;
}

/** A plan with its training runs, spaces and rounds settled, which is checked and expanded. */
export interface ExperimentPlan extends Omit<WrittenPlan, "experts" | "merges"> {
  readonly experts: Readonly<Record<string, ExpertFamily>>;
  readonly merges: readonly PlannedMerge[];
}

/** The schema of plans as JSON Schema (draft 2020-12). */
export function planJsonSchema(): JsonSchema {
  return publishedSchema("layergraft experiment", planSchema);
}

/** All fields in the order of the schema; entries of lists under `[]`, named entries under `NAME`. */
export function planFields(): SchemaField[] {
  return schemaFields(planSchema);
}
