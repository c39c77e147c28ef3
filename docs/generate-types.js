// Writes the types of recipes and runs for code from their schemas: camelCase fields, each with its meaning and default.
import { recipeJsonSchema } from "#merge";
import { runJsonSchema } from "#train";

/** @typedef {{ [field: string]: unknown }} Schema */

const HEADER = "Written by npm run docs from the schemas. Change the schemas, not this file.";

const SHARED = `/**
 * A model to merge: a folder, \`FOLDER+ADAPTER\`, the name of a model on the hub such as
 * \`meta-llama/Llama-3.1-8B\`, or a recipe, whose result is computed on the fly.
 */
export type Source = string | MergeRecipe | RecipeInput;

/** Layers: a number, text such as \`0-4, 30-31\` or \`all\`, or a list of both. The input is layer 0. */
export type LayerSelection = number | string | readonly (number | string)[];

/** Values at evenly spaced layers, interpolated linearly in between; \`outside\` is the value outside the layers. */
export interface Gradient {
  /** Values from the input to the output, at least one. */
  readonly gradient: readonly number[];
  /** Value outside the layers. Default: the value of the field where it is not given. */
  readonly outside?: number | undefined;
}

/** A value for some tensors. Tensors must match all of \`layers\`, \`parts\` and \`tensors\` that are given. */
export interface ParameterRule {
  /** Layers it holds for. Default: all. */
  readonly layers?: LayerSelection | undefined;
  /** Parts it holds for, such as \`attention\`, \`mlp\` or \`q_proj\`. Default: all. */
  readonly parts?: string | readonly string[] | undefined;
  /** Pattern of tensor names it holds for, with \`*\` for any text. Default: all. */
  readonly tensors?: string | undefined;
  /** The value. */
  readonly value: number | readonly number[] | Gradient;
}

/** A number, one number per layer, a gradient over the layers, or rules, of which the first that matches holds. */
export type Parameter = number | readonly number[] | Gradient | ParameterRule | readonly ParameterRule[];`;

/** Fields whose schemas say nothing of them. */
const PLAIN = new Map([
  ["method", "name of the method"],
  ["model", "the model"],
]);

/** @param {string} name */
const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
/** @param {string} name */
const pascal = (name) => camel(`_${name}`);

/** A comment of one field. @param {Schema} schema @param {string} indent */
function comment({ description, default: value }, indent) {
  const shown = value === undefined || JSON.stringify(value) === "{}" ? "" : ` Default: \`${JSON.stringify(value)}\`.`;
  const sentence = String(description ?? "").replace(/`([a-z]+(?:_[a-z]+)+)`/g, (_, name) => `\`${camel(name)}\``);
  const text = sentence === "" ? shown.trim() : `${sentence[0]?.toUpperCase()}${sentence.slice(1)}.${shown}`;
  return text === "" ? "" : `${indent}/** ${text} */\n`;
}

/** @param {Schema} schema @param {string} indent @returns {string} */
function typeOf(schema, indent) {
  if (schema.$ref !== undefined) return "Source";
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(schema.anyOf)) {
    const options = /** @type {Schema[]} */ (schema.anyOf);
    const fields = options.flatMap((option) => Object.keys(/** @type {object} */ (option.properties ?? {})));
    if (fields.includes("gradient")) return "Parameter";
    if (options.some(({ pattern }) => typeof pattern === "string" && pattern.includes("all"))) return "LayerSelection";
    return [...new Set(options.map((option) => typeOf(option, indent)))].join(" | ");
  }
  if (Array.isArray(schema.prefixItems)) {
    return `readonly [${schema.prefixItems.map((item) => typeOf(item, indent)).join(", ")}]`;
  }
  if (schema.type === "array") {
    const item = typeOf(/** @type {Schema} */ (schema.items), indent);
    return `readonly ${/[ |{]/.test(item) ? `(${item})` : item}[]`;
  }
  if (schema.type === "object" && schema.properties === undefined) return "Readonly<Record<string, unknown>>";
  if (schema.type === "object") return `{\n${fieldsOf(schema, `${indent}  `)}${indent}}`;
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "string" || schema.type === "boolean") return String(schema.type);
  return "unknown";
}

/** @param {Schema} schema @param {string} indent */
function fieldsOf({ properties, required }, indent) {
  return Object.entries(/** @type {Record<string, Schema>} */ (properties))
    .map(([name, written]) => {
      const field = { description: PLAIN.get(name), ...written };
      const isRequired = Array.isArray(required) && required.includes(name);
      const type = `${name === "data" ? "DataInput" : typeOf(field, indent)}${isRequired ? "" : " | undefined"}`;
      return `${comment(field, indent)}${indent}readonly ${camel(name)}${isRequired ? "" : "?"}: ${type};\n`;
    })
    .join("");
}

/** src/api/recipe-types.ts. */
export function recipeTypes() {
  const schema = recipeJsonSchema();
  const methods = Object.entries(/** @type {Record<string, Schema>} */ (schema.$defs)).filter(
    ([name]) => name !== "source" && name !== "recipe",
  );
  const [first] = /** @type {Schema[]} */ (schema.oneOf);
  const own = new Set(Object.keys(/** @type {object} */ (methods[0]?.[1].properties)));
  const output = Object.entries(/** @type {object} */ (first?.properties)).filter(([name]) => !own.has(name));
  const interfaces = methods.map(([name, method]) => {
    const { description } = method;
    return `/** ${description} */\nexport interface ${pascal(name)}Recipe extends OutputFields {\n${fieldsOf(method, "  ")}}`;
  });
  const outputs = fieldsOf({ properties: Object.fromEntries(output) }, "  ");
  const union = methods.map(([name]) => `  | ${pascal(name)}Recipe`).join("\n");
  return [
    `// Recipes as code writes them. ${HEADER}`,
    'import type { RecipeInput } from "../merge/index.js";',
    SHARED,
    `/** Fields of every recipe, which say how the result is written. A recipe within a recipe has none of them. */\nexport interface OutputFields {\n${outputs}}`,
    ...interfaces,
    `/** A merge of any method. \`method\` says which, and with it which fields there are. */\nexport type MergeRecipe =\n${union};`,
    `/** The recipe of one method, such as \`RecipeOf<"ties">\`. */\nexport type RecipeOf<Method extends MergeRecipe["method"]> = Extract<MergeRecipe, { readonly method: Method }>;\n`,
  ].join("\n\n");
}

/** src/api/run-types.ts. */
export function runTypes() {
  return [
    `// What to train, as code writes it. ${HEADER}`,
    'import type { DataInput } from "../data/index.js";',
    `/** What to train, from which base, on which data. Fields of a run file, in camelCase. */\nexport interface TrainRun {\n${fieldsOf(runJsonSchema(), "  ")}}\n`,
  ].join("\n\n");
}
