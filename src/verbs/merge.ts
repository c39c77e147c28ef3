import { resolve } from "node:path";
import { z } from "zod";
import type { ResultsComparison } from "../evaluate/index.js";
import type { StripLayer } from "../figures/index.js";
import type { HubAccess } from "../formats/checkpoint/index.js";
import { defined, type Progress, RecipeError } from "../kit/index.js";
import { asField, commandLine, formatBytes, type SayField } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import { methodOf, OUTPUT_DTYPES, outputSchema, sourceField } from "../merge/index.js";
import {
  type ExecuteResult,
  measuredOwnership,
  type PlanSummary,
  pinsOfRun,
  writeNotes,
} from "../merge/output/index.js";
import type { TaskScore } from "./evaluate.js";
import type { MergeInput, RecipeInput } from "./inputs.js";
import {
  ROUTING_FLAG,
  type RoutingFound,
  routingOfPlan,
  routingTexts,
  routingVerdict,
  showRouting,
} from "./merge-routing.js";
import { describeMeasured, heldBack, named, showEvaluation, showPlan, wroteLine } from "./merge-show.js";
import type { Stages } from "./merge-stages.js";
import { MergePlan, planMerge } from "./plan-merge.js";
import {
  type Controls,
  callVerb,
  type FlagSpelling,
  type Noted,
  type Verb,
  type VerbOptions,
  verbFields,
  type WorkOptions,
} from "./verb.js";

const flag = (description: string) => z.boolean().optional().meta({ description });

/** How the result of a merge is written. */
const writeFields = {
  ...outputSchema.shape,
  // A recipe's own holds where none is given.
  dtype: z.enum(OUTPUT_DTYPES).optional().meta({ description: outputSchema.shape.dtype.description, unset: "keep" }),
  out: namedField("folder", "folder to write; it appears when it is complete"),
  download: flag("download models on the hub into the local cache first"),
  allowUnrelated: flag("merge models that look unrelated"),
  allowNonFinite: flag("write values that the merge made infinite or NaN"),
  eval: z
    .array(z.string().min(1))
    .optional()
    .meta({ description: "then evaluate the merge and the models that it is of on these tasks, into OUT.eval" }),
  limit: z.int().min(1, "must be at least 1").optional().meta({ description: "maximum items per task of `eval`" }),
  export: z
    .string()
    .optional()
    .meta({ description: "then write OUT.gguf in this encoding for llama.cpp, such as q4_k_m" }),
  on: routingTexts,
  pushAnyway: flag("push a merge whose average over the tasks of `eval` is lower than that of a model it is of"),
};

type Write = Pick<
  z.input<z.ZodObject<typeof writeFields>>,
  "out" | "download" | "allowUnrelated" | "allowNonFinite" | "eval" | "limit" | "export" | "on" | "pushAnyway"
>;

/** Fields of a recipe of any method that are flags, in their order. */
const OUTPUT = ["as", "dtype", "budget", "shard_size", "vocabulary", "tokenizer_from", "tensors"] as const;

/** The group of flags of each merge. */
const OUTPUT_FLAGS = [
  ...["out", ...OUTPUT, "dryRun", "on", "download", "resume", "force", "allowUnrelated", "allowNonFinite"],
];
const STAGE_FLAGS = ["eval", "limit", "export", "push", "pushAnyway"];

const FLAGS: Readonly<Record<string, FlagSpelling>> = {
  tensors: {
    each: {
      "tensor-union": ["union", "merge tensors that some models lack from those that have them"],
      "tensor-intersection": ["intersection", "leave out tensors that some models lack"],
    },
  },
  allowNonFinite: { flag: "allow-nonfinite" },
  eval: { value: "tasks", read: "list" },
  export: { value: "type" },
  on: ROUTING_FLAG,
};

/** A merge that is planned. */
export interface PlannedMerge extends Noted {
  readonly plan: MergePlan;
  /** What follows the merge, in words. */
  readonly following: readonly string[];
  readonly beside?: Beside | undefined;
  readonly routed?: RoutingFound | undefined;
}

/** What a dry run found beside the plan. */
interface Beside {
  /** Further fields of its JSON. */
  readonly json: object;
  /** Lines below it, in place of those of every merge. */
  readonly lines?: readonly string[] | undefined;
}

