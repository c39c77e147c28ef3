import type { Run } from "../../train/index.js";
import { withFields } from "../plan/configurations.js";
import {
  type Binding,
  bindRecipe,
  combinationsOf,
  type Member,
  meaningOf,
  memberNames,
  mentionsIn,
} from "../plan/expert-names.js";
import type {
  Configuration,
  ExperimentPlan,
  ExpertFamily,
  PlannedMerge,
  PlannedTraining,
} from "../plan/plan-schema.js";
import { type AskedModel, languagesOf } from "../plan/plan-tasks.js";
import type { Role } from "../plan/plan-values.js";
import type { TrainedCheckpoint } from "../steps/result.js";
import {
  type JsonValue,
  type Location,
  type MergeStep,
  type ModelSource,
  madeBy,
  stepKey,
  type TrainStep,
  WRITTEN_MODEL,
} from "../steps/step.js";
import type { Facts } from "./facts.js";

export interface PlanModel extends AskedModel {
  /** Unique: `layer swap, math-1 x swahili-2, bottom 3, top 1`. */
  readonly name: string;
  readonly source: ModelSource;
  readonly locations: Readonly<Record<string, Location>>;
  /** Keys of the steps that make it. */
  readonly needs: readonly string[];
}

export interface ExpertModel extends PlanModel {
  readonly kind: "expert";
  readonly expertFamily: string;
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
  /** Merge and families of experts. Models with the same are averaged, and have one search. */
  readonly group: string;
  readonly expertFamilies: readonly string[];
  readonly configuration: Configuration;
}

export function baseModel(plan: ExperimentPlan, facts: Facts): PlanModel {
  const { identity, folder } = facts.modelIdentity(plan.base);
  const languages = languagesOf(plan);
  return { name: "base", kind: "base", source: identity, locations: { [identity]: { folder } }, needs: [], languages };
}

/** A training step, and the run with its preset and defaults. */
export interface PlannedTrainStep {
  readonly step: TrainStep;
  readonly settings: Run;
}

/**
 * The training steps of a family of experts, one for each run.
 * @param start the model that they start from, in a folder
 * @param masks by run, the model in a folder whose largest changes it trains; without one: all weights
 */
export function trainingSteps(
  { runs, trl }: PlannedTraining,
  start: PlanModel,
  masks: ReadonlyMap<string, PlanModel>,
  facts: Facts,
): PlannedTrainStep[] {
  return runs.map(({ name, fields, settings }) => {
    const mask = masks.get(name);
    const masked = mask && settings?.mask ? { mask: { ...settings.mask, from: mask.source as string } } : {};
    const run = { ...fields, ...masked, base: start.source as string };
    // Other settings change speed and memory, not the result.
    const engine = trl && { precision: trl.precision };
    const data = facts.dataIdentity(run);
    const { threads: _threads, ...learned }: Record<string, JsonValue> = run;
    const step: TrainStep = {
      kind: "train",
      key: stepKey("train", { run: learned, data, trl: engine }),
      name,
      label: `train ${name}`,
      needs: [...new Set([...start.needs, ...(mask?.needs ?? [])])],
      locations: { ...start.locations, ...mask?.locations },
      run,
      data,
      ...(trl ? { trl } : {}),
    };
    // A plan with a run that is not valid has problems, and is not expanded.
    return { step, settings: settings as Run };
  });
}

export function checkpointModel(
  name: string,
  expertFamily: string,
  plan: ExperimentPlan,
  step: TrainStep,
  checkpoint: TrainedCheckpoint,
): ExpertModel {
  const identity = madeBy(step.key, checkpoint.path);
  const adapter = checkpoint.isAdapter ? { adapterOf: step.run.base as string } : {};
  return {
    ...expertFields(name, expertFamily, plan),
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

export function folderModels(plan: ExperimentPlan, expertFamily: string, facts: Facts): ExpertModel[] {
  const declared = plan.experts[expertFamily] as ExpertFamily;
  const folders = Array.isArray(declared.folders) ? declared.folders : Object.values(declared.folders ?? {});
  return memberNames(expertFamily, declared).map((name, i) => {
    const { identity, folder } = facts.modelIdentity(folders[i] ?? "");
    return {
      ...expertFields(name, expertFamily, plan),
      source: identity,
      locations: { [identity]: { folder } },
      needs: [],
    };
  });
}

function expertFields(name: string, expertFamily: string, plan: ExperimentPlan) {
  const { role, language } = plan.experts[expertFamily] as ExpertFamily;
  const languages = language === undefined ? languagesOf(plan) : [language];
  return { name, kind: "expert", expertFamily, role, languages } as const;
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
  const expertFamilies = [
    ...new Set(found.flatMap((one) => (one.kind === "merge" ? one.expertFamilies : [one.expertFamily]))),
  ];
  const languages = expertFamilies.flatMap((expertFamily) => {
    const { role, language } = plan.experts[expertFamily] as ExpertFamily;
    return role === "language" && language !== undefined ? [language] : [];
  });
  const names = used.map(({ name }) => name);
  const label = labelOf(recipe, names, binding, members);
  return {
    name: [merge.name, label, configuration.label].filter((part) => part !== "").join(", "),
    kind: "merge",
    merge,
    group: `${merge.name} of ${expertFamilies.join(" and ")}`,
    expertFamilies,
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
