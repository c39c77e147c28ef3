// The models of an experiment: the base, the experts, and every merge of them in every configuration, each with what it
// is made of. From the plan and from what is known so far; experts that are yet to be chosen are left out and counted.
import type { Facts, TrainedCheckpoint } from "../steps/facts.js";
import { type Location, type ModelSource, madeBy, stepKey, type TaskRequest, type TrainStep } from "../steps/step.js";
import { type Configuration, configurationsOf } from "./configurations.js";
import {
  type Binding,
  bindingsOf,
  bindRecipe,
  type Member,
  meaningOf,
  memberNames,
  membersIn,
  membersOf,
  placesOf,
  runNames,
} from "./expert-names.js";
import type { ExperimentPlan, Family, Json, Merge, Role, Training } from "./plan-schema.js";
import { settleTraining, trainingRun } from "./training-runs.js";

/** A model that can be asked. */
export interface Model {
  /** Unique in the experiment, for people: `layer swap, math-1 x swahili-2, bottom 3, top 1`. */
  readonly name: string;
  readonly kind: "base" | "expert" | "merge";
  readonly source: ModelSource;
  readonly locations: Readonly<Record<string, Location>>;
  /** Steps that make it. */
  readonly needs: readonly string[];
  /** Codes of the languages that `{language}` stands for. */
  readonly languages: readonly string[];
}

export interface ExpertModel extends Model {
  readonly kind: "expert";
  readonly family: string;
  readonly role: Role;
  /** Run and samples of a checkpoint that was chosen, for people. */
  readonly origin?: string;
  /** Whether it is only asked to choose among checkpoints. */
  readonly isCandidate?: boolean;
}

export interface MergeModel extends Model {
  readonly kind: "merge";
  readonly merge: Merge;
  /** The experts in it, in the order of the recipe. */
  readonly members: readonly string[];
  /** What it has in common with the models it is averaged with: the same merge of the same families. */
  readonly group: string;
  readonly configuration: Configuration;
}

/** The one model of a source. */
export function baseModel(plan: ExperimentPlan, facts: Facts): Model {
  const { identity, folder } = facts.modelIdentity(plan.base);
  const languages = languagesOf(plan);
  return { name: "base", kind: "base", source: identity, locations: { [identity]: { folder } }, needs: [], languages };
}

/** All languages of a plan, in its order. */
export function languagesOf(plan: ExperimentPlan): string[] {
  const codes = Object.values(plan.experts).flatMap(({ language }) => (language === undefined ? [] : [language]));
  return [...new Set(codes)];
}

function withDefaults({ python, processes, precision, gradient_checkpointing }: NonNullable<Training["trl"]> = {}) {
  return {
    ...{ python: python ?? "python3", processes: processes ?? 1, precision: precision ?? "float32" },
    gradient_checkpointing: gradient_checkpointing ?? false,
  } as const;
}

/** The training steps of a family, one for each run. */
export function trainingSteps(plan: ExperimentPlan, family: string, base: Model, facts: Facts): TrainStep[] {
  const { train, select } = plan.experts[family] as Family;
  if (!train) return [];
  const names = runNames(family, train);
  const settled = settleTraining(plan, train);
  return names.map((name, i) => {
    const own = train.runs?.[i] ?? (train.seeds ? { seed: train.seeds[i] } : undefined);
    const { out: _, ...fields } = trainingRun(settled.run, own, base.source as string);
    // All checkpoints must stay for the best of them to be chosen.
    const checkpoints = { ...(fields.checkpoints as object | undefined), ...(select ? { keep: "all" } : {}) };
    const run = { ...fields, ...(select ? { checkpoints } : {}) } as Record<string, Json>;
    const trl = settled.engine === "trl" ? withDefaults(settled.trl) : undefined;
    // Processes and what is computed twice change speed and memory; the interpreter should change nothing.
    const engine = trl && { precision: trl.precision };
    const data = facts.dataIdentity(run);
    const key = stepKey("train", { run: withoutPlace(run), data, trl: engine });
    return {
      ...{ kind: "train", key, name, label: `train ${name}`, needs: [], locations: base.locations },
      ...{ run, data },
      ...(trl ? { trl } : {}),
    } as const;
  });
}