/** Scores of a merge and of the models that it is of. */
export interface MergeEvaluation {
  /** Absolute path; it has the results of each model in a folder. */
  readonly folder: string;
  /** The merge first. `average` is the mean of the tasks' main scores, from 0 to 1. */
  readonly models: readonly {
    readonly id: string;
    readonly source: string;
    readonly scores: readonly TaskScore[];
    readonly average: number;
  }[];
  /** Each model against the merge. */
  readonly comparison: ResultsComparison;
  /** What the comparison found, in sentences. */
  readonly verdicts: readonly string[];
  /** Whether the merge's average is lower than that of a model that it is of. */
  readonly isWorse: boolean;
}

/** A file for llama.cpp. */
export interface MergeExport {
  /** Absolute path. */
  readonly out: string;
  readonly type: string;
  readonly bytes: number;
}

/** A merged model that was written. */
export interface MergeResult extends ExecuteResult, Noted {
  readonly summary: PlanSummary;
  /** Seconds that planning and writing took, without what follows the merge. */
  readonly seconds: number;
  /** With `eval`: the scores of the merge and of the models that it is of. */
  readonly evaluation?: MergeEvaluation;
  /** With `export`: the file. */
  readonly exported?: MergeExport;
  /** Whose each layer is, where that was measured. */
  readonly ownership?: readonly StripLayer[];
}

/** What a verb that merges says beside its fields. */
interface Preset<Schema extends z.ZodObject>
  extends Pick<Verb<Schema>, "name" | "description">,
    Pick<Verb<Schema>["terminal"], "positional" | "flags"> {
  readonly schema: Schema;
  /** Flags by the title of their group, before those of the output. */
  readonly groups: Readonly<Record<string, readonly string[]>>;
  /** Groups of flags after those of the output. */
  readonly after?: Readonly<Record<string, readonly string[]>>;
  /** Fields that have flags, where others are said as in a file. Default: all. */
  readonly says?: readonly string[];
  /** What a dry run reads beside, in brackets. */
  readonly measures?: string;
  /** Fields whose parts are flags. */
  readonly open?: readonly string[];
  plan(input: z.input<Schema>, controls: Controls): Promise<MergePlan>;
  beside?(input: z.input<Schema>, controls: Controls): Promise<Beside | undefined>;
  /** Lines below a plan or a merge. */
  closing?(input: z.input<Schema>): readonly string[];
}

const placeOf = ({ out }: Write, { folder }: Pick<Controls, "folder">) =>
  folder === undefined ? out : resolve(folder, out);

