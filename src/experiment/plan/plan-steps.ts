// Steps of a plan that carry out verbs: which models their fields name, and what is wrong with them.
import { isObject, ProblemsError } from "../../kit/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { VERBS } from "../../verbs/list/index.js";
import { checkInput, type Verb, verbFields } from "../../verbs/shared/index.js";
import { severalProblem } from "./check-fields.js";
import {
  type Binding,
  bindRecipe,
  type Member,
  meaningOf,
  mentionsIn,
  nameProblems,
  sourcesIn,
  wordsFor,
} from "./expert-names.js";
import type { ExperimentPlan } from "./plan-schema.js";

type Fields = Readonly<Record<string, unknown>>;

/** Where a step's verb writes, in the step's folder, unless the plan names it. */
const OUT = "out";
/** A plan has its own way to evaluate, which says what programs it starts. */
const OWN_WAY = ["eval"];

/** Fields of a verb whose texts are models. */
export const sourceFields = (verb: Pick<Verb, "schema" | "closed">): string[] =>
  verbFields(verb).flatMap(({ name, type }) => (/^(list of )?sources?\b/.test(type) ? [name] : []));

const isStep = (verb: Verb) => !verb.file && !OWN_WAY.includes(verb.name) && sourceFields(verb).length > 0;

/** A verb that a step of a plan may carry out; undefined if there is none of that name. */
export async function stepVerb(name: string): Promise<Verb | undefined> {
  const verb = await VERBS.find((one) => one.name === name)?.load();
  return verb && isStep(verb) ? verb : undefined;
}

/** The verbs that a plan's steps name, by name. */
export async function stepVerbs({ steps }: Pick<ExperimentPlan, "steps">): Promise<Map<string, Verb>> {
  const names = [...new Set(Object.values(steps).map(({ verb }) => verb))];
  const found = await Promise.all(names.map(async (name) => [name, await stepVerb(name)] as const));
  return new Map(found.flatMap(([name, verb]) => (verb ? [[name, verb] as const] : [])));
}

/** What a step's verb takes: its fields with what `to` gives for each model, and where it writes. */
export function stepInput(
  verb: Verb,
  { verb: _, ...fields }: Fields,
  to: (word: string) => unknown,
  recipe: (given: Fields) => unknown,
): Fields {
  const within = (value: unknown): unknown => {
    if (typeof value === "string") return to(value);
    if (Array.isArray(value)) return value.map(within);
    if (!isObject(value)) return value;
    if (typeof value.method === "string") return recipe(value);
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, within(inner)]));
  };
  const sources = sourceFields(verb).flatMap((name) => (name in fields ? [[name, within(fields[name])]] : []));
  const out = "out" in verb.schema.shape ? { out: fields.out ?? OUT } : {};
  return { ...fields, ...Object.fromEntries(sources), ...out };
}

/** Every name of a model, or of a model in a recipe. */
function wordsIn(verb: Verb, fields: Fields): string[] {
  const words = new Set<string>();
  stepInput(
    verb,
    fields,
    (word) => words.add(word),
    (recipe) => {
      for (const { word } of mentionsIn(recipe)) words.add(word);
    },
  );
  return [...words];
}

/** A step for one combination of models. */
export interface BoundStep {
  /** `Export: export math-1`. */
  readonly label: string;
  readonly verb: Verb;
  /** Models that it needs. */
  readonly used: readonly (Member | "base")[];
  /** Its input. @param to identity of a model */
  readonly input: (to: (model: Member | "base") => string) => Fields;
}

