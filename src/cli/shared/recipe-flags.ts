// Flags for fields of a recipe: their meanings, choices, defaults and checks are those of the schema.

import { type Command, InvalidArgumentError, Option } from "commander";
import { checkSchema, type Problem, type SchemaField, schemaFields } from "../../kit/settings/index.js";
import type { methodOf } from "../../merge/index.js";

/** Help of the flag --as-mergekit. */
export const AS_MERGEKIT = "ignore in a mergekit file what mergekit ignores, with a note";

/** Fields by the title of their group in the help: names, or a flag with the path of its field. */
export type RecipeFlags = Readonly<Record<string, readonly (string | readonly [flag: string, path: string])[]>>;

type Fields = Readonly<Record<string, unknown>>;

const PLACEHOLDERS: Readonly<Record<string, string>> = {
  ...{ source: "source", folder: "folder", file: "file", task: "task", layers: "list" },
  ...{ number: "n", "whole number": "n", "true or false": "bool" },
};

/** A flag for a field, with the schema's words. @param flag its name, and what is in the help in place of a value */
export function fieldOption(
  { type, default: fallback, unset, description }: SchemaField,
  flag: string,
  value?: string,
): Option {
  const option = new Option(
    `--${flag}${value ?? ` <${PLACEHOLDERS[type] ?? "value"}>`}`,
    description.replaceAll("`", ""),
  );
  const shown = typeof fallback === "string" || fallback === undefined ? (fallback ?? unset) : JSON.stringify(fallback);
  return option.default(undefined, shown);
}

/** Commander's name of a flag's value. */
export function attributeOf(flag: string): string {
  return flag.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** Adds a flag for each field. @param schema of the method, or of the fields of every recipe */
export function addRecipeFlags(
  command: Command,
  schema: ReturnType<typeof methodOf>["schema"],
  flags: RecipeFlags,
): void {
  const fields = new Map(schemaFields(schema).map((field) => [field.name, field]));
  for (const title of Object.keys(flags)) {
    command.optionsGroup(title);
    for (const [flag, path] of pathsOf({ [title]: flags[title] ?? [] })) {
      const [top = ""] = path.split(".");
      const check = (value: unknown) => checkSchema(schema.shape[top], withField({}, path, value)[top]).problems[0];
      command.addOption(flagOf(flag, fields.get(path) as SchemaField, check));
    }
  }
}

/** The fields that options set; others are there, undefined, so that their defaults keep the order of the flags. */
export function recipeFields(flags: RecipeFlags, options: object): Fields {
  let recipe: Fields = {};
  for (const [flag, path] of pathsOf(flags)) {
    const value = (options as Fields)[attributeOf(nameOf(flag))];
    const [top = ""] = path.split(".");
    if (value !== undefined) recipe = withField(recipe, path, value);
    else if (!(top in recipe)) recipe = { ...recipe, [top]: undefined };
  }
  return recipe;
}

function pathsOf(flags: RecipeFlags): (readonly [flag: string, path: string])[] {
  return Object.values(flags).flatMap((entries) =>
    entries.map((entry) => (typeof entry === "string" ? ([entry, entry] as const) : entry)),
  );
}

function withField(recipe: Fields, path: string, value: unknown): Fields {
  const [top = "", inner] = path.split(".");
  return { ...recipe, [top]: inner === undefined ? value : { ...Object(recipe[top]), [inner]: value } };
}

const nameOf = (flag: string) => flag.replaceAll("_", "-");

function flagOf(flag: string, field: SchemaField, check: Check): Option {
  const { type, choices, required } = field;
  if (type === "true or false") return fieldOption({ ...field, default: undefined }, nameOf(flag), "");
  const option = fieldOption(field, nameOf(flag)).makeOptionMandatory(required);
  if (choices) return option.choices(choices);
  return option.argParser((text) => checked(readValue(type, text), check));
}

/** Finds the first problem of a flag's value. */
export type Check = (value: unknown) => Problem | undefined;

/** The value of a flag. @throws InvalidArgumentError in a sentence of the schema */
export function checked<T>(value: T, check: Check): T {
  const problem = check(value);
  if (!problem) return value;
  const place = problem.path.at(-1);
  const isElement = Array.isArray(value) && typeof place === "number";
  const said = `${isElement && value.length > 1 ? `Value ${place + 1} (${value[place]})` : "It"} ${problem.message}`;
  throw new InvalidArgumentError(said.endsWith(".") ? said : `${said}.`);
}

/** A value as its field's type reads the text. */
export function readValue(type: string, text: string): unknown {
  // A list as a recipe writes it, or without its brackets.
  const list = /^(?:\[([^[\]]*)\]|([^[\]]*,[^[\]]*))$/
    .exec(text.trim())
    ?.slice(1)
    .find((one) => one !== undefined);
  if (type.includes("list") && list !== undefined) return list.split(",").map((word) => numberIn(word.trim()));
  return type.includes("number") ? numberIn(text) : text;
}

function numberIn(text: string): number | string {
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}
