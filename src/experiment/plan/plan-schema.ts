// What a person writes to describe an experiment: every field with its default and its meaning. What holds across fields
// is file.ts's, what it amounts to expand.ts's.
import { z } from "zod";
import { parseBytes } from "../../core/format.js";
import { MOST_THREADS } from "../../core/threads.js";

const NAME = /^[A-Za-z0-9][\w.+-]*$/;
const NAME_RULE = "must be of letters, digits, - _ . and +, and begin with a letter or digit";

/** Checkpoints of one family that a plan may keep or choose among. */
export const MOST_CHECKPOINTS = 1000;
/** Configurations of a merge, and models of one: more would be a mistake, and fill the memory before anything runs. */
export const MOST_CONFIGURATIONS = 10_000;
export const MOST_MODELS = 100_000;

export const inWords = (number: number) => number.toLocaleString("en-US");

const text = z.string("must be text").min(1, "must not be empty");
const name = text.regex(NAME, NAME_RULE);
const count = z.int("must be a whole number").min(1, "must be at least 1");
const flag = z.boolean("must be true or false");
const whole = z.int("must be a whole number").min(0, "must not be negative");
const share = z.number("must be a number").gt(0, "must be above 0").lt(1, "must be below 1");
const mapping = z.record(z.string(), z.json());

export const ROLES = ["task", "language", "joint", "other"] as const;
export type Role = (typeof ROLES)[number];

/** Words that stand for something else where a model may be named. */
export const RESERVED = ["base", "all", ...ROLES] as const;

const trl = z.strictObject({
  python: text.optional().describe("interpreter that has TRL and PEFT; default python3"),
  processes: count.optional().describe("processors, usually GPUs, of a run; default 1"),
  precision: z
    .enum(["float32", "bfloat16"], "must be float32 or bfloat16")
    .optional()
    .describe("what products are computed in; weights and moments are float32 anyway; default float32"),
  gradient_checkpointing: flag.optional().describe("compute activations a second time instead of keeping them"),
});

/** What training runs may have in common. */
const common = {
  engine: z
    .enum(["embedded", "trl"], "must be embedded or trl")
    .optional()
    .describe("who trains: layergraft itself (the default), or TRL on PyTorch"),
  trl: trl.optional().describe("of engine trl"),
};

const training = z.strictObject({
  like: z
    .union([name, z.array(name).min(1)], { error: "must be a name under `training`, or a list of them" })
    .optional()
    .describe("settings under `training` that these runs have, later ones before earlier ones, their own before all"),
  run: mapping.default({}).describe("fields of `layergraft train` that all runs have; base and out are filled in"),
  runs: z
    .array(z.looseObject({ name: name.describe("name of the run; its other fields go before the common ones") }))
    .min(1, "must list at least one run")
    .optional()
    .describe("runs that differ in some fields: each a name and those fields, such as a preset, a seed, another lr"),
  seeds: z
    .array(whole)
    .min(1, "must list at least one seed")
    .optional()
    .describe("runs that differ in the seed alone; instead of `runs`"),
  ...common,
});

const selection = z.strictObject({
  top: count
    .max(MOST_CHECKPOINTS, `must be at most ${inWords(MOST_CHECKPOINTS)}`)
    .default(3)
    .describe("how many are kept"),
  by: z
    .union([text, z.array(text).min(1)], { error: "must be a task, or a list of tasks whose scores are averaged" })
    .describe("the tasks that decide, all with the same weight"),
  one_per_run: flag.default(true).describe("keep at most one checkpoint of each run"),
});

const family = z.strictObject({
  role: z
    .enum(ROLES, `must be one of ${ROLES.join(", ")}`)
    .describe("task: knows the task; language: knows a language; joint: trained on both; other"),
  language: name.optional().describe("code of a language expert's language in names of tasks, such as sw"),
  folders: z
    .union([z.array(text).min(1), z.record(z.string(), text)], {
      error: "must be a list of folders, or names with a folder each",
    })
    .optional()
    .describe("experts that exist: a list, named FAMILY-1 and so on, or names with a folder each"),
  train: training.optional().describe("experts to train; instead of `folders`"),
  select: selection.optional().describe("which of all their checkpoints are kept; default: the last of each run"),
});

