// Writes the types of recipes, runs and plans with what each field means, from the schemas: node types.js FOLDER, of a
// build. They take the place of src/verbs/inputs.ts's declarations, which are the same without the words.
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** @typedef {{ [field: string]: unknown }} Schema */

const SHARED = `/**
 * A model to merge: a folder, \`FOLDER+ADAPTER\`, the name of a model on the hub such as
 * \`meta-llama/Llama-3.1-8B\`, or a recipe, whose result is computed on the fly.
 */
export type Source = string | { readonly method: string; readonly [field: string]: unknown };

/** What JSON can hold. */
export type Json = string | number | boolean | null | Json[] | { [field: string]: Json };`;

/** Types of many fields: by the title of the schema, the name, and what it is where fields say what it is for. */
const NAMED = new Map(
  /** @type {[string, { name: string, meaning?: string }][]} */ ([
    [
      "layers",
      {
        name: "LayerSelection",
        meaning: "Layers: a number, text such as `0-4, 30-31` or `all`, or a list of both. The input is layer 0.",
      },
    ],
    ["gradient", { name: "Gradient" }],
    ["rule", { name: "ParameterRule" }],
    [
      "parameter",
      {
        name: "Parameter",
        meaning:
          "A number, one number per layer, a gradient over the layers, or rules, of which the first that matches holds.",
      },
    ],
  ]),
);

/** Fields whose schemas say nothing of them. */
const PLAIN = new Map([
  ["method", "name of the method"],
  ["model", "the model"],
]);

/** @param {string} name */
const pascal = (name) => `_${name}`.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

/** Definitions that hold themselves: sources are recipes of sources, and zod's own are recursive. */
const KEPT = /^#\/\$defs\/(source|recipe|__schema\d+)$/;

/** The schema with the definitions that its parts share written out. @param {Schema} file @returns {Schema} */
function unfolded({ $defs = {}, ...file }) {
  const definitions = /** @type {Record<string, unknown>} */ ($defs);
  /** @param {unknown} part @returns {unknown} */
  const within = (part) => {
    if (Array.isArray(part)) return part.map(within);
    if (typeof part !== "object" || part === null) return part;
    const { $ref: ref } = /** @type {{ $ref?: unknown }} */ (part);
    if (typeof ref === "string" && !KEPT.test(ref)) return within(definitions[ref.slice("#/$defs/".length)]);
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, within(value)]));
  };
  return /** @type {Schema} */ (within(file));
}

/** A comment of one field. @param {Schema} schema @param {string} indent */
function comment({ description, default: value, unset }, indent) {
  const given = value === undefined || JSON.stringify(value) === "{}" ? unset : `\`${JSON.stringify(value)}\``;
  const shown = given === undefined ? "" : ` Default: ${given}.`;
  const sentence = String(description ?? "");
  const text = sentence === "" ? shown.trim() : `${sentence[0]?.toUpperCase()}${sentence.slice(1)}.${shown}`;
  return text === "" ? "" : `${indent}/** ${text} */\n`;
}

/** @param {Schema} schema @param {string} indent @returns {string} */
function typeOf(schema, indent) {
  if (schema.$ref !== undefined) return schema.$ref === "#/$defs/source" ? "Source" : "Json";
  const named = NAMED.get(String(schema.title));
  return named ? named.name : ownTypeOf(schema, indent);
}

/** The type without a name. @param {Schema} schema @param {string} indent @returns {string} */
function ownTypeOf(schema, indent) {
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(schema.anyOf)) {
    const options = /** @type {Schema[]} */ (schema.anyOf);
    return [...new Set(options.map((option) => typeOf(option, indent)))].join(" | ");
  }
  if (Array.isArray(schema.prefixItems))
    return `readonly [${schema.prefixItems.map((item) => typeOf(item, indent)).join(", ")}]`;
  if (schema.type === "array") {
    const item = typeOf(/** @type {Schema} */ (schema.items), indent);
    return `readonly ${/[ |{]/.test(item) ? `(${item})` : item}[]`;
  }
  if (schema.type === "object" && schema.properties !== undefined) {
    // Fields of another schema, such as a verb's.
    const others =
      typeof schema.additionalProperties === "object" ? `${indent}  readonly [field: string]: unknown;\n` : "";
    return `{\n${fieldsOf(schema, `${indent}  `)}${others}${indent}}`;
  }
  if (schema.type === "object") {
    return `Record<string, ${typeOf(/** @type {Schema} */ (schema.additionalProperties ?? {}), indent)}>`;
  }
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "string" || schema.type === "boolean" || schema.type === "null") return String(schema.type);
  return "unknown";
}

/** @param {Schema} schema @param {string} indent */
function fieldsOf({ properties, required }, indent) {
  return Object.entries(/** @type {Record<string, Schema>} */ (properties))
    .map(([name, written]) => {
      const field = { description: PLAIN.get(name), ...written };
      const isOptional = field.default !== undefined || !Array.isArray(required) || !required.includes(name);
      const type = `${field.title === DATA ? "DataInput" : typeOf(field, indent)}${isOptional ? " | undefined" : ""}`;
      return `${comment(field, indent)}${indent}readonly ${name}${isOptional ? "?" : ""}: ${type};\n`;
    })
    .join("");
}