/** A verb that plans a merge, and writes it. */
function mergingVerb<Schema extends z.ZodObject>({
  schema,
  groups,
  flags,
  after = {},
  says,
  measures = "",
  open = [],
  plan: planOf,
  beside,
  closing,
  positional,
  ...own
}: Preset<Schema>): Verb<Schema, MergeResult, Progress, PlannedMerge> {
  type Input = z.output<Schema> & Write;
  const planned = async (input: Input, controls: Controls): Promise<PlannedMerge> => {
    const { hub, resume } = controls;
    const pins = resume ? await pinsOfRun(input.out) : undefined;
    const access: HubAccess = { ...hub, pins, ...(input.download ? { fetch: "files" as const } : {}) };
    const plan = await planOf(input as never, { ...controls, hub: access });
    return { plan, following: [], notes: plan.notes, warnings: plan.unrelated };
  };
  /** What follows the merge; loaded where there is any, as it runs models. */
  const stagesOf = async (
    { plan }: PlannedMerge,
    input: Input,
    out: string,
    controls: Controls,
  ): Promise<Stages | undefined> => {
    if (input.eval === undefined && input.export === undefined) return undefined;
    const { prepareStages } = await import("./merge-stages.js");
    return prepareStages(plan, input, out, controls as Controls<never, never>);
  };
  const verb: Verb<Schema, MergeResult, Progress, PlannedMerge> = {
    ...own,
    schema,
    shown: Object.values(groups).flat(),
    closed: Object.keys(schema.shape).filter((field) => !open.includes(field)),
    // Recipes fill in their own defaults.
    asGiven: true,
    fetch: "stream",
    options: {
      threads: "physical cores",
      memory: "256MB",
      resume: "resume an interrupted run",
      force: "replace an existing output or interrupted run",
    },
    async run(given, controls) {
      const start = performance.now();
      const input = given as Input;
      if (input.on !== undefined) throw RecipeError.at({ field: "on" }, "on: is for a dry run, which writes nothing");
      const { force, threads, memory, signal, onProgress, onPlan } = controls;
      // What is complete stays where stages follow, so that the same command goes through those that are missing.
      const hasStages = input.eval !== undefined || input.export !== undefined;
      const resume = controls.resume ?? (hasStages && !force ? true : undefined);
      const out = placeOf(input, controls);
      const { allowUnrelated, allowNonFinite } = input;
      const say: SayField = (field, value) =>
        (says && !says.includes(field) ? asField : (controls.say ?? asField))(field, value);
      const { onPlan: _, ...planning } = controls;
      const first = await planned({ ...input, out }, { ...planning, resume });
      const { plan, notes, warnings } = first;
      const execution = { out, resume, force, allowUnrelated, allowNonFinite };
      // Checked before the plan is shown: an impossible output is the first message.
      await plan.check(execution);
      const stages = await stagesOf(first, input, out, planning);
      onPlan?.({ ...first, following: stages?.lines ?? [] });
      const written = await plan.write({ ...execution, threads, memory, signal, onProgress });
      const seconds = (performance.now() - start) / 1000;
      const followed = await stages?.run();
      const data = plan.toJSON();
      const isOwned = data.measurements.some(({ kind }) => kind === "ownership") && !written.alreadyComplete;
      return {
        ...written,
        ...{ summary: plan.summary, seconds },
        ...(isOwned
          ? { ownership: named(measuredOwnership(data, new Map(Object.entries(written.measured))), data) }
          : {}),
        ...(followed?.evaluation ? { evaluation: followed.evaluation } : {}),
        ...(followed?.exported ? { exported: followed.exported } : {}),
        notes: [
          ...notes,
          ...describeMeasured(data.measurements, written.measured),
          ...writeNotes(written, data, say),
          ...(followed?.notes ?? []),
        ],
        warnings: [...warnings, ...written.warnings, ...(followed?.warnings ?? [])],
      };
    },
    show: (result, input) => [
      ...(result.ownership ? ([{ kind: "strip", layers: result.ownership }] as const) : []),
      ...(result.evaluation ? showEvaluation(result.evaluation) : []),
      {
        kind: "text",
        lines: [
          wroteLine(result, result.summary, (input as Input).out, result.seconds),
          ...(result.exported ? [`Wrote ${result.exported.out}: ${formatBytes(result.exported.bytes)}`] : []),
        ],
      },
    ],
    plan: {
      description: `print the plan and exit; reads headers and a sample of weights${measures}`,
      title: () => "",
      async run(input, controls) {
        const found = await planned(input as Input, controls);
        const stages = await stagesOf(found, input as Input, placeOf(input as Input, controls), controls);
        const { on } = input as Input;
        const routed = on === undefined ? undefined : await routingOfPlan(found.plan, on, controls as Controls);
        return { ...found, following: stages?.lines ?? [], beside: await beside?.(input as never, controls), routed };
      },
      show: ({ plan, following, routed }) => [
        ...showPlan(plan.toJSON(), plan.summary, plan.notes, following),
        ...(routed ? showRouting(routed) : []),
      ],
      json: ({ plan, following, beside, routed }) => ({
        ...{ plan: plan.toJSON(), summary: plan.summary, ...beside?.json, ...routed },
        ...(following.length > 0 ? { following } : {}),
      }),
      closing: ({ beside, routed }, input) => [
        ...(beside?.lines ?? closing?.(input as never) ?? []),
        ...(routed ? [routingVerdict(routed)] : []),
      ],
    },
    terminal: {
      ...(positional ? { positional } : {}),
      groups: { ...groups, Output: OUTPUT_FLAGS, Then: STAGE_FLAGS, ...after },
      flags: { ...FLAGS, ...flags },
      writes: "the model",
      plansFirst: true,
      json: ({ summary, ...result }) => ({ ...result, summary }),
      closing: ({ alreadyComplete }, given) => {
        const { out, allowCode } = given as Input & { allowCode?: boolean };
        return [
          ...(alreadyComplete
            ? ["Sizes and other files are as recorded; layergraft verify compares the weights, too."]
            : []),
          `Verify it with: ${commandLine`verify ${out} ${allowCode ? ["--allow-code"] : []}`}`,
          ...(closing?.(given as never) ?? []),
        ];
      },
      pushed: (_, input) => (input as Input).out,
      heldBack: ({ evaluation }, input) =>
        evaluation?.isWorse && !(input as Input).pushAnyway
          ? `${heldBack(evaluation)}. Set \`pushAnyway\` to push it`
          : undefined,
    },
  };
  return verb;
}

