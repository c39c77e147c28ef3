import type { Facts } from "../steps/facts.js";
import type { TrainedCheckpoint } from "../steps/result.js";
import {
  type Location,
  type MergeStep,
  type ModelSource,
  madeBy,
  stepKey,
  type TaskRequest,
  type TrainStep,
  WRITTEN_MODEL,
} from "../steps/step.js";
import { withFields } from "./configurations.js";
import {
  type Binding,
  bindingsOf,
  bindRecipe,
  type Member,
  meaningOf,
  memberNames,
  membersIn,
  mentionsIn,
  nameProblems,
  runNames,
} from "./expert-names.js";
import {
  type Configuration,
  decidingTask,
  type ExperimentPlan,
  type ExpertGroup,
  type Json,
  languagesOf,
  type Merge,
  type PlannedMerge,
  type Training,
} from "./plan-schema.js";
import type { Role } from "./plan-values.js";
import { settleTraining, trainingRun } from "./training-runs.js";

export interface PlanModel {
  /** Unique: `layer swap, math-1 x swahili-2, bottom 3, top 1`. */
  readonly name: string;
  readonly kind: "base" | "expert" | "merge";
  readonly source: ModelSource;
  readonly locations: Readonly<Record<string, Location>>;
  /** Keys of the steps that make it. */
  readonly needs: readonly string[];
  /** Codes of the languages that `{language}` stands for. */
  readonly languages: readonly string[];
}

export interface ExpertModel extends PlanModel {
  readonly kind: "expert";
  readonly expertGroup: string;
  readonly role: Role;
  /** Run and samples of a checkpoint: `math-1 after 8 samples`. */
  readonly origin?: string;
  /** Whether it is evaluated only to choose among checkpoints. */
  readonly isCandidate?: boolean;
}

export interface MergeModel extends PlanModel {
  readonly kind: "merge";
  readonly merge: PlannedMerge;
  /** The experts in it, in the order of the recipe. */
  readonly members: readonly string[];
  /** Merge and expert groups. Models with the same are averaged, and have one search. */
  readonly group: string;
  readonly expertGroups: readonly string[];
  readonly configuration: Configuration;
}

export function baseModel(plan: ExperimentPlan, facts: Facts): PlanModel {
  const { identity, folder } = facts.modelIdentity(plan.base);
  const languages = languagesOf(plan);
  return { name: "base", kind: "base", source: identity, locations: { [identity]: { folder } }, needs: [], languages };
}

function withDefaults(trl: NonNullable<Training["trl"]> = {}) {
  const { python = "python3", processes = 1, precision = "float32", gradient_checkpointing = false } = trl;
  return { python, processes, precision, gradient_checkpointing };
}

/** The training steps of an expert group, one for each run. @param start the model that they start from, in a folder */
export function trainingSteps(plan: ExperimentPlan, expertGroup: string, start: PlanModel, facts: Facts): TrainStep[] {
  const { train, select } = plan.experts[expertGroup] as ExpertGroup;
  if (!train) return [];
  const names = runNames(expertGroup, train);
  const settled = settleTraining(plan, train);
  return names.map((name, i) => {
    const own = train.runs?.[i] ?? (train.seeds ? { seed: train.seeds[i] } : undefined);
    const { out: _, ...fields } = trainingRun(settled.run, own, start.source as string, select !== undefined);
    const run = fields as Record<string, Json>;
    const trl = settled.engine === "trl" ? withDefaults(settled.trl) : undefined;
    // Other settings change speed and memory, not the result.
    const engine = trl && { precision: trl.precision };
    const data = facts.dataIdentity(run);
    const { threads: _threads, ...learned } = run;
    const key = stepKey("train", { run: learned, data, trl: engine });
    return {
      kind: "train",
      key,
      name,
      label: `train ${name}`,
      needs: start.needs,
      locations: start.locations,
      run,
      data,
      ...(trl ? { trl } : {}),
    } as const;
  });
}

export function checkpointModel(
  name: string,
  expertGroup: string,
  plan: ExperimentPlan,
  step: TrainStep,
  checkpoint: TrainedCheckpoint,
): ExpertModel {
  const identity = madeBy(step.key, checkpoint.path);
  const adapter = checkpoint.isAdapter ? { adapterOf: step.run.base as string } : {};
  return {
    ...expertFields(name, expertGroup, plan),
    source: identity,
    locations: {
      // An adapter also needs what it was trained on.
      ...(checkpoint.isAdapter ? step.locations : {}),
      [identity]: { step: step.key, path: checkpoint.path, ...adapter },
    },
    needs: [step.key],
    origin: `${step.name} after ${checkpoint.samples.toLocaleString("en-US")} samples`,
  };
}

