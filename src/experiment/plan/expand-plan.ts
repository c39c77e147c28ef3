// From a plan to its steps, as far as they are known: more follow as results arrive.
import { basename } from "node:path";
import { canonicalJson, groupBy, plural } from "../../core/index.js";
import { mapSources } from "../../merge/index.js";
import type { Facts, Results } from "../steps/facts.js";
import {
  type AnalyzeStep,
  type EvaluateStep,
  type ModelName,
  type Step,
  type StepKind,
  stepKey,
  type TaskRequest,
  type TrainStep,
} from "../steps/step.js";
import { type Candidate, chooseCheckpoints, describeRefusals, type Selection } from "./choose-checkpoints.js";
import { type Configuration, configurationsOf, isAdaptive, isSearched, mostEvaluated } from "./configurations.js";
import { mergesOf, type PlannedMerge } from "./controls.js";
import {
  type Binding,
  bindingsOf,
  type Member,
  memberNames,
  membersNamed,
  membersOf,
  nameProblems,
  placesOf,
  sourcesIn,
} from "./expert-names.js";
import {
  baseModel,
  checkpointModel,
  decidingTasks,
  type ExpertModel,
  folderModels,
  identityOf,
  inLanguages,
  type Making,
  type MergeModel,
  type MergeParts,
  type Model,
  mergeModels,
  namingRecipe,
  requestOf,
  type SourceModel,
  tasksFor,
  trainingSteps,
  writtenModel,
} from "./plan-models.js";
import { type ExperimentPlan, type Family, type Json, type Merge, runnerOf } from "./plan-schema.js";
import { type SearchOutcome, searchGroup } from "./search-configurations.js";
import { countCheckpoints } from "./training-runs.js";

/** A model, and the steps that evaluate it on each task; several if items were evaluated in parts. */
export interface EvaluatedModel {
  readonly model: Model | ExpertModel | MergeModel;
  readonly tasks: readonly { readonly request: TaskRequest; readonly steps: readonly EvaluateStep[] }[];
}

export interface Waiting {
  readonly what: string;
  /** About how many. */
  readonly steps: number;
  /** Default: evaluate. */
  readonly kind?: StepKind;
  /** Of training runs, all but what they start from. */
  readonly runs?: readonly TrainStep[];
  /** What they depend on, if that is known: variants with the same have the same steps. */
  readonly of?: string;
}

const GUARDED_BASE = "base (for guards)";
/** Identity of what a run starts from, while that is not known. */
const UNKNOWN_START = "unknown";

export interface Expansion {
  /** How checkpoints were chosen, of families with guards or `one_per`. */
  readonly selections: readonly Selection[];
  /** In an order in which they can run. */
  readonly steps: readonly Step[];
  /** Base, experts, then merges in the plan's order. */
  readonly models: readonly EvaluatedModel[];
  readonly searches: readonly SearchOutcome[];
  /** Pairs of experts whose changed rows are compared, and the key of their analysis. */
  readonly overlaps: readonly { readonly experts: readonly [string, string]; readonly key: string }[];
  readonly waiting: readonly Waiting[];
  /** Families and merges that will have no model because guards refused checkpoints, in sentences. */
  readonly warnings: readonly string[];
}

export function expandPlan(plan: ExperimentPlan, facts: Facts, results: Results): Expansion {
  return new Expander(plan, facts, results).expand();
}

class Expander {
  readonly #plan: ExperimentPlan;
  readonly #facts: Facts;
  readonly #results: Results;
  readonly #base: Model;
  /** Experts that are known so far, by name. */
  readonly #experts = new Map<string, ExpertModel>();
  /** What each family started from, as far as that is known. */
  readonly #starts = new Map<string, Model>();
  readonly #products = new Map<string, MergeModel>();
  /** Families and merges that were expanded. A family may start from a merge, so they are not expanded in the plan's order. */
  readonly #expanded = new Set<string | PlannedMerge>();
  readonly #merges: readonly PlannedMerge[];
  readonly #steps = new Map<string, Step>();
  readonly #evaluated = new Map<Model, EvaluateStep[]>();
  readonly #searches: SearchOutcome[] = [];
  readonly #waiting: Waiting[] = [];
  readonly #selections: Selection[] = [];
  /** Experts that guards left out, and what would start from them. */
  readonly #missing = new Set<string>();
  readonly #names: Set<string>;