/** The steps of an entry: one for each expert of a family that it names, as merges have them. */
export function boundSteps(name: string, fields: Fields, verb: Verb, members: readonly Member[]): BoundStep[] {
  const words = wordsIn(verb, fields);
  const meanings = words.map((word) => [word, meaningOf(word, members)] as const);
  // Guards left out all experts that a name means.
  if (meanings.some(([, meaning]) => meaning === undefined)) return [];
  let bindings: Map<string, Member>[] = [new Map()];
  for (const [word, meaning] of meanings) {
    if (meaning?.kind === "each")
      bindings = bindings.flatMap((one) => meaning.members.map((member) => new Map(one).set(word, member)));
  }
  return bindings.map((binding: Binding) => {
    const used = meanings.flatMap(([word, meaning]): readonly (Member | "base")[] => {
      if (meaning?.kind === "base") return ["base"];
      return meaning?.kind === "each" ? [binding.get(word) ?? []].flat() : (meaning?.members ?? []);
    });
    const names = used.map((one) => (one === "base" ? one : one.name));
    const modelOf = (word: string) => {
      const meaning = meaningOf(word, members);
      return meaning?.kind === "base" ? "base" : (binding.get(word) ?? meaning?.members[0] ?? "base");
    };
    return {
      ...{ verb, used, label: `${name}: ${verb.name} ${names.join(" and ")}` },
      input: (to) =>
        stepInput(
          verb,
          fields,
          (word) => to(modelOf(word)),
          (recipe) => bindRecipe(recipe, binding, members, to),
        ),
    };
  });
}

/** What is wrong with the steps of a plan, each with its place. */
export function* stepProblems(plan: ExperimentPlan, verbs: ReadonlyMap<string, Verb>): Iterable<Problem> {
  const members = sourcesIn(plan);
  for (const [name, fields] of Object.entries(plan.steps)) {
    const path = ["steps", name];
    const verb = verbs.get(fields.verb);
    if (!verb) {
      const names = VERBS.map((one) => one.name);
      const isKnown = names.includes(fields.verb);
      const why = isKnown ? "is not a step of a plan" : `is not a command that a step can carry out`;
      yield {
        path: [...path, "verb"],
        message: `${fields.verb} ${why}${isKnown ? "" : didYouMean(fields.verb, names)}`,
      };
      continue;
    }
    const { out } = fields as { out?: unknown };
    if (out !== undefined && (typeof out !== "string" || !/^[\w-][\w.-]*$/.test(out)))
      yield { path: [...path, "out"], message: "must be the name of a file or folder, which is in the step's folder" };
    yield* placeProblems(verb, fields, path);
    yield* inputProblems(verb, fields, path);
    const recipes: Fields[] = [];
    const words: string[] = [];
    stepInput(
      verb,
      fields,
      (word) => words.push(word),
      (recipe) => recipes.push(recipe),
    );
    for (const recipe of recipes) yield* nameProblems(recipe, members, path);
    for (const word of words) yield* wordProblems(word, path, plan, members);
  }
}

/** Paths, which are no part of a step's digest, and programs, which a plan has elsewhere, where a dry run lists them. */
function* placeProblems(verb: Verb, fields: Fields, path: readonly PropertyKey[]): Iterable<Problem> {
  for (const { name, type } of verbFields(verb)) {
    if (name === "out" || !(name in fields)) continue;
    if (/^(file|folder)/.test(type))
      yield { path: [...path, name], message: "is a path; a step writes to out alone, and reads models of the plan" };
    if (/code$/i.test(name))
      yield { path: [...path, name], message: "is not a field of steps; merges may run programs" };
  }
}

/** What the verb's schema refuses. */
function* inputProblems(verb: Verb, fields: Fields, path: readonly PropertyKey[]): Iterable<Problem> {
  try {
    checkInput(
      verb,
      stepInput(
        verb,
        fields,
        (word) => word,
        (recipe) => recipe,
      ),
    );
  } catch (error) {
    if (!(error instanceof ProblemsError)) throw error;
    for (const message of error.problems.length > 0 ? error.problems : [error.message]) yield { path, message };
  }
}

function* wordProblems(
  word: string,
  path: readonly PropertyKey[],
  plan: ExperimentPlan,
  members: readonly Member[],
): Iterable<Problem> {
  const meaning = meaningOf(word, members);
  if (meaning?.kind === "all") yield { path, message: `${word} means several models, and one is needed here` };
  else if (meaning) yield* severalProblem(word, path, plan, members);
  else {
    const words = wordsFor(members);
    const hint = didYouMean(word, words) || `; there are ${words.join(", ")}`;
    yield { path, message: `${JSON.stringify(word)} is not an expert, family, role or merge of this plan${hint}` };
  }
}