export function folderModels(plan: ExperimentPlan, expertGroup: string, facts: Facts): ExpertModel[] {
  const declared = plan.experts[expertGroup] as ExpertGroup;
  const folders = Array.isArray(declared.folders) ? declared.folders : Object.values(declared.folders ?? {});
  return memberNames(expertGroup, declared).map((name, i) => {
    const { identity, folder } = facts.modelIdentity(folders[i] ?? "");
    return {
      ...expertFields(name, expertGroup, plan),
      source: identity,
      locations: { [identity]: { folder } },
      needs: [],
    };
  });
}

function expertFields(name: string, expertGroup: string, plan: ExperimentPlan) {
  const { role, language } = plan.experts[expertGroup] as ExpertGroup;
  const languages = language === undefined ? languagesOf(plan) : [language];
  return { name, kind: "expert", expertGroup, role, languages } as const;
}

/** A model as it must be for training: a merge, or a model with an adapter, is written by a step. */
export function writtenModel<M extends PlanModel>(
  model: M,
  facts: Facts,
): { readonly model: M; readonly step?: MergeStep } {
  const { name, source, locations, needs } = model;
  const at = typeof source === "string" ? locations[source] : undefined;
  const isFolder = at && ("folder" in at ? !at.folder.includes("+") : at.adapterOf === undefined);
  if (isFolder) return { model };
  const key = stepKey("merge", { model: facts.recipeIdentity(source) });
  const identity = madeBy(key, WRITTEN_MODEL);
  return {
    model: { ...model, source: identity, locations: { [identity]: { step: key, path: WRITTEN_MODEL } }, needs: [key] },
    step: { kind: "merge", key, label: `write ${name}`, needs, locations, model: source },
  };
}

/** A model that a recipe can name. A merge is in a folder. */
export type SourceModel = ExpertModel | MergeModel;

/** A recipe of the plan, or suggested recipes for a pair. */
export interface Making {
  readonly recipe: Readonly<Record<string, unknown>>;
  readonly configurations: readonly Configuration[];
}

export interface MergeInputs {
  readonly plan: ExperimentPlan;
  /** What `base` means; undefined if it is not known yet. */
  readonly base: PlanModel | undefined;
  /** A model that is named, if it is known. */
  readonly source: (member: Member) => SourceModel | undefined;
  /** Experts and merges that exist, or will. */
  readonly members: readonly Member[];
}

/** The models of a merge whose parts are known, and the number of those to come. */
export function mergeModels(
  merge: PlannedMerge,
  inputs: MergeInputs,
  making: (binding: Binding) => Making | undefined,
): { models: MergeModel[]; unknown: number } {
  const { base, members, source } = inputs;
  const models: MergeModel[] = [];
  let unknown = 0;
  for (const { binding, used } of combinationsOf(merge, members)) {
    const found = used.map(source);
    const made = making(binding);
    if (!base || !made || !found.every((one) => one !== undefined)) {
      unknown += made?.configurations.length ?? merge.all.length;
      continue;
    }
    for (const configuration of made.configurations) {
      models.push(mergeModel(merge, { ...inputs, base }, used, found, made.recipe, configuration, binding));
    }
  }
  return { models, unknown };
}

/** The recipe of a merge as far as it names models: a suggestion names its two experts like a swap. */
export function namingRecipe({ recipe, suggest }: Merge): Readonly<Record<string, unknown>> {
  return recipe ?? (suggest ? { method: "swap", ...suggest } : {});
}

/** The names of models that must be there before a merge. */
export function wordsOf(merge: Merge): string[] {
  return [...mentionsIn(namingRecipe(merge)).map(({ word }) => word), ...[merge.from ?? []].flat()];
}

/** The combinations of sources that a merge has models of; none if a name means nothing. */
export function combinationsOf(
  merge: PlannedMerge,
  members: readonly Member[],
): { readonly binding: Binding; readonly used: readonly Member[] }[] {
  const named = namingRecipe(merge);
  // Guards left out all experts that a name means.
  if (nameProblems(named, members, []).length > 0) return [];
  return bindingsOf(named, members)
    .map((binding) => ({ binding, used: membersIn(named, binding, members) }))
    .filter(({ used }) => isListed(merge, used));
}

