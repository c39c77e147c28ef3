// From a plan to its steps, as far as they are known: more follow as results arrive.
import { canonicalJson } from "../../kit/files/index.js";
import { groupBy } from "../../kit/index.js";
import { mapSources } from "../../merge/index.js";
import { isAdaptive, isSearched, mostEvaluated } from "../plan/configurations.js";
import { mergesOf } from "../plan/controls.js";
import {
  type Binding,
  bindingsOf,
  type Member,
  memberNames,
  membersNamed,
  membersOf,
  mentionsIn,
  nameProblems,
  namingRecipe,
  sourcesIn,
} from "../plan/expert-names.js";
import type { Configuration, ExperimentPlan, ExpertFamily, Merge, PlannedMerge } from "../plan/plan-schema.js";
import { type BoundStep, boundSteps, stepProblems } from "../plan/plan-steps.js";
import { decidingTasks, tasksFor } from "../plan/plan-tasks.js";
import { maskOf } from "../plan/training-runs.js";
import { type SearchOutcome, searchGroup } from "../search/search.js";
import { verbKey } from "../steps/run-verb.js";
import { type AnalyzeStep, type JsonValue, type Step, stepKey, type TaskItems, type TaskRequest } from "../steps/step.js";
import { describeRefusals, type Selection, selectCheckpoints } from "./choose-checkpoints.js";
import type { Facts, Results } from "./facts.js";
import {
  baseModel,
  checkpointModel,
  type ExpertModel,
  folderModels,
  type Making,
  type MergeInputs,
  type MergeModel,
  mergeModels,
  type PlanModel,
  type PlannedTrainStep,
  type SourceModel,
  trainingSteps,
  writtenModel,
} from "./plan-models.js";
import { type EvaluatedModel, StepList, type Waiting } from "./step-list.js";

/** Identity of what a run starts from, while that is not known. */
const UNKNOWN_START = "unknown";

export interface Expansion {
  /** How checkpoints were chosen, of families of experts with `select`. */
  readonly selections: readonly Selection[];
  /** In an order in which they can run. */
  readonly steps: readonly Step[];
  /** Training steps with what they train, presets and defaults filled in, by their keys. */
  readonly runs: ReadonlyMap<string, PlannedTrainStep>;
  /** Base, experts, then merges in the plan's order. */
  readonly models: readonly EvaluatedModel[];
  readonly searches: readonly SearchOutcome[];
  /** Pairs of experts whose changed rows are compared, and the key of their analysis. */
  readonly overlaps: readonly { readonly experts: readonly [string, string]; readonly key: string }[];
  /** Experts whose changes are mapped, and the key of their analysis. */
  readonly changes: readonly { readonly expert: string; readonly key: string }[];
  readonly waiting: readonly Waiting[];
  /** Families of experts and merges that will have no model because guards refused checkpoints, in sentences. */
  readonly warnings: readonly string[];
}

export function expandPlan(plan: ExperimentPlan, facts: Facts, results: Results): Expansion {
  return new Expander(plan, facts, results).expand();
}

class Expander {
  readonly #plan: ExperimentPlan;
  readonly #facts: Facts;
  readonly #results: Results;
  readonly #steps: StepList;
  readonly #base: PlanModel;
  /** Experts that are known so far, by name. */
  readonly #experts = new Map<string, ExpertModel>();
  /** What each family of experts started from, as far as that is known. */
  readonly #starts = new Map<string, PlanModel>();
  /** The model of each merge that is one model. */
  readonly #products = new Map<string, MergeModel>();
  readonly #runs = new Map<string, PlannedTrainStep>();
  /** Families and merges that were expanded. A family may start from a merge, so they are not expanded in the plan's order. */
  readonly #expanded = new Set<string | PlannedMerge>();
  readonly #merges: readonly PlannedMerge[];
  readonly #searches: SearchOutcome[] = [];
  readonly #selections: Selection[] = [];
  /** Experts that guards left out, and what would start from them. */
  readonly #missing = new Set<string>();
  readonly #names: Set<string>;
  /** What recipes can name. */
  readonly #sources: readonly Member[];

  constructor(plan: ExperimentPlan, facts: Facts, results: Results) {
    this.#plan = plan;
    this.#facts = facts;
    this.#results = results;
    this.#steps = new StepList(plan, facts, results);
    this.#base = baseModel(plan, facts);
    this.#merges = mergesOf(plan, facts.modelIdentity(plan.base).layers ?? plan.assume?.layers);
    this.#sources = sourcesIn(plan);
    this.#names = new Set(["base", ...membersOf(plan).map(({ name }) => name)]);
  }