/** Fields that do not change what is learned. */
function withoutPlace({ threads: _, ...run }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return run;
}

/** A checkpoint of a training run as a model. */
export function checkpointModel(
  name: string,
  family: string,
  plan: ExperimentPlan,
  step: TrainStep,
  checkpoint: TrainedCheckpoint,
): ExpertModel {
  const identity = madeBy(step.key, checkpoint.path);
  const adapter = checkpoint.isAdapter ? { adapterOf: step.run.base as string } : {};
  return {
    ...expertParts(name, family, plan),
    source: identity,
    // Those of the step have the base, which an adapter is added to.
    locations: { ...step.locations, [identity]: { step: step.key, path: checkpoint.path, ...adapter } },
    needs: [step.key],
    origin: `${step.name} after ${checkpoint.samples.toLocaleString("en-US")} samples`,
  };
}

/** An expert of a family whose experts are folders. */
export function folderModels(plan: ExperimentPlan, family: string, facts: Facts): ExpertModel[] {
  const declared = plan.experts[family] as Family;
  const folders = Array.isArray(declared.folders) ? declared.folders : Object.values(declared.folders ?? {});
  return memberNames(family, declared).map((name, i) => {
    const { identity, folder } = facts.modelIdentity(folders[i] ?? "");
    return { ...expertParts(name, family, plan), source: identity, locations: { [identity]: { folder } }, needs: [] };
  });
}

function expertParts(name: string, family: string, plan: ExperimentPlan) {
  const { role, language } = plan.experts[family] as Family;
  const languages = language === undefined ? languagesOf(plan) : [language];
  return { name, kind: "expert", family, role, languages } as const;
}

/** What is known of the experts: those that exist, by name. */
export type Experts = ReadonlyMap<string, ExpertModel>;

/** A recipe that makes models: of the plan, or suggested for a pair. */
export interface Making {
  readonly recipe: Readonly<Record<string, unknown>>;
  readonly configurations: readonly Configuration[];
}

/** The models of one merge, as far as their experts are known, and how many others there will be. */
export function mergeModels(
  merge: Merge,
  plan: ExperimentPlan,
  base: Model,
  experts: Experts,
  making: (binding: Binding) => Making | undefined,
): { models: MergeModel[]; unknown: number } {
  const members = membersOf(plan);
  const models: MergeModel[] = [];
  let unknown = 0;
  const named = merge.recipe ?? { method: "swap", ...merge.suggest };
  for (const binding of bindingsOf(named, members)) {
    const used = membersIn(named, binding, members);
    if (!isListed(merge, used)) continue;
    const found = used.map(({ name }) => experts.get(name));
    const made = making(binding);
    const isKnown = found.every((expert) => expert !== undefined);
    if (!isKnown || !made) {
      unknown += made?.configurations.length ?? configurationsOf(merge).length;
      continue;
    }
    for (const configuration of made.configurations) {
      models.push(mergeModel(merge, plan, base, found, { ...made, configuration, binding, members, used }));
    }
  }
  return { models, unknown };
}

function isListed({ pairs }: Merge, used: readonly Member[]): boolean {
  if (pairs === "all") return true;
  const names = new Set(used.map(({ name }) => name));
  return pairs.some((pair) => pair.length === names.size && pair.every((name) => names.has(name)));
}