function isListed({ pairs, controlOf }: PlannedMerge, used: readonly Member[]): boolean {
  if (pairs === "all") return true;
  const names = new Set(used.flatMap(({ name, expertGroup }) => (expertGroup === undefined ? [] : [name])));
  // The base takes the place of an expert in some controls.
  return pairs.some(
    (pair) =>
      (controlOf !== undefined || pair.length === names.size) && [...names].every((name) => pair.includes(name)),
  );
}

function mergeModel(
  merge: PlannedMerge,
  { plan, base, members }: MergeInputs & { readonly base: PlanModel },
  used: readonly Member[],
  found: readonly SourceModel[],
  recipe: Making["recipe"],
  configuration: Configuration,
  binding: Binding,
): MergeModel {
  const source = bindRecipe(withFields(recipe, configuration.fields), binding, members, (model) =>
    model === "base" ? (base.source as string) : (found[used.indexOf(model)]?.source as string),
  );
  const expertGroups = [
    ...new Set(found.flatMap((one) => (one.kind === "merge" ? one.expertGroups : [one.expertGroup]))),
  ];
  const languages = expertGroups.flatMap((expertGroup) => {
    const { role, language } = plan.experts[expertGroup] as ExpertGroup;
    return role === "language" && language !== undefined ? [language] : [];
  });
  const names = used.map(({ name }) => name);
  const label = labelOf(recipe, names, binding, members);
  return {
    name: [merge.name, label, configuration.label].filter((part) => part !== "").join(", "),
    kind: "merge",
    merge,
    group: `${merge.name} of ${expertGroups.join(" and ")}`,
    expertGroups,
    members: [...new Set(found.flatMap((one) => (one.kind === "merge" ? one.members : [one.name])))],
    configuration,
    source: source as ModelSource,
    locations: Object.assign({}, base.locations, ...found.map(({ locations }) => locations)),
    needs: [...new Set([base, ...found].flatMap(({ needs }) => needs))],
    languages: languages.length > 0 ? [...new Set(languages)] : languagesOf(plan),
  };
}

/** The experts of a merge: `math-1 x swahili-2`; if there are many, as the recipe names them: `math-1 x all swahili`. */
function labelOf(
  recipe: Making["recipe"],
  names: readonly string[],
  binding: Binding,
  members: readonly Member[],
): string {
  if (names.length <= MAX_NAMED) return names.join(" x ");
  const words = mentionsIn(recipe).map(({ word }) => binding.get(word)?.name ?? word);
  const named = words.filter((word) => meaningOf(word, members)?.kind !== "base");
  return [...new Set(named)].join(" x ");
}

const MAX_NAMED = 3;

/** Tasks that a model is evaluated on, with the language filled in. */
export function tasksFor(
  model: Pick<PlanModel, "kind" | "languages"> & { readonly merge?: Pick<PlannedMerge, "controlOf"> },
  plan: ExperimentPlan,
): TaskRequest[] {
  const { tasks } = plan.evaluate;
  const isControl = model.merge?.controlOf !== undefined && tasks.some(({ of }) => of.includes("controls"));
  const kind = isControl ? "controls" : ({ base: "base", expert: "experts", merge: "merges" } as const)[model.kind];
  const requests = tasks.flatMap(({ of, ...request }): TaskRequest[] => {
    if (!of.includes(kind)) return [];
    const set = Object.fromEntries(Object.entries(request).filter(([, value]) => value !== undefined));
    return inLanguages(request.task, model.languages).map((name) => ({ ...set, task: name }));
  });
  return requests.filter(({ task }, i) => requests.findIndex((other) => other.task === task) === i);
}

/** The task by which checkpoints are chosen, with the settings that it has under `evaluate`, if any. */
export function requestOf(name: string, plan: ExperimentPlan): TaskRequest {
  const languages = languagesOf(plan);
  const known = (["expert", "merge"] as const).flatMap((kind) => tasksFor({ kind, languages }, plan));
  return known.find(({ task }) => task === name) ?? { task: name };
}

export function inLanguages(task: string, languages: readonly string[]): string[] {
  return task.includes("{language}") ? languages.map((code) => task.replaceAll("{language}", code)) : [task];
}

/** The tasks of an average, with each language in them. */
export function tasksOfAverage(tasks: readonly string[], plan: ExperimentPlan): string[] {
  return [...new Set(tasks.flatMap((task) => inLanguages(task, languagesOf(plan))))];
}

/** The tasks by which configurations of a model are chosen. */
export function decidingTasks(model: Pick<PlanModel, "kind" | "languages">, plan: ExperimentPlan): TaskRequest[] {
  const names = new Set(inLanguages(decidingTask(plan), model.languages));
  return tasksFor(model, plan).filter(({ task }) => names.has(task));
}