type Grid = Readonly<Record<string, readonly unknown[]>>;

function combinationsOf(grid: Grid): number {
  return Object.values(grid).reduce((product, values) => product * values.length, 1);
}

const merge = z.strictObject({
  name: text.describe("what tables call it"),
  recipe: mapping
    .optional()
    .describe(
      "a recipe of any method, with names of experts for sources: of a family, each of its experts in turn (so that two families make all pairs); `all FAMILY` in a list, all of them at once; of a role, each family that has it; `base`",
    ),
  suggest: z
    .strictObject({
      task: text.describe("task expert, or a family of them"),
      language: text.describe("language expert, or a family of them"),
    })
    .optional()
    .describe("configurations that the analysis of a pair suggests; instead of `recipe`"),
  grid: z
    .record(z.string(), z.array(z.json()).min(1, "must list at least one value"))
    // Counted before anything is made of them.
    .refine((grid) => combinationsOf(grid) <= MOST_CONFIGURATIONS, {
      error: ({ input }) =>
        `has ${inWords(combinationsOf(input as Grid))} combinations, and a merge may have ${inWords(MOST_CONFIGURATIONS)} configurations; list fewer values, or split it into several merges`,
    })
    .default({})
    .describe("fields of the recipe and the values to try, in all combinations"),
  configurations: z
    .array(mapping)
    .max(MOST_CONFIGURATIONS, `must be at most ${inWords(MOST_CONFIGURATIONS)}`)
    .default([])
    .describe("further configurations: each the fields that it sets; tried beside those of the grid"),
  default: mapping.optional().describe("the configuration that is reported without any search"),
  pairs: z
    .union([z.literal("all"), z.array(z.array(text).min(1)).min(1)], {
      error: "must be all, or a list of lists of experts",
    })
    .default("all")
    .describe("which combinations of experts; each a list of their names"),
  column: name
    .optional()
    .describe("column of the paper's tables that it fills: soup, ties, swap, language, multilingual"),
});

const task = z.union(
  [
    text,
    z.strictObject({
      task: text.describe("name of a task, or the file of one's own"),
      of: z
        .array(z.enum(["base", "experts", "merges"], "must be base, experts or merges"))
        .min(1)
        .default(["base", "experts", "merges"])
        .describe("which models it is asked of"),
      shots: whole.optional().describe("solved examples before an item; default the protocol's"),
      limit: count.optional().describe("at most so many items"),
      protocol: text.optional().describe("how it is asked; default the task's first protocol"),
    }),
  ],
  { error: "must be a task such as mgsm_sw, or { task, of, shots, limit, protocol }" },
);

const evaluation = z.strictObject({
  tasks: z
    .array(task)
    .min(1, "must list at least one task")
    .describe("tasks; `{language}` in a name is the language of the model's language expert, or each of them"),
  backend: text
    .default("engine")
    .describe(
      "who answers: engine, or serve:COMMAND with {model} and {port}, which starts your own server for each model",
    ),
  data: text.optional().describe("folder with the data sets; default: read from the hub"),
  allow_code: flag.default(false).describe("whether programs that models write may be executed, confined"),
  unsafe_code: flag
    .default(false)
    .describe("with `allow_code`: execute them also where the kernel does not confine them"),
});

const search = z.strictObject({
  by: text.optional().describe("the task that decides; default the first one"),
  how: z
    .enum(["grid", "halving"], "must be grid or halving")
    .default("grid")
    .describe(
      "grid: every configuration on all items of the search; halving: on a few, then the better ones on more, and so on",
    ),
  choose_on: z
    .enum(["held-out", "test", "both"], "must be held-out, test or both")
    .default("held-out")
    .describe(
      "held-out: choose on some items, compare on the others; test: choose on the items that are reported, as the paper did; both: report both",
    ),
  share: share.default(0.4).describe("held-out: share of the items that the search sees"),
  rounds: count.max(10, "must be at most 10").default(3).describe("halving: rounds; each doubles the items"),
  keep: share.default(0.5).describe("halving: share of the configurations that go on to the next round"),
  seed: whole.default(0).describe("of the order in which items are drawn"),
});