  expand(): Expansion {
    this.#steps.evaluateAll(this.#base);
    for (const family of Object.keys(this.#plan.experts)) this.#expandFamily(family);
    for (const { name } of membersOf(this.#plan)) {
      const expert = this.#experts.get(name);
      if (expert) this.#steps.evaluateAll(expert);
    }
    for (const merge of this.#merges) this.#expandMerge(merge);
    const models = this.#steps.models(this.#merges);
    const overlaps = this.#overlaps(); // adds steps
    const changes = this.#changes();
    this.#verbs();
    return {
      steps: this.#steps.steps,
      runs: this.#runs,
      models,
      searches: this.#searches,
      overlaps,
      changes,
      selections: this.#selections,
      waiting: this.#steps.waiting,
      warnings: describeRefusals(this.#selections, this.#withoutModel()),
    };
  }

  /** Families and merges of the plan that guards left without a model. */
  #withoutModel(): string[] {
    const { experts, merges } = this.#plan;
    const groups = Object.entries(experts).filter(([name, group]) =>
      memberNames(name, group).every((member) => this.#missing.has(member)),
    );
    const refused = merges.filter(({ name }) => this.#missing.has(name));
    return [...groups.map(([name]) => name), ...refused.map(({ name }) => name)];
  }

  /** What recipes can name, without what guards left out. */
  #members(): Member[] {
    return this.#sources.filter(({ name }) => !this.#missing.has(name));
  }

  /** A model that a recipe names, if it is known. A merge is written by a step. */
  #source({ name, expertFamily }: Member): SourceModel | undefined {
    if (expertFamily !== undefined) {
      this.#expandFamily(expertFamily);
      return this.#experts.get(name);
    }
    for (const merge of this.#plan.merges) if (merge.name === name) this.#expandMerge(merge);
    const product = this.#products.get(name);
    if (product) return this.#written(product);
    const what = `writing ${name}`;
    const isNoted = this.#missing.has(name) || this.#steps.waiting.some((waiting) => waiting.what === what);
    if (!isNoted) this.#steps.wait(what, 1, { kind: "merge" });
    return undefined;
  }

  /** What a family or merge starts from: undefined if it is not known yet, `missing` if guards left it out. */
  #start(name: string | undefined): PlanModel | undefined | "missing" {
    const [member] = membersNamed(name ?? "base", this.#sources);
    if (!member) return this.#base;
    return this.#source(member) ?? (this.#missing.has(member.name) ? "missing" : undefined);
  }

  /** The same model in a folder. */
  #written<M extends PlanModel>(known: M): M {
    const { model, step } = writtenModel(known, this.#facts);
    if (step) this.#steps.add(step);
    return model;
  }

  #expandFamily(family: string): void {
    if (this.#expanded.has(family)) return;
    this.#expanded.add(family);
    for (const expert of this.#expertsIn(family)) this.#experts.set(expert.name, expert);
  }

  #expertsIn(family: string): readonly ExpertModel[] {
    const declared = this.#plan.experts[family] as ExpertFamily;
    const { train } = declared;
    if (!train) return folderModels(this.#plan, family, this.#facts);
    const found = this.#start(train.from);
    const unknown = { ...this.#base, source: UNKNOWN_START };
    const masks = train.runs.flatMap((run) => {
      const word = maskOf(run);
      return word === undefined ? [] : [[run.name, this.#start(word) ?? unknown] as const];
    });
    if (found === "missing" || masks.some(([, mask]) => mask === "missing")) {
      for (const name of memberNames(family, declared)) this.#missing.add(name);
      return [];
    }
    // The base may have an adapter, as before there were other starts.
    const start = found && found !== this.#base ? this.#written(found) : found;
    // An adapter need not be written: its change is read as that of the sum.
    const written = (masks as [string, PlanModel][]).map(([name, mask]) => {
      return [name, typeof mask.source === "string" ? mask : this.#written(mask)] as const;
    });
    const runs = trainingSteps(train, start ?? unknown, new Map(written), this.#facts);
    if (start && masks.every(([, mask]) => mask !== unknown)) {
      this.#starts.set(family, start);
      for (const run of runs) {
        this.#steps.add(run.step);
        this.#runs.set(run.step.key, run);
      }
    } else {
      this.#steps.wait(`training of ${family}`, runs.length, { kind: "train", runs });
    }
    return declared.select ? this.#selected(family, runs) : this.#lastCheckpoints(family, runs);
  }

  #lastCheckpoints(family: string, runs: readonly PlannedTrainStep[]): ExpertModel[] {
    const { language } = this.#plan.experts[family] as ExpertFamily;
    const languages = language === undefined ? this.#base.languages : [language];
    const tasks = tasksFor({ kind: "expert", languages }, this.#plan);
    return runs.flatMap(({ step }) => {
      const last = this.#results.trained(step.key)?.at(-1);
      if (last) return [checkpointModel(step.name, family, this.#plan, step, last)];
      const [of, items] = [canonicalJson([step.key, tasks]), this.#steps.itemsOf(tasks)];
      this.#steps.wait(`scores of ${step.name}`, tasks.length, { of, items });
      return [];
    });
  }

  #selected(family: string, runs: readonly PlannedTrainStep[]): readonly ExpertModel[] {
    const found = selectCheckpoints(family, runs, this.#base, this.#plan, this.#steps, this.#results, this.#facts);
    if (found) {
      this.#selections.push(found.selection);
      // Otherwise merges would wait for them forever.
      for (let i = found.kept.length + 1; i <= found.selection.top; i++) this.#missing.add(`${family}-${i}`);
    }
    return found?.kept ?? [];
  }

  #expandMerge(merge: PlannedMerge): void {
    if (this.#expanded.has(merge)) return;
    this.#expanded.add(merge);
    const inputs = this.#inputsOf(merge);
    const making = (binding: Binding) =>
      merge.recipe ? { recipe: merge.recipe, configurations: merge.all } : this.#suggested(merge, binding);
    const { models, unknown } = mergeModels(merge, inputs, making);
    const named = models.map((model) => this.#named(model));
    if (unknown > 0) this.#waitForScores(merge, unknown, named[0]);
    if (models.length === 0 && unknown === 0) this.#missing.add(merge.name);
    for (const [group, inGroup] of groupBy(named, (model) => model.group)) {
      /** The models of more configurations, which a search proposes. */
      const make = (configurations: readonly Configuration[]) => {
        const made = mergeModels(merge, inputs, () => ({ recipe: merge.recipe ?? {}, configurations }));
        return made.models.filter((model) => model.group === group).map((model) => this.#named(model));
      };
      const { outcome, product } = searchGroup<MergeModel>(inGroup, {
        plan: this.#plan,
        isIncomplete: unknown > 0,
        steps: this.#steps,
        make,
      });
      if (outcome) this.#searches.push(outcome);
      // Of several combinations there is no one model; the plan's check reports it where one is needed.
      if (product && unknown === 0) this.#products.set(merge.name, product);
    }
  }

  /** What a merge is made of. Expands what it names first, because guards may leave experts out. */
  #inputsOf(merge: PlannedMerge): MergeInputs {
    const start = this.#start(merge.from);
    for (const { word } of mentionsIn(namingRecipe(merge))) {
      for (const member of membersNamed(word, this.#members())) this.#source(member);
    }
    const isMissing = start === "missing";
    return {
      plan: this.#plan,
      base: isMissing ? undefined : start,
      source: (member) => this.#source(member),
      members: isMissing ? [] : this.#members(),
    };
  }

  /** Notes the scores of models that are not known yet, like `known`. */
  #waitForScores(merge: PlannedMerge, unknown: number, known: MergeModel | undefined): void {
    const plan = this.#plan;
    const languages = known?.languages ?? this.#base.languages.slice(0, 1);
    const future = { kind: "merge", languages, merge } as const;
    // If there is a search, the deciding tasks come first; it adds what is reported.
    const hasChoice = !merge.controlOf && isSearched(merge);
    const all = tasksFor(future, plan);
    const deciding = decidingTasks(future, plan);
    const tasks = hasChoice ? deciding : all;
    const more = isAdaptive(merge, plan.search) ? mostEvaluated(merge, plan.search) / merge.all.length : 1;
    const models = Math.ceil(unknown * more);
    const items = hasChoice ? this.#searchedItems(merge, models, { all, deciding }) : this.#steps.itemsOf(all, models);
    this.#steps.wait(`scores of ${merge.name}`, models * tasks.length, { items });
  }

  /** Items of a search over so many models, and of what is reported: the default and another one of each pair. */
  #searchedItems(
    merge: PlannedMerge,
    models: number,
    { all, deciding }: Readonly<Record<"all" | "deciding", readonly TaskRequest[]>>,
  ): TaskItems[] {
    const { choose_on, share } = this.#plan.search;
    const seen = choose_on === "test" ? 1 : share;
    const reported = (2 * models) / Math.max(2, merge.all.length);
    const isDeciding = new Set(deciding.map(({ task }) => task));
    const others = all.filter(({ task }) => !isDeciding.has(task));
    return [
      ...this.#steps.itemsOf(deciding, models, seen),
      ...this.#steps.itemsOf(deciding, reported, 1 - seen),
      ...this.#steps.itemsOf(others, reported),
    ];
  }

  /** With a name that no other model has: reports find models by name, and a merge may have any name. */
  #named(model: MergeModel): MergeModel {
    let name = model.name;
    for (let count = 2; this.#names.has(name); count++) name = `${model.name} (${count})`;
    this.#names.add(name);
    return { ...model, name };
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
        fields: renameSources(recipe, names) as Record<string, JsonValue>,
      }),
    );
    return configurations && { recipe: {}, configurations };
  }

  /** The step that compares the changes of two experts, against what both started from. */
  #analysis(task: ExpertModel, language: ExpertModel): AnalyzeStep {
    const [own = this.#base, other = this.#base] = [task, language].map(({ expertFamily }) =>
      this.#starts.get(expertFamily),
    );
    const base = own.source === other.source ? own : this.#base;
    return this.#analyze(base, { task, language });
  }

  #analyze(base: PlanModel, models: Readonly<Record<string, ExpertModel>>, threshold?: string): AnalyzeStep {
    const named = Object.entries(models);
    const experts = Object.fromEntries(named.map(([name, { source }]) => [name, source as string]));
    const own = threshold === undefined ? {} : { threshold };
    const all = [base, ...Object.values(models)];
    const step: AnalyzeStep = {
      kind: "analyze",
      key: stepKey("analyze", { base: base.source as string, ...experts, ...own }),
      label: `analyze ${named.map(([, { name }]) => name).join(" and ")}`,
      base: base.source as string,
      experts,
      names: Object.fromEntries(named.map(([role, { name }]) => [role, name])),
      ...own,
      needs: [...new Set(all.flatMap(({ needs }) => needs))],
      locations: Object.assign({}, ...all.map(({ locations }) => locations)),
    };
    this.#steps.add(step);
    return step;
  }

  /** The analyses of the plan's `changes` whose experts are known, each against what it started from. */
  #changes(): Expansion["changes"] {
    const members = this.#members().filter(({ expertFamily }) => expertFamily !== undefined);
    return this.#plan.changes.flatMap(({ of, threshold }) =>
      of.flatMap((word) =>
        membersNamed(word, members).flatMap(({ name, expertFamily = "" }) => {
          const expert = this.#experts.get(name);
          const base = this.#starts.get(expertFamily) ?? this.#base;
          if (!expert) this.#steps.wait(`changes of ${name}`, 1, { kind: "analyze" });
          return expert ? [{ expert: name, key: this.#analyze(base, { expert }, String(threshold)).key }] : [];
        }),
      ),
    );
  }

  /** Adds the steps of the plan's `steps` whose models are known. */
  #verbs(): void {
    const members = this.#members();
    for (const [name, fields] of Object.entries(this.#plan.steps)) {
      const verb = this.#facts.verbs.get(fields.verb);
      // Such a plan does not run, and its problems are reported together.
      const problems = [...stepProblems({ ...this.#plan, steps: { [name]: fields } }, this.#facts.verbs)];
      if (problems.length > 0) continue;
      for (const bound of verb ? boundSteps(name, fields, verb, members) : []) this.#addVerb(name, bound);
    }
  }

  #addVerb(name: string, { label, verb, used, input }: BoundStep): void {
    const found = new Map(used.map((one) => [one, one === "base" ? this.#base : this.#source(one)] as const));
    const models = [...found.values()].filter((one) => one !== undefined);
    if (models.length < found.size) {
      this.#steps.wait(label, 1, { kind: "verb" });
      return;
    }
    const given = input((one) => found.get(one)?.source as string);
    this.#steps.add({
      ...{ kind: "verb", key: verbKey(verb, given), name, label, verb: verb.name, input: given },
      needs: [...new Set(models.flatMap(({ needs }) => needs))],
      locations: Object.assign({}, ...models.map(({ locations }) => locations)),
    });
  }

  /** The analyses of the plan's `overlaps` whose experts are known. */
  #overlaps(): Expansion["overlaps"] {
    const members = this.#members().filter(({ expertFamily }) => expertFamily !== undefined);
    return this.#plan.overlaps.flatMap(([first = "", second = ""]) => {
      const named = { method: "swap", task: first, language: second };
      if (nameProblems(named, members, []).length > 0) return [];
      const pairs = bindingsOf(named, members).map((binding) =>
        [first, second].map((word) => binding.get(word)?.name ?? word),
      );
      return pairs.flatMap(([one = "", other = ""]) => {
        const [a, b] = [this.#experts.get(one), this.#experts.get(other)];
        if (!a || !b) this.#steps.wait(`overlap of ${one} and ${other}`, 1, { kind: "analyze" });
        return a && b && a !== b ? [{ experts: [a.name, b.name] as const, key: this.#analysis(a, b).key }] : [];
      });
    });
  }
}

/** A suggested recipe with the plan's names for its two experts. */
function renameSources(recipe: Readonly<Record<string, unknown>>, names: { task: string; language: string }): object {
  // Sources only: in `outside: language`, the word belongs to the method.
  return mapSources(recipe, (source) => (source === "task" || source === "language" ? names[source] : source));
}
