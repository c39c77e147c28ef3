// Reads recipes from YAML, JSON or values, and reports all problems with their lines.

import { z } from "zod";
import { closest, removedAdvice, shorten } from "../../kit/printing/index.js";
import {
  type Checked,
  checkSchema,
  checkSettings,
  choiceProblem,
  type LocatedSettings,
  loadYaml,
  type Problem,
  readSettings,
  type SettingsKind,
} from "../../kit/settings/index.js";
import { remembered } from "../../tensor/streaming/index.js";
import { METHODS } from "../methods/index.js";
import { isOwnMethod } from "./own-methods.js";
import { findMethod, mapSources, outputFields, type Recipe, sourcesOf } from "./recipe.js";

/** A recipe and the folder that its relative paths start from. */
export interface LocatedRecipe extends Omit<LocatedSettings<Recipe>, "value"> {
  readonly recipe: Recipe;
}

const KIND: SettingsKind<Recipe> = { kind: "recipe", check: validate };

/**
 * Reads a recipe from a YAML (or JSON) file.
 * @throws RecipeError with every problem and its line
 */
export async function readRecipe(file: string): Promise<LocatedRecipe> {
  const { value: recipe, ...where } = await readSettings(file, KIND);
  return { recipe, ...where };
}

/** Parses the text of a recipe; `file` is for messages. */
export async function parseRecipe(text: string, file = "recipe"): Promise<Recipe> {
  const { parseSettings } = await loadYaml();
  return parseSettings(text, file, KIND);
}

export function checkRecipe(value: unknown): Recipe {
  return checkSettings(value, KIND);
}

export function recipeProblems(value: unknown): readonly Problem[] {
  return validate(value).problems;
}

/** @param isWhole whether it may have fields of the output */
export function validate(value: unknown, isWhole = true): Checked<Recipe> {
  const problems: Problem[] = [];
  const recipe = check(value, [], problems, isWhole);
  return problems.length > 0 ? { problems } : { value: recipe as Recipe, problems };
}

/** The schema of a whole recipe. zod prepares a schema when it is first used, which takes longer than to check by it. */
const withOutput = remembered((schema: z.ZodObject) => schema.extend(outputFields));

/** Checks a recipe by its method's schema, then the recipes within it; adds to `problems`. */
function check(value: unknown, path: readonly PropertyKey[], problems: Problem[], isWhole = false): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    problems.push({ path, message: "must be a recipe: a mapping with a method and its sources" });
    return value;
  }
  const name = "method" in value ? value.method : undefined;
  const method = typeof name === "string" ? findMethod(name) : undefined;
  // Its file is read when the recipe is planned.
  const schema = isOwnMethod(name) ? z.looseObject({}) : method?.schema;
  if (!schema) {
    problems.push({ path: [...path, "method"], message: unknownMethod(name, Object.keys(value)) });
    return value;
  }
  const whole = isWhole ? withOutput(schema) : schema;
  const { value: parsed, problems: own } = checkSchema(whole, value, path);
  problems.push(...own);
  // Nested recipes are checked even if this one has problems, to report all at once.
  const checked: object = parsed ?? value;
  const places = new Map(sourcesOf(checked).map(({ label, path: at }) => [label, at]));
  return mapSources(checked, (source, label) =>
    typeof source === "object" && source !== null && "method" in source
      ? check(source, [...path, ...(places.get(label) ?? [])], problems)
      : source,
  );
}

function unknownMethod(name: unknown, fields: readonly string[]): string {
  const known = METHODS.map((method) => method.name as string);
  const misspelt = fields.find((field) => name === undefined && closest(field, ["method"]) !== undefined);
  if (misspelt !== undefined) return `is missing; did you mean method where it says ${shorten(misspelt)}?`;
  const removed = typeof name === "string" ? removedAdvice("method", name) : undefined;
  return removed === undefined ? choiceProblem(name, known) : `${name} ${removed}`;
}