/** A verb that merges by one method: its fields are those of the method's recipe. */
export function methodVerb(
  method: RecipeInput["method"],
  { groups, ...own }: Omit<Preset<z.ZodObject>, "name" | "schema" | "plan">,
): Verb<z.ZodObject, MergeResult, Progress, PlannedMerge> {
  const { method: _, ...fields } = methodOf({ method }).schema.shape;
  const flags = Object.values(groups).flat();
  const others = Object.keys(fields).filter((name) => !flags.includes(name));
  const schema = z.strictObject({ ...fields, ...writeFields });
  return mergingVerb({
    ...own,
    groups,
    name: method,
    schema,
    flags: inWords(schema, own),
    plan: (input, controls) => {
      // A plan's digest is made of its recipe: fields that are not given keep the place of their defaults.
      const given = Object.fromEntries(flags.map((name) => [name, (input as Readonly<Record<string, unknown>>)[name]]));
      const recipe = { method, ...given, ...picked(input, others), ...picked(input, OUTPUT_FIELDS) };
      return planMerge(recipe as RecipeInput, controls);
    },
  });
}

/** Help of fields of a recipe: a word in backticks is a field of it or a value, and stays one. */
function inWords(
  schema: z.ZodObject,
  { open = [], flags = {} }: Pick<Preset<z.ZodObject>, "open" | "flags">,
): Readonly<Record<string, FlagSpelling>> {
  const closed = Object.keys(schema.shape).filter((field) => !open.includes(field));
  return Object.fromEntries(
    verbFields({ schema, closed }).map(({ name, description }) => [
      name,
      { help: description.replaceAll("`", ""), ...FLAGS[name], ...flags[name] },
    ]),
  );
}

const OUTPUT_FIELDS = [
  ...OUTPUT,
  ...Object.keys(outputSchema.shape).filter((name) => !OUTPUT.some((one) => one === name)),
];

const picked = (input: object, names: readonly string[]) =>
  defined(Object.fromEntries(names.map((name) => [name, (input as Readonly<Record<string, unknown>>)[name]])));

export const mergeSchema = z.strictObject({
  recipe: sourceField("recipe, or its file (YAML)"),
  ...writeFields,
  seed: z.int().min(0).optional().meta({ description: "seed of every method in the file that makes random choices" }),
  allowCode: z
    .boolean()
    .optional()
    .meta({ description: "run a file that the recipe names as its method", runsCode: true }),
  asMergekit: flag("ignore in a mergekit file what mergekit ignores, with a note"),
});

export const mergeVerb = mergingVerb({
  name: "merge",
  description:
    "Run a recipe. Options override the recipe. Relative paths start from the recipe's folder. A model in a recipe may be " +
    "another recipe; intermediate models are never written. A configuration of mergekit or mergekit-moe runs as it is; " +
    "its relative paths start from the working folder.",
  schema: mergeSchema,
  positional: ["recipe", "out"],
  groups: {},
  after: { Recipe: ["allowCode", "asMergekit"] },
  // A recipe that is a file has flags for fields of the output alone.
  says: [...OUTPUT],
  plan({ recipe, seed, allowCode, asMergekit, ...input }, { hub, folder, signal }) {
    const fields = picked(input, OUTPUT_FIELDS);
    const options = { hub, signal, allowCode };
    if (recipe instanceof MergePlan) return Promise.resolve(recipe);
    if (typeof recipe !== "string") return planMerge({ ...recipe, ...fields } as RecipeInput, { ...options, folder });
    const file = folder === undefined ? recipe : resolve(folder, recipe);
    return planMerge(file, { ...options, fields, seed, asMergekit });
  },
});

/** How a merge is carried out. */
export interface MergeWorkOptions extends VerbOptions, Pick<WorkOptions, "threads" | "memory" | "force" | "resume"> {}

/** Options of `merge`: how the result is written, and how that is carried out. */
export interface MergeOptions extends Omit<MergeInput, "recipe">, MergeWorkOptions {}

/**
 * Merges models, and writes the result.
 * @param recipe a recipe; or the path of a recipe file or mergekit configuration
 * @returns the folder, and what was read and written
 * @throws RecipeError if the recipe is not valid, with every problem
 * @throws MismatchError if the models do not fit together, with every reason, or look unrelated and `allowUnrelated` is not set
 * @throws OutputError if the folder cannot be written, or exists and `force` is not set
 * @throws CheckpointError or FormatError if a model cannot be read
 * @throws DiskFullError if the disk fills up
 * @throws CancelledError if the signal fires; `resume` continues
 */
export function merge(recipe: RecipeInput | string, options: MergeOptions): Promise<MergeResult> {
  const { signal, onProgress, onNote, folder, hub, threads, memory, force, resume, ...input } = options;
  const controls = { signal, onProgress, onNote, folder, hub, threads, memory, force, resume };
  return callVerb(mergeVerb, { recipe, ...input }, controls);
}