const bytes = z.union([z.string(), z.int().positive()]).transform((size, context): number => {
  const found = typeof size === "number" ? size : parseBytes(size);
  if (found !== undefined) return found;
  context.addIssue({ code: "custom", message: "must be a size such as 16GB" });
  return z.NEVER;
});

const resources = {
  cores: count.max(MOST_THREADS, `must be at most ${MOST_THREADS}`).optional().describe("cores of one step; default 1"),
  memory: bytes.optional().describe("memory of one step, such as 16GB"),
  gpus: text.optional().describe("Slurm: what --gres asks for, such as gpu:1"),
  time: text.optional().describe("Slurm: time limit of one step, such as 04:00:00"),
  partition: text.optional().describe("Slurm: partition"),
  options: z.array(text).optional().describe("Slurm: further options of sbatch, passed on as they are"),
};

const executor = z.strictObject({
  kind: z.enum(["local", "slurm"], "must be local or slurm").default("local").describe("where the steps run"),
  total_cores: count
    .max(4096, "must be at most 4096")
    .optional()
    .describe("local: cores of all steps together; default those of the machine"),
  total_memory: bytes
    .optional()
    .describe("local: memory of all steps together; default three quarters of the machine's"),
  ...resources,
  train: z.strictObject(resources).optional().describe("what training steps ask for instead"),
  evaluate: z.strictObject(resources).optional().describe("what evaluation steps ask for instead"),
  setup: text.optional().describe("Slurm: shell lines before each step, such as module load"),
  most_jobs: count.default(200).describe("Slurm: jobs that wait or run at once"),
  attempts: count
    .max(20)
    .default(3)
    .describe("how often a step is tried when its machine fails; errors are not repeated"),
});

export const planSchema = z.strictObject({
  name: name.describe("what the experiment is called; its folder has this name unless `out` says otherwise"),
  out: text.optional().describe("folder of the experiment; default NAME.experiment beside the plan"),
  base: text.describe("the pretrained model: a folder, or a name in the hub's local cache"),
  assume: z
    .strictObject({
      parameters: z.number().positive().describe("parameters of the base"),
      layers: count.describe("its transformer layers"),
      bytes: bytes.describe("size of its weights, such as 16.1GB"),
    })
    .optional()
    .describe("of the base, for estimates on a machine that does not have it"),
  title: text.optional().describe("heading of the report"),
  notes: text.optional().describe("what a reader of the report should know"),
  training: z
    .record(
      z.string(),
      z.strictObject({ ...common, run: mapping.default({}).describe("fields of `layergraft train`") }),
    )
    .default({})
    .describe("settings of training runs by name, for `like`"),
  experts: z
    .record(z.string(), family)
    .default({})
    .describe(
      "families of experts by name; their experts are interchangeable. The names base, all, task, language, joint and other stand for something else in recipes",
    ),
  merges: z.array(merge).default([]).describe("what is made of them"),
  evaluate: evaluation.describe("what all of them are asked"),
  search: search.prefault({}).describe("how configurations are chosen"),
  tables: z
    .array(z.literal([1, 2, 5, 6, "1", "2", "5", "6"], "must be 1, 2, 5 or 6"))
    .transform((tables) => tables.map(Number))
    .default([])
    .describe("tables of the paper to print in its own layout, beside its numbers"),
  executor: executor.prefault({}).describe("where the steps run, and with what"),
});

/** An experiment's plan, defaults filled in. */
export type ExperimentPlan = z.output<typeof planSchema>;
/** A plan as it may be written. */
export type ExperimentInput = z.input<typeof planSchema>;
export type Family = ExperimentPlan["experts"][string];
export type Training = NonNullable<Family["train"]>;
export type Merge = ExperimentPlan["merges"][number];
export type Executor = ExperimentPlan["executor"];
export type Search = ExperimentPlan["search"];

export type { Json } from "../steps/step.js";

/** A name that a person gave, fit for folders and tables. */
export function isName(word: string): boolean {
  return NAME.test(word);
}
export { NAME_RULE };
