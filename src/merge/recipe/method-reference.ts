// Recipe fields as data for `layergraft methods`, docs/methods.md and the JSON Schema, from the methods' schemas.
import {
  type JsonSchema,
  jsonSchemaOf,
  type SchemaField,
  schemaFields,
  shareDefinitions,
} from "../../kit/settings/index.js";
import { METHOD_GROUPS, METHODS, USED_MOST } from "../methods/index.js";
import type { Method } from "../methods/method.js";
import { sourceFieldsIn } from "../methods/source-fields.js";
import { outputSchema } from "./recipe.js";

/** A method and its fields. */
export interface MethodReference extends Pick<Method, "name" | "title" | "summary" | "formula" | "reference"> {
  /** What methods of its kind do. */
  readonly group: string;
  /** Whether it is one of the ten that are used most. */
  readonly isUsedMost: boolean;
  readonly fields: readonly SchemaField[];
  /** Fields of an entry of the list of sources, where the method has one. */
  readonly entryFields: readonly SchemaField[];
  readonly example: object;
}

/** All methods, in display order. */
export function methodReferences(): MethodReference[] {
  return Object.entries(METHOD_GROUPS).flatMap(([group, methods]) =>
    methods.map(({ name, title, summary, formula, reference, schema, example }) => {
      const all = schemaFields(schema);
      const lists = sourceFieldsIn(schema).flatMap((one) => ("entry" in one ? [one.field] : []));
      const fields = all.filter((field) => /^\w+$/.test(field.name) && field.name !== "method");
      const entryFields = all.flatMap((field) => {
        const [, list = "", inner = "model"] = /^(\w+)\[\]\.(\w+)$/.exec(field.name) ?? [];
        return lists.includes(list) && inner !== "model" ? [{ ...field, name: inner }] : [];
      });
      const isUsedMost = USED_MOST.includes(name);
      return { name, title, group, isUsedMost, summary, formula, reference, fields, entryFields, example };
    }),
  );
}

/** Top-level fields of a recipe of any method. */
export function outputReferences(): SchemaField[] {
  return schemaFields(outputSchema);
}

/** The schema of recipe files, as JSON Schema (draft 2020-12). */
export function recipeJsonSchema(): JsonSchema {
  const { properties: output } = jsonSchemaOf(outputSchema);
  const definitions = METHODS.map(({ name, title, summary, schema }): [string, JsonSchema] => {
    const { $schema: _, ...json } = jsonSchemaOf(schema);
    return [name, { title, description: summary, ...json }];
  });
  const whole = definitions.map(([name, json]) => {
    return {
      ...json,
      properties: { ...(json.properties as object), ...(output as object) },
      title: `recipe of ${name}`,
    };
  });
  return shareDefinitions({
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "layergraft recipe",
    oneOf: whole,
    $defs: {
      source: {
        description: "a folder, FOLDER+ADAPTER, the name of a model on the hub, or a recipe",
        anyOf: [{ type: "string", minLength: 1 }, { $ref: "#/$defs/recipe" }],
      },
      recipe: { oneOf: definitions.map(([name]) => ({ $ref: `#/$defs/${name}` })) },
      ...Object.fromEntries(definitions),
    },
  });
}
