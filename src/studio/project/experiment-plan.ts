// The plan of an experiment around a recipe: its models, a soup of the experts, and the recipe, on one task.
import { LayergraftError } from "../../kit/index.js";
import { checkRecipe, LAYER_COUNTS, mapSources } from "../../merge/index.js";
import type { Settings } from "../protocol/index.js";
import type { RecipeValue } from "../recipe/board.js";

export interface ExperimentRequest {
  readonly name: string;
  /** The recipe as its YAML has it. */
  readonly recipe: unknown;
  readonly settings: Settings;
  readonly task: string;
  /** Values of fields of the recipe; all combinations are scored. Numbers of layers take the place of a list of them. */
  readonly grid?: Readonly<Record<string, readonly number[]>> | undefined;
}

/** @throws RecipeError if the recipe is not valid; LayergraftError code `usage` if it has models that the project has not */
export function experimentOf({ name, recipe, settings: { base, experts }, task, grid }: ExperimentRequest): object {
  if (base === null) throw new LayergraftError("usage", "An experiment needs a base. Choose it under Models.");
  const names = new Map([
    [base, "base"],
    ...experts.map((expert): [string, string] => [expert.source, idOf(expert.name)]),
  ]);
  const rename = (one: object): object =>
    mapSources(one, (source) => {
      if (typeof source === "object") return rename(source);
      const own = names.get(source);
      if (own === undefined) {
        throw new LayergraftError("usage", `${source} is in the recipe, but not among the models. Add it there.`);
      }
      return own;
    });
  const { layers, ...rest } = rename(checkRecipe(recipe)) as RecipeValue;
  const isCounted = LAYER_COUNTS.some((field) => Object.hasOwn(grid ?? {}, field));
  const named = { ...rest, ...(layers === undefined || isCounted ? {} : { layers }) };
  // Other roles need to know more, such as a language.
  const families = experts.map((expert) => [idOf(expert.name), { role: "other", folders: [expert.source] }]);
  const soup = {
    name: name === "soup" ? "soup of experts" : "soup",
    recipe: { method: "soup", models: experts.map((expert) => idOf(expert.name)) },
  };
  return {
    name: idOf(name),
    base,
    experts: Object.fromEntries(families),
    merges: [{ name, recipe: named, ...(grid ? { grid } : {}) }, ...(experts.length > 1 ? [soup] : [])],
    evaluate: { tasks: [task] },
  };
}

/** A name as plans have it: letters, digits and a few signs. */
const idOf = (name: string) => name.replace(/[^\w.+-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "") || "expert";