function mergeModel(
  merge: Merge,
  plan: ExperimentPlan,
  base: Model,
  found: readonly ExpertModel[],
  {
    recipe,
    configuration,
    binding,
    members,
    used,
  }: Making & {
    readonly configuration: Configuration;
    readonly binding: Binding;
    readonly members: readonly Member[];
    readonly used: readonly Member[];
  },
): MergeModel {
  const byName = new Map(found.map((expert) => [expert.name, expert]));
  const source = bindRecipe({ ...recipe, ...configuration.fields }, binding, members, (model) =>
    model === "base" ? (base.source as string) : (byName.get(model.name)?.source as string),
  );
  const own = found.filter(({ role, family }) => role === "language" && plan.experts[family]?.language !== undefined);
  const languages = [...new Set(own.flatMap((expert) => expert.languages))];
  const families = [...new Set(used.map(({ family }) => family))];
  const names = used.map(({ name }) => name);
  const label = labelOf(recipe, names, binding, members);
  return {
    name: [merge.name, label, configuration.label].filter((part) => part !== "").join(", "),
    kind: "merge",
    merge,
    group: `${merge.name} of ${families.join(" and ")}`,
    members: names,
    configuration,
    source: source as ModelSource,
    locations: Object.assign({}, base.locations, ...found.map(({ locations }) => locations)),
    needs: [...new Set(found.flatMap(({ needs }) => needs))],
    languages: languages.length > 0 ? languages : languagesOf(plan),
  };
}

/** The experts of a merge for people: `math-1 x swahili-2`; of many, what stands for all of a family, `math-1 x all swahili`. */
function labelOf(
  recipe: Making["recipe"],
  names: readonly string[],
  binding: Binding,
  members: readonly Member[],
): string {
  if (names.length <= MOST_NAMED) return names.join(" x ");
  const words = placesOf(recipe).map(({ word }) => binding.get(word)?.name ?? word);
  const named = words.filter((word) => meaningOf(word, members)?.kind !== "base");
  return [...new Set(named)].join(" x ");
}

/** Experts of a merge whose names stand in its own, `all` of a family or not. */
const MOST_NAMED = 3;

/** Tasks that a model is asked, with the language filled in. */
export function tasksFor(model: Pick<Model, "kind" | "languages">, plan: ExperimentPlan): TaskRequest[] {
  const kind = model.kind === "base" ? "base" : model.kind === "expert" ? "experts" : "merges";
  const requests = plan.evaluate.tasks.flatMap((task): TaskRequest[] => {
    if (typeof task !== "string" && !task.of.includes(kind)) return [];
    const { of: _, ...request } = typeof task === "string" ? { of: [], task } : task;
    const plain = Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));
    return inLanguages(request.task, model.languages).map((name) => ({ ...plain, task: name }));
  });
  return requests.filter(({ task }, i) => requests.findIndex((other) => other.task === task) === i);
}

/** How a task is asked that decides which checkpoints are kept: as the plan asks it of all, where it does. */
export function requestOf(name: string, plan: ExperimentPlan): TaskRequest {
  const known = tasksFor({ kind: "expert", languages: languagesOf(plan) }, plan);
  const others = tasksFor({ kind: "merge", languages: languagesOf(plan) }, plan);
  return [...known, ...others].find(({ task }) => task === name) ?? { task: name };
}

/** A task's name with each language in it. */
export function inLanguages(task: string, languages: readonly string[]): string[] {
  return task.includes("{language}") ? languages.map((code) => task.replaceAll("{language}", code)) : [task];
}

/** The tasks by which configurations of a model are chosen. */
export function decidingTasks(model: Pick<Model, "kind" | "languages">, plan: ExperimentPlan): TaskRequest[] {
  const [first] = plan.evaluate.tasks;
  const by = plan.search.by ?? (typeof first === "string" ? first : first?.task) ?? "";
  const names = new Set(inLanguages(by, model.languages));
  return tasksFor(model, plan).filter(({ task }) => names.has(task));
}

/** Configurations of a merge whose recipe the plan gives. */
export function plannedMaking(merge: Merge): Making {
  return { recipe: merge.recipe ?? {}, configurations: configurationsOf(merge) };
}
