// The training runs of a plan: settled with what `like` names, and checked as `layergraft train` would check them.
import { groupBy, mergeObjects, own, RecipeError } from "../../kit/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { checkRun, type Run, TYPICAL_SAMPLES } from "../../train/index.js";
import type { TrainStep } from "../steps/step.js";
import type { ExpertFamily, PlannedRun, PlannedTraining, WrittenPlan, WrittenTraining } from "./plan-schema.js";
import { formatLimit, MAX_CHECKPOINTS } from "./plan-values.js";

type Mapping = Readonly<Record<string, unknown>>;

/** Settles the families of experts of a plan. */
export function settleExperts(plan: Pick<WrittenPlan, "experts" | "training">): {
  readonly experts: Readonly<Record<string, ExpertFamily>>;
  readonly problems: readonly Problem[];
} {
  const problems: Problem[] = [];
  const experts = Object.entries(plan.experts).map(([name, { train, ...group }]): [string, ExpertFamily] => {
    if (!train) return [name, group];
    const settled = settleTraining(plan.training, train, name, group.select !== undefined);
    const path = ["experts", name, "train"];
    // A problem of the common fields is a problem of every run.
    for (const some of groupBy(settled.problems, ({ message }) => message).values()) {
      problems.push(...some.slice(0, 1).map((one) => ({ ...one, path: [...path, ...one.path] })));
    }
    return [name, { ...group, train: settled.train }];
  });
  return { experts: Object.fromEntries(experts), problems };
}

/** @param keepsAll whether to keep all checkpoints, to choose among them */
function settleTraining(
  training: WrittenPlan["training"],
  train: WrittenTraining,
  group: string,
  keepsAll: boolean,
): { readonly train: PlannedTraining; readonly problems: readonly Problem[] } {
  const likes = [train.like ?? []].flat();
  const unknown = likes.filter((like) => !Object.hasOwn(training, like));
  const problems = unknown.map((like): Problem => {
    return { path: ["like"], message: `there is no ${like} under training${didYouMean(like, Object.keys(training))}` };
  });
  const all = [...likes.flatMap((like) => own(training, like) ?? []), train];
  const common = all.reduce<Mapping>((run, one) => mergeObjects(run, one.run), {});
  const numbered = (train.seeds?.map((seed) => ({ seed })) ?? [{}]).map((own, i) => ({
    name: `${group}-${i + 1}`,
    ...own,
  }));
  const runs = (train.runs ?? numbered).map(({ name, ...differing }, i): PlannedRun => {
    const fields = mergeObjects(common, differing) as PlannedRun["fields"];
    const checked = checkFields(fields, keepsAll);
    const path = train.runs ? ["runs", i] : ["run"];
    problems.push(...checked.problems.map((message) => ({ path, message })));
    return {
      name,
      fields: keepsAll ? (mergeObjects(fields, KEEPS_ALL) as PlannedRun["fields"]) : fields,
      settings: checked.settings,
      dataPath: train.runs && "data" in differing ? path : ["run", "data"],
    };
  });
  if (train.runs && train.seeds) problems.push({ path: ["seeds"], message: "cannot be combined with runs" });
  const isTrl = all.map(({ engine }) => engine).findLast((engine) => engine !== undefined) === "trl";
  const trl = isTrl ? withDefaults(Object.assign({}, ...all.map((one) => one.trl ?? {}))) : undefined;
  return { train: { from: train.from, runs, isNamed: train.runs !== undefined, trl }, problems };
}

const KEEPS_ALL = { checkpoints: { keep: "all" } } as const;

function checkFields(fields: Mapping, keepsAll: boolean): { settings?: Run; problems: readonly string[] } {
  try {
    const run = checkRun({ ...fields, base: "base", out: "out" });
    const settings: Run = keepsAll ? { ...run, checkpoints: { ...run.checkpoints, keep: "all" } } : run;
    const count = countCheckpoints(settings);
    if (count <= MAX_CHECKPOINTS) return { settings, problems: [] };
    const limit = `${formatLimit(count)} checkpoints; the limit is ${formatLimit(MAX_CHECKPOINTS)}`;
    return { settings, problems: [`checkpoints.every_samples: the run would leave ${limit}. Raise it.`] };
  } catch (error) {
    if (error instanceof RecipeError) return { problems: error.reasons };
    throw error;
  }
}

function withDefaults(trl: NonNullable<WrittenTraining["trl"]>): TrainStep["trl"] {
  const { python = "python3", processes = 1, precision = "auto", gradient_checkpointing = false } = trl;
  return { python, processes, precision, gradient_checkpointing };
}

/** Samples that a run sees, at least about. */
export function countSamples({ samples, steps, batch, accumulation }: Run): number {
  return samples ?? (steps === undefined ? TYPICAL_SAMPLES : steps * batch * accumulation);
}

export function countCheckpoints(run: Run): number {
  if (run.checkpoints.keep !== "all") return 1;
  return Math.max(1, Math.ceil(countSamples(run) / run.checkpoints.every_samples));
}

/** The expert whose largest changes a run trains; undefined if it trains all weights. */
export const maskOf = ({ settings }: Pick<PlannedRun, "settings">): string | undefined => settings?.mask?.from;

/** Names of what must be there before a group is trained. */
export function startsOf({ from, runs }: PlannedTraining): string[] {
  return [from ?? [], ...runs.map((run) => maskOf(run) ?? [])].flat();
}

/** What a run trains: `all weights`, `LoRA`, `only layers 0-4`, `the 5% of weights that math changed most`. */
export function describeTraining({ method, partition, mask, train = "all" }: Run): string {
  const parts = [
    ...(method === "lora" ? ["LoRA"] : []),
    ...(mask ? [`the ${Number((100 * mask.share).toPrecision(3))}% of weights that ${mask.from} changed most`] : []),
    ...(partition ? ["partitioned"] : []),
    ...(train === "all" ? [] : [`only ${train}`]),
  ];
  return parts.length > 0 ? parts.join(", ") : "all weights";
}