  constructor(plan: ExperimentPlan, facts: Facts, results: Results) {
    this.#plan = plan;
    this.#facts = facts;
    this.#results = results;
    this.#base = baseModel(plan, facts);
    this.#merges = mergesOf(plan, facts.modelIdentity(plan.base).layers ?? plan.assume?.layers);
    this.#names = new Set(["base", ...membersOf(plan).map(({ name }) => name)]);
  }

  expand(): Expansion {
    this.#evaluateAll(this.#base);
    for (const family of Object.keys(this.#plan.experts)) this.#family(family);
    for (const { name } of membersOf(this.#plan)) {
      const expert = this.#experts.get(name);
      if (expert) this.#evaluateAll(expert);
    }
    for (const merge of this.#merges) this.#merge(merge);
    const places = new Map(this.#merges.map((merge, i) => [merge, i]));
    const placeOf = (model: Model | MergeModel) => ("merge" in model ? (places.get(model.merge) ?? 0) : -1);
    const evaluated = [...this.#evaluated].sort(([a], [b]) => placeOf(a) - placeOf(b));
    const models = evaluated.map(([model, steps]) => ({
      model,
      tasks: [...groupBy(steps, ({ request }) => request.task).values()].map((inTask) => ({
        request: (inTask[0] as EvaluateStep).request,
        steps: [...new Map(inTask.map((step) => [step.key, step])).values()],
      })),
    }));
    const overlaps = this.#overlaps(); // adds steps
    return {
      steps: [...this.#steps.values()],
      models,
      searches: this.#searches,
      overlaps,
      selections: this.#selections,
      waiting: this.#waiting,
      warnings: describeRefusals(this.#selections, this.#withoutModel()),
    };
  }

  /** Families and merges of the plan that guards left without a model. */
  #withoutModel(): string[] {
    const { experts, merges } = this.#plan;
    const families = Object.entries(experts).filter(([name, family]) =>
      memberNames(name, family).every((member) => this.#missing.has(member)),
    );
    const names = [...families.map(([name]) => name), ...merges.map(({ name }) => name)];
    return names.filter((name, i) => i < families.length || this.#missing.has(name));
  }

  /** A model that a recipe names, if it is known. A merge is written by a step. */
  #source(member: Member): SourceModel | undefined {
    const { name, family } = member;
    if (family !== undefined) {
      this.#family(family);
      return this.#experts.get(name);
    }
    for (const merge of this.#plan.merges) if (merge.name === name) this.#merge(merge);
    const product = this.#products.get(name);
    if (product) return this.#written(product);
    const what = `writing ${name}`;
    const isNoted = this.#missing.has(name) || this.#waiting.some((waiting) => waiting.what === what);
    if (!isNoted) this.#waiting.push({ what, steps: 1, kind: "merge" });
    return undefined;
  }

  /** What a family or merge starts from: undefined if it is not known yet, `missing` if guards left it out. */
  #start(name: string | undefined): Model | undefined | "missing" {
    const [member] = membersNamed(name ?? "base", sourcesIn(this.#plan));
    if (!member) return this.#base;
    return this.#source(member) ?? (this.#missing.has(member.name) ? "missing" : undefined);
  }

  /** The same model in a folder. */
  #written<M extends Model>(known: M): M {
    const { model, step } = writtenModel(known);
    if (step) this.#add(step);
    return model;
  }

  #family(family: string): void {
    if (this.#expanded.has(family)) return;
    this.#expanded.add(family);
    for (const expert of this.#expertsIn(family)) this.#experts.set(expert.name, expert);
  }

  #expertsIn(family: string): ExpertModel[] {
    const declared = this.#plan.experts[family] as Family;
    if (!declared.train) return folderModels(this.#plan, family, this.#facts);
    const found = this.#start(declared.train.from);
    if (found === "missing") {
      for (const name of memberNames(family, declared)) this.#missing.add(name);
      return [];
    }
    // The base may have an adapter, as before there were other starts.
    const start = found && found !== this.#base ? this.#written(found) : found;
    const unknown = { ...this.#base, source: UNKNOWN_START };
    const runs = trainingSteps(this.#plan, family, start ?? unknown, this.#facts);
    if (start) {
      this.#starts.set(family, start);
      for (const step of runs) this.#add(step);
    } else this.#waiting.push({ what: `training of ${family}`, steps: runs.length, kind: "train", runs });
    if (declared.select) return this.#selected(family, declared.select, runs);
    return runs.flatMap((step) => {
      const last = this.#results.trained(step.key)?.at(-1);
      const { name } = step;
      if (last) return [checkpointModel(name, family, this.#plan, step, last)];
      const tasks = tasksFor(this.#expertOf(family), this.#plan);
      this.#wait(`scores of ${name}`, tasks.length, canonicalJson([step.key, tasks]));
      return [];
    });
  }

  /** What decides the tasks of an expert that is not known yet. */
  #expertOf(family: string): Pick<Model, "kind" | "languages"> {
    const language = this.#plan.experts[family]?.language;
    return { kind: "expert", languages: language === undefined ? this.#base.languages : [language] };
  }

  /** The best checkpoints of a family's runs, once all are evaluated. */
  #selected(family: string, rule: NonNullable<Family["select"]>, runs: readonly TrainStep[]): ExpertModel[] {
    const future = this.#expertOf(family);
    const tasks = [rule.by]
      .flat()
      .flatMap((task) => inLanguages(task, future.languages))
      .map((task) => requestOf(task, this.#plan));
    const guards = rule.guards.flatMap(({ task, within }) =>
      inLanguages(task, future.languages).map((name) => ({ request: requestOf(name, this.#plan), within })),
    );
    // Its own name and no report: the base may not be evaluated on the task otherwise.
    const judged = { ...this.#base, name: GUARDED_BASE, isCandidate: true };
    const floors = guards.map(({ request, within }) => {
      return { task: request.task, within, base: this.#score(judged, request) };
    });
    const candidates = runs.flatMap((step) =>
      (this.#results.trained(step.key) ?? []).map((checkpoint) => {
        const name = `${step.name}@${checkpoint.samples}`;
        const model = { ...checkpointModel(name, family, this.#plan, step, checkpoint), isCandidate: true };
        const scores = tasks.map((request) => this.#score(model, request));
        const guarded = guards.map(({ request }) => this.#score(model, request));
        return { step, checkpoint, origin: model.origin ?? "", score: meanOf(scores), guarded };
      }),
    );
    const isTrained = runs.every(({ key }) => this.#results.trained(key));
    if (!isTrained)
      this.#wait(
        `scores of checkpoints of ${family}${guards.length > 0 ? `, and their guards (${[...new Set(guards.map(({ request }) => request.task))].join(", ")})` : ""}`,
        (tasks.length + guards.length) * runs.reduce((sum, run) => sum + countCheckpoints(run), 0),
      );
    const isKnown = floors.every(({ base }) => base !== undefined);
    if (!isTrained || !isKnown || candidates.some(({ score, guarded }) => [score, ...guarded].includes(undefined))) {
      this.#wait(`scores of the ${rule.top} best of ${family}`, rule.top * tasksFor(future, this.#plan).length);
      return [];
    }
    const { kept, checkpoints } = chooseCheckpoints(family, rule, candidates as readonly Candidate[], floors);
    if (guards.length > 0 || rule.one_per !== undefined) {
      const by = tasks.map(({ task }) => task);
      this.#selections.push({ family, top: rule.top, by, guards: floors, checkpoints });
      // Otherwise merges would wait for them forever.
      for (let i = kept.length + 1; i <= rule.top; i++) this.#missing.add(`${family}-${i}`);
    }
    return kept.map(({ name, step, checkpoint }) => checkpointModel(name, family, this.#plan, step, checkpoint));
  }

  #merge(merge: PlannedMerge): void {
    if (this.#expanded.has(merge)) return;
    this.#expanded.add(merge);
    const base = this.#start(merge.from);
    // Before its combinations are made, because guards may leave experts out.
    for (const { word } of placesOf(namingRecipe(merge))) {
      for (const member of membersNamed(word, this.#members())) this.#source(member);
    }
    const parts: MergeParts = {
      plan: this.#plan,
      base: base === "missing" ? undefined : base,
      source: (member) => this.#source(member),
      members: base === "missing" ? [] : this.#members(),
    };
    const making = (binding: Binding) =>
      merge.recipe
        ? { recipe: merge.recipe, configurations: configurationsOf(merge) }
        : this.#suggested(merge, binding);
    const { models: made, unknown } = mergeModels(merge, parts, making);
    const named = (models: readonly MergeModel[]) =>
      models.map((model) => ({ ...model, name: this.#freeName(model.name) }));
    const models = named(made);
    if (unknown > 0) {
      // If there is a search, the deciding tasks come first; #searches adds what is reported.
      const future = { kind: "merge", languages: models[0]?.languages ?? this.#base.languages.slice(0, 1) } as const;
      const { search } = this.#plan;
      const hasChoice = !merge.controlOf && isSearched(merge);
      const tasks = hasChoice ? decidingTasks(future, this.#plan) : tasksFor(future, this.#plan);
      const more = isAdaptive(merge, search) ? mostEvaluated(merge, search) / configurationsOf(merge).length : 1;
      this.#wait(`scores of ${merge.name}`, Math.ceil(unknown * more) * tasks.length);
    }
    const evaluator = {
      evaluate: (model: Model, request: TaskRequest, items: readonly number[] | null, part?: string) =>
        this.#results.evaluated(this.#evaluate(model, request, items, part).key)?.items,
      make: (group: string, configurations: readonly Configuration[]) => {
        const again = () => ({ recipe: merge.recipe ?? {}, configurations });
        const more = mergeModels(merge, parts, again).models.filter((model) => model.group === group);
        models.push(...named(more));
        return models.slice(models.length - more.length);
      },
      countItems: (request: TaskRequest) => this.#facts.task(request).items,
      wait: (what: string, steps: number) => this.#wait(what, steps),
    };
    if (made.length === 0 && unknown === 0) this.#missing.add(merge.name);
    for (const inGroup of groupBy(models, ({ group }) => group).values()) {
      const outcome = searchGroup(this.#plan, inGroup, unknown > 0, evaluator);
      if (outcome) this.#searches.push(outcome);
      const product = models.find(({ group, configuration }) => {
        if (group !== inGroup[0]?.group) return false;
        return outcome ? configuration.label === outcome.chosen : configuration.isDefault;
      });
      // Of several combinations there is no one model; the plan's check reports it where one is needed.
      if (product && unknown === 0) this.#products.set(merge.name, product);
    }
  }

  /** A name that no other model has: reports find models by name, and a merge may have any name. */
  #freeName(name: string): string {
    let free = name;
    for (let count = 2; this.#names.has(free); count++) free = `${name} (${count})`;
    this.#names.add(free);
    return free;
  }

  /** The recipes that the analysis of a pair suggests, once it is done. */
  #suggested(merge: Merge, binding: Binding): Making | undefined {
    const names = merge.suggest ?? { task: "", language: "" };
    const [task, language] = [names.task, names.language].map((word) =>
      this.#experts.get(binding.get(word)?.name ?? word),
    );
    if (!task || !language) return undefined;
    const step = this.#analysis(task, language);
    const configurations = this.#results.suggested(step.key)?.map(
      ({ name, recipe }, i): Configuration => ({
        label: name,
        isDefault: i === 0,
        fields: renameSources(recipe, names) as Record<string, Json>,
      }),
    );
    return configurations && { recipe: {}, configurations };
  }

  #members(): Member[] {
    return sourcesIn(this.#plan).filter(({ name }) => !this.#missing.has(name));
  }

  /** The step that compares the changes of two experts, against what both started from. */
  #analysis(task: ExpertModel, language: ExpertModel): AnalyzeStep {
    const [own = this.#base, other = this.#base] = [task, language].map(({ family }) => this.#starts.get(family));
    const base = own.source === other.source ? own : this.#base;
    const inputs = {
      base: base.source as string,
      task: task.source as string,
      language: language.source as string,
    };
    const step: AnalyzeStep = {
      kind: "analyze",
      key: stepKey("analyze", inputs),
      label: `analyze ${task.name} and ${language.name}`,
      ...inputs,
      needs: [...new Set([...base.needs, ...task.needs, ...language.needs])],
      locations: { ...base.locations, ...task.locations, ...language.locations },
    };
    this.#add(step);
    return step;
  }

  /** The analyses of the plan's `overlaps` whose experts are known. */
  #overlaps(): Expansion["overlaps"] {
    const members = this.#members().filter(({ family }) => family !== undefined);
    return this.#plan.overlaps.flatMap(([first = "", second = ""]) => {
      const named = { method: "swap", task: first, language: second };
      if (nameProblems(named, members, []).length > 0) return [];
      const pairs = bindingsOf(named, members).map((binding) =>
        [first, second].map((word) => binding.get(word)?.name ?? word),
      );
      return pairs.flatMap(([one = "", other = ""]) => {
        const [a, b] = [this.#experts.get(one), this.#experts.get(other)];
        if (!a || !b) this.#wait(`overlap of ${one} and ${other}`, 1);
        return a && b && a !== b ? [{ experts: [a.name, b.name] as const, key: this.#analysis(a, b).key }] : [];
      });
    });
  }

  #evaluateAll(model: Model): void {
    for (const request of tasksFor(model, this.#plan)) this.#evaluate(model, request, null);
  }

  #score(model: Model, request: TaskRequest): number | undefined {
    return this.#results.evaluated(this.#evaluate(model, request, null).key)?.score;
  }

  #evaluate(model: Model, request: TaskRequest, items: readonly number[] | null, part?: string): EvaluateStep {
    const runner = runnerOf(this.#plan);
    const { name: task, digest, protocol } = this.#facts.task(request);
    const key = stepKey("evaluate", { model: identityOf(model.source), task, digest, protocol, items, ...runner });
    const step: EvaluateStep = {
      kind: "evaluate",
      key,
      of: modelName(model),
      label: `evaluate ${model.name} on ${basename(request.task)}${items ? partName(items, part) : ""}`,
      needs: model.needs,
      locations: model.locations,
      model: model.source,
      request,
      digest,
      items,
      ...runner,
    };
    this.#add(step);
    const steps = this.#evaluated.get(model) ?? [];
    steps.push(step);
    this.#evaluated.set(model, steps);
    return step;
  }

  #add(step: Step): void {
    // One model may have two names; the first one's label stays.
    if (!this.#steps.has(step.key)) this.#steps.set(step.key, step);
  }

  #wait(what: string, steps: number, of?: string): void {
    if (steps > 0) this.#waiting.push({ what, steps, ...(of === undefined ? {} : { of }) });
  }
}

/** `, round 2 (50 items)` */
function partName({ length }: readonly number[], part: string | undefined): string {
  return `${part === undefined ? "" : `, ${part}`} (${plural(length, "item")})`;
}

function meanOf(scores: readonly (number | undefined)[]): number | undefined {
  const known = scores.filter((score) => score !== undefined);
  return known.length === scores.length ? known.reduce((sum, score) => sum + score, 0) / known.length : undefined;
}

/** A suggested recipe with the plan's names for its two experts. */
function renameSources(recipe: Readonly<Record<string, unknown>>, names: { task: string; language: string }): object {
  // Sources only: in `outside: language`, the word belongs to the method.
  return mapSources(recipe, (source) => (source === "task" || source === "language" ? names[source] : source));
}

function modelName(model: Model | ExpertModel | MergeModel): ModelName {
  const { name } = model;
  if ("merge" in model) {
    const { label, isDefault } = model.configuration;
    return { name, family: model.merge.name, configuration: label, ...(isDefault ? { isDefault } : {}) };
  }
  return { name, family: "family" in model ? model.family : name, configuration: "" };
}