/** The title of the schema of training data. */
const DATA = "set, list of sets, or mapping";

/** @param {Schema} schema @param {string} name @param {string} meaning */
const fileType = (schema, name, meaning) => `/** ${meaning} */\nexport interface ${name} {\n${fieldsOf(schema, "  ")}}`;

/** The first schema of a title. @param {unknown} within @param {string} title @returns {Schema | undefined} */
function findTitled(within, title) {
  if (typeof within !== "object" || within === null) return undefined;
  if (/** @type {Schema} */ (within).title === title) return /** @type {Schema} */ (within);
  for (const part of Object.values(within)) {
    const found = findTitled(part, title);
    if (found) return found;
  }
  return undefined;
}

/** The types that have a name. @param {Schema} file of recipes */
function namedTypes(file) {
  return [...NAMED].map(([title, { name, meaning }]) => {
    const found = findTitled(file, title);
    if (!found) throw new Error(`No schema has the title ${title}.`);
    const schema = unfolded({ ...found, $defs: file.$defs });
    if (schema.properties !== undefined) return fileType(schema, name, `${meaning ?? schema.description}.`);
    return `/** ${meaning} */\nexport type ${name} = ${ownTypeOf(schema, "")};`;
  });
}

/** @param {Schema} file of recipes */
function recipeTypes(file) {
  const { recipe } = /** @type {Record<string, { oneOf: { $ref: string }[] }>} */ (file.$defs);
  const schema = unfolded(file);
  const methods = /** @type {{ oneOf: { $ref: string }[] }} */ (recipe).oneOf.map(({ $ref }) => {
    const method = unfolded({ method: { $ref }, $defs: file.$defs }).method;
    return /** @type {[string, Schema]} */ ([$ref.slice("#/$defs/".length), method]);
  });
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
    `/** Fields of every recipe, which say how the result is written. A recipe within a recipe has none of them. */\nexport interface OutputFields {\n${outputs}}`,
    ...interfaces,
    `/** A recipe of any method. \`method\` says which, and with it which fields there are. */\nexport type RecipeInput =\n${union};`,
    '/** The recipe of one method, such as `RecipeOf<"ties">`. */\nexport type RecipeOf<Method extends RecipeInput["method"]> = Extract<RecipeInput, { readonly method: Method }>;',
  ];
}

const folder = resolve(process.argv[2] ?? "dist");
/** @param {string} room */
const load = (room) => import(pathToFileURL(join(folder, room, "index.js")).href);
const RUN = "What to train, from which base, on which data: the fields of a run file.";
const [{ recipeJsonSchema }, { planJsonSchema }, { verbJsonSchema }, { VERBS }] = await Promise.all(
  ["merge", "experiment", "verbs/shared", "experiment/verbs"].map(load),
);
/** @param {string} name */
const isMethod = (name) => name in /** @type {object} */ (recipeJsonSchema().$defs);
/** A verb of a method takes the fields of its recipe. @param {string} name */
const methodInput = (name) =>
  `/** What \`${name}\` takes. */\nexport type ${pascal(name)}Input = Omit<${pascal(name)}Recipe, "method" | keyof OutputFields> &\n  Omit<MergeInput, "recipe" | "seed" | "allowCode" | "asMergekit">;`;
/** @param {{ name: string, load: () => Promise<unknown> }} verb */
async function verbInput({ name, load: read }) {
  if (isMethod(name)) return methodInput(name);
  const [type, meaning] = name === "train" ? ["RunInput", RUN] : [`${pascal(name)}Input`, `What \`${name}\` takes.`];
  return fileType(unfolded(verbJsonSchema(await read())), type, meaning);
}
/** @param {boolean} areOfExperiments */
const inputs = (areOfExperiments) =>
  Promise.all(
    VERBS.filter((/** @type {{ group: string }} */ { group }) => (group === "Experiment") === areOfExperiments).map(
      verbInput,
    ),
  );
const sections = [
  'import type { DataInput } from "../train/data/declaration.js";',
  SHARED,
  ...namedTypes(recipeJsonSchema()),
  ...recipeTypes(recipeJsonSchema()),
  ...(await inputs(false)),
];
writeFileSync(join(folder, "verbs", "inputs.d.ts"), `${sections.join("\n\n")}\n`);
const plan = [
  'import type { Json, LayerSelection, Parameter, Source } from "../verbs/inputs.js";',
  fileType(unfolded(planJsonSchema()), "PlanInput", "An experiment: the fields of a plan."),
  ...(await inputs(true)),
];
writeFileSync(join(folder, "experiment", "inputs.d.ts"), `${plan.join("\n\n")}\n`);
