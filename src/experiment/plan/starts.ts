// Checks what families and merges start from: one model each, and no cycle.
import { formatSome, suggestName } from "../../core/index.js";
import type { Problem } from "../../settings/index.js";
import { countBindings, type Member, meaningOf, membersNamed, placesOf, wordsFor } from "./expert-names.js";
import { combinationsOf, namingRecipe, wordsOf } from "./plan-models.js";
import type { ExperimentPlan } from "./plan-schema.js";
import { MAX_MODELS } from "./plan-values.js";

type Path = readonly PropertyKey[];

/** A family or merge that starts from something, or is made of it. */
interface Dependent {
  /** `family math` or `merge layer swap`. */
  readonly id: string;
  readonly name: string;
  readonly path: Path;
  /** Names of what must be there first. */
  readonly words: readonly string[];
}

/** What is wrong with what families and merges start from. @param sources what recipes can name */
export function startProblems(plan: ExperimentPlan, sources: readonly Member[]): Problem[] {
  const starts = [
    ...Object.entries(plan.experts).map(([name, { train }]) => ({
      word: train?.from,
      path: ["experts", name, "train", "from"],
    })),
    ...plan.merges.map(({ from }, i) => ({ word: from, path: ["merges", i, "from"] })),
  ];
  const wrong = starts.flatMap(({ word, path }) => (word === undefined ? [] : startProblem(word, path, plan, sources)));
  const inRecipes = plan.merges.flatMap(({ recipe }, i) =>
    placesOf(recipe, ["merges", i, "recipe"]).flatMap(({ word, path }) => severalProblem(word, path, plan, sources)),
  );
  return [...wrong, ...inRecipes, ...cycleProblems(plan, sources)];
}

function startProblem(word: string, path: Path, plan: ExperimentPlan, sources: readonly Member[]): Problem[] {
  const meaning = meaningOf(word, sources);
  if (!meaning) {
    const hint = suggestName(word, wordsFor(sources));
    return [{ path, message: `${JSON.stringify(word)} is not an expert or merge of this plan${hint}` }];
  }
  const { members } = meaning;
  if (members.length > 1) {
    const names = members.map(({ name }) => name);
    return [{ path, message: `${word} means ${names.length} experts; name one of them: ${formatSome(names, 8)}` }];
  }
  return severalProblem(word, path, plan, sources);
}

/** A merge of several combinations where one model is needed. */
export function severalProblem(word: string, path: Path, plan: ExperimentPlan, sources: readonly Member[]): Problem[] {
  const meaning = meaningOf(word, sources);
  const isMerge = meaning?.kind === "one" && meaning.members[0]?.family === undefined;
  const merge = isMerge ? plan.merges.find(({ name }) => name === word) : undefined;
  if (!merge || countBindings(namingRecipe(merge), sources) > MAX_MODELS) return [];
  const { length } = combinationsOf(merge, sources);
  if (length < 2) return [];
  const what = `${word} makes models of ${length} combinations of experts, and one is needed here`;
  return [{ path, message: `${what}. List one combination in its pairs, or name single experts in its recipe` }];
}

/** Each cycle once, where the plan first enters it. */
function cycleProblems(plan: ExperimentPlan, sources: readonly Member[]): Problem[] {
  const dependents = new Map(dependentsOf(plan).map((one) => [one.id, one]));
  const done = new Set<string>();
  const problems: Problem[] = [];
  const visit = (id: string, above: readonly Dependent[]) => {
    const entered = above.findIndex((one) => one.id === id);
    const cycle = entered < 0 ? [] : above.slice(entered);
    const [first, ...others] = cycle;
    if (first) {
      const needs = [...others, first].map(({ name }) => `needs ${name}`).join(", which ");
      problems.push({
        path: first.path,
        message: `${first.name} ${needs}. Start one of them from a model that does not need it`,
      });
    }
    const dependent = dependents.get(id);
    if (!dependent || done.has(id)) return;
    done.add(id);
    for (const next of nextOf(dependent, sources)) visit(next, [...above, dependent]);
  };
  for (const id of dependents.keys()) visit(id, []);
  return problems;
}

function dependentsOf({ experts, merges }: ExperimentPlan): Dependent[] {
  return [
    ...Object.entries(experts).map(([name, { train }]) => ({
      id: `family ${name}`,
      name,
      path: ["experts", name, "train", "from"],
      words: [train?.from ?? []].flat(),
    })),
    ...merges.map((merge, i) => ({
      id: `merge ${merge.name}`,
      name: merge.name,
      path: ["merges", i, merge.from ? "from" : "recipe"],
      words: wordsOf(merge),
    })),
  ];
}

function nextOf({ words }: Dependent, sources: readonly Member[]): string[] {
  const members = words.flatMap((word) => membersNamed(word, sources));
  return [...new Set(members.map(({ name, family }) => (family === undefined ? `merge ${name}` : `family ${family}`)))];
}
