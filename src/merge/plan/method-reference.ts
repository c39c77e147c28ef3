// What recipes may say, as data: for `layergraft methods`, for docs/recipes.md, and as JSON Schema for editors. All of it
// comes from the methods' own schemas.
import { z } from "zod";
import { METHODS } from "../methods/index.js";
import { outputFields } from "./recipe.js";

/** A field of a recipe. */
export interface FieldReference {
  readonly name: string;
  /** What may stand there, in words. */
  readonly type: string;
  readonly required: boolean;
  /** As JSON; undefined where there is none. */
  readonly default?: unknown;
  readonly description: string;
}

/** A method and its fields. */
export interface MethodReference {
  readonly name: string;
  readonly title: string;
  readonly summary: string;
  readonly formula: string;
  readonly reference: string;
  readonly fields: readonly FieldReference[];
  /** Fields of an entry of `models` or `slices`, where the method has such a list. */
  readonly entryFields: readonly FieldReference[];
  readonly example: object;
}

type JsonSchema = Record<string, unknown>;

/** All methods, in the order in which they are listed. */
export function methodReferences(): MethodReference[] {
  return METHODS.map(({ name, title, summary, formula, reference, schema, example }) => {
    const json = jsonOf(schema);
    const list = propertiesOf(json).models ?? propertiesOf(json).slices;
    const entry = list && entryOf(list);
    const fields = fieldsOf(json).filter((field) => field.name !== "method");
    const entryFields = entry ? fieldsOf(entry).filter((field) => field.name !== "model") : [];
    return { name, title, summary, formula, reference, fields, entryFields, example };
  });
}

/** Fields that stand at the top of a recipe of any method. */
export function outputReferences(): FieldReference[] {
  return fieldsOf(jsonOf(z.strictObject(outputFields)));
}

/** The schema of recipe files, as JSON Schema (draft 2020-12). */
export function recipeJsonSchema(): JsonSchema {
  const output = propertiesOf(jsonOf(z.strictObject(outputFields)));
  const definitions = METHODS.map(({ name, title, summary, schema }): [string, JsonSchema] => {
    const { $schema: _, ...json } = jsonOf(schema);
    return [name, { title, description: summary, ...json }];
  });
  const whole = definitions.map(([name, json]) => {
    return { ...json, properties: { ...propertiesOf(json), ...output }, title: `recipe of ${name}` };
  });
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "layergraft recipe",
    oneOf: whole,
    $defs: {
      source: {
        description: "a folder, FOLDER+ADAPTER, the name of a model in the hub's local cache, or a recipe",
        anyOf: [{ type: "string", minLength: 1 }, { $ref: "#/$defs/recipe" }],
      },
      recipe: { oneOf: definitions.map(([name]) => ({ $ref: `#/$defs/${name}` })) },
      ...Object.fromEntries(definitions),
    },
  };
}

/** The JSON Schema of a recipe as it is written; sources, which contain recipes, refer to one definition. */
function jsonOf(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: "input",
    reused: "inline",
    unrepresentable: "any",
    override: ({ zodSchema, jsonSchema }) => {
      if (zodSchema._zod.def.type === "custom") jsonSchema.$ref = "#/$defs/source";
    },
  }) as JsonSchema;
}

function propertiesOf(json: JsonSchema): Record<string, JsonSchema> {
  return (json.properties ?? {}) as Record<string, JsonSchema>;
}

/** The mapping that an entry of a list may be. */
function entryOf(list: JsonSchema): JsonSchema | undefined {
  const items = list.items as JsonSchema;
  return [items, ...((items.anyOf ?? []) as JsonSchema[])].find((item) => item.properties !== undefined);
}

function fieldsOf(json: JsonSchema): FieldReference[] {
  const required = (json.required ?? []) as string[];
  return Object.entries(propertiesOf(json)).map(([name, field]) => ({
    name,
    type: typeOf(field),
    required: required.includes(name),
    ...(field.default === undefined ? {} : { default: field.default }),
    description: String(field.description ?? ""),
  }));
}

/** What may stand in a field, in words. */
function typeOf(json: JsonSchema): string {
  if (json.$ref === "#/$defs/source") return "source";
  if (json.const !== undefined) return JSON.stringify(json.const);
  if (Array.isArray(json.enum)) return json.enum.map((value) => `\`${value}\``).join(", ");
  if (Array.isArray(json.anyOf)) {
    const options = json.anyOf as JsonSchema[];
    if (options.some(({ properties }) => properties && "gradient" in (properties as object))) return "parameter";
    if (options.some(({ pattern }) => typeof pattern === "string" && pattern.includes("all"))) return "layers";
    return [...new Set(options.map(typeOf))].join(", or ");
  }
  if (Array.isArray(json.prefixItems)) return "list of two";
  if (json.type === "array") {
    const items = json.items as JsonSchema;
    return entryOf(json) ? "list of models" : `list of ${typeOf(items)}s`;
  }
  if (json.type === "object") return `{ ${Object.keys(propertiesOf(json)).join(", ")} }`;
  return (
    { integer: "whole number", number: "number", string: "text", boolean: "true or false" }[String(json.type)] ?? ""
  );
}
