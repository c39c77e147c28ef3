// Flags for fields: their meanings, choices, defaults and checks are those of the schema.

import { InvalidArgumentError, Option } from "commander";
import type { Problem, SchemaField } from "../../kit/settings/index.js";

/** Help of the flag --as-mergekit. */
export const AS_MERGEKIT = "ignore in a mergekit file what mergekit ignores, with a note";

type Fields = Readonly<Record<string, unknown>>;

const PLACEHOLDERS: Readonly<Record<string, string>> = {
  source: "source",
  folder: "folder",
  file: "file",
  task: "task",
  layers: "list",
  number: "n",
  "whole number": "n",
  "true or false": "bool",
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

/** Fields with one more, at a path of one or two names. */
export function withField(recipe: Fields, path: string, value: unknown): Fields {
  const [top = "", inner] = path.split(".");
  return { ...recipe, [top]: inner === undefined ? value : { ...Object(recipe[top]), [inner]: value } };
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
