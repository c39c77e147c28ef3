// JSON Schema for files: what it says more than once is a definition, so that a change shows where it was made.

import { createHash } from "node:crypto";
import type { z } from "zod";
import { type JsonSchema, jsonSchemaOf } from "./schema-fields.js";

/** A schema whose text is shorter stays where it is. */
const SHORTEST = 120;

/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const SINGLE = ["items", "additionalProperties", "not", "propertyNames", "contains"];
const LISTED = ["anyOf", "oneOf", "allOf", "prefixItems"];
const NAMED = ["properties", "patternProperties", "$defs"];

interface SchemaPart {
  readonly schema: JsonSchema;
  /** The field where it was met first. */
  readonly field: string;
}

/** JSON Schema (draft 2020-12) of files that people write. */
export const publishedSchema = (title: string, schema: z.ZodType): JsonSchema =>
  shareDefinitions({ title, ...jsonSchemaOf(schema) });

/**
 * The same schema with `$defs` for every part that equal parts share. A definition is called after the first field that has it, and after
 * its content where several are called alike, so that other definitions keep their names when one is added.
 */
export function shareDefinitions({ $schema, $defs: definitions = {}, ...root }: JsonSchema): JsonSchema {
  const $defs = definitions as object;
  const parts = new Map<string, SchemaPart>();
  const whole = gather(root, "", parts);
  const { $defs: given = {} } = gather({ $defs }, "", parts);
  const uses = new Map<string, number>();
  for (const schema of [whole, { $defs: given }, ...[...parts.values()].map((part) => part.schema)]) {
    mapParts(schema, (part) => {
      uses.set(String(part.$part), (uses.get(String(part.$part)) ?? 0) + 1);
      return part;
    });
  }
  const shared = [...parts].filter(([text]) => text.length >= SHORTEST && (uses.get(text) ?? 0) > 1);
  const names = namesOf(shared, Object.keys($defs));
  const written = (schema: JsonSchema): JsonSchema =>
    mapParts(schema, ({ $part }) => {
      const text = String($part);
      const name = names.get(text);
      return name === undefined ? written((parts.get(text) as SchemaPart).schema) : { $ref: `#/$defs/${name}` };
    });
  const found = shared
    .map(([text, { schema }]) => [names.get(text) as string, written(schema)] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  const all = { ...(written({ $defs: given }).$defs as object), ...Object.fromEntries(found) };
  return {
    ...($schema === undefined ? {} : { $schema }),
    ...written(whole),
    ...(Object.keys(all).length > 0 ? { $defs: all } : {}),
  };
}

/** The schema with each part replaced by its text, under which `parts` has it. */
function gather(schema: JsonSchema, field: string, parts: Map<string, SchemaPart>): JsonSchema {
  return mapParts(
    schema,
    (part, name) => {
      const inner = gather(part, name, parts);
      const text = JSON.stringify(inner);
      if (!parts.has(text)) parts.set(text, { schema: inner, field: name });
      return { $part: text };
    },
    field,
  );
}

function mapParts(schema: JsonSchema, map: (part: JsonSchema, field: string) => JsonSchema, field = ""): JsonSchema {
  const one = (part: unknown, name: string): unknown =>
    typeof part === "object" && part !== null ? map(part as JsonSchema, name) : part;
  const within = (keyword: string, value: unknown): unknown => {
    if (SINGLE.includes(keyword)) return one(value, field);
    if (LISTED.includes(keyword)) return (value as unknown[]).map((part) => one(part, field));
    if (!NAMED.includes(keyword)) return value;
    return Object.fromEntries(Object.entries(value as object).map(([name, part]) => [name, one(part, name)]));
  };
  return Object.fromEntries(Object.entries(schema).map(([keyword, value]) => [keyword, within(keyword, value)]));
}

function namesOf(
  shared: readonly (readonly [string, SchemaPart])[],
  taken: readonly string[],
): ReadonlyMap<string, string> {
  const plain = (field: string) => field.replace(/[^\w-]+/g, "_") || "value";
  const counts = new Map(taken.map((name) => [name, 1]));
  for (const [, { field }] of shared) counts.set(plain(field), (counts.get(plain(field)) ?? 0) + 1);
  return new Map(
    shared.map(([text, { field }]) => {
      const name = plain(field);
      const digest = createHash("sha256").update(text).digest("hex").slice(0, 8);
      return [text, counts.get(name) === 1 ? name : `${name}-${digest}`];
    }),
  );
}
