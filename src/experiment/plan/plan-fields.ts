// The fields of plans as data, for documentation and editors.
import { type JsonSchema, jsonSchemaOf, type SchemaField, schemaFields } from "../../settings/index.js";
import { planSchema } from "./plan-schema.js";

/** The schema of plans as JSON Schema (draft 2020-12). */
export function planJsonSchema(): JsonSchema {
  return { title: "layergraft experiment", ...jsonSchemaOf(planSchema) };
}

/** All fields, in the order of the schema; those of entries under `[]`, those of named entries under `NAME`. */
export function planFields(): SchemaField[] {
  return schemaFields(planSchema);
}
