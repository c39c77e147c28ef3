// The part of JSON Schema that answers can be limited to. Every keyword is translated or refused: node-llama-cpp ignores those that
// it does not know, and reads some as null.

import { isObject, type JsonObject, usageError } from "../../kit/index.js";

/** Keywords that allow the same answers with any value. */
const NOTES = [
  "title",
  "description",
  "default",
  "examples",
  "$schema",
  "$id",
  "$comment",
  "deprecated",
  "readOnly",
  "writeOnly",
];

/** Keywords by the type that they describe. */
const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  object: ["properties", "required", "additionalProperties"],
  array: ["items", "prefixItems", "minItems", "maxItems"],
  string: ["minLength", "maxLength", "format"],
  number: [],
  integer: [],
  boolean: [],
  null: [],
};
const FORMATS = ["date-time", "date", "time"];

const MAX_DEPTH = 32;
const MAX_PARTS = 2000;
/** llama.cpp refuses more repetitions. */
const MAX_COUNT = 1000;

/** `#/$defs/name`, or its older form. */
const REFERENCE = /^#\/(?:\$defs|definitions)\/([^/~]+)$/;

/**
 * A schema that allows only answers that the given one does. Objects have all properties that are named, and no others
 * where some are.
 * @throws LayergraftError code `usage` for a keyword that is not supported
 */
export function answerSchema(schema: JsonObject): JsonObject {
  const { $defs, definitions = $defs, ...root } = schema;
  const defs = Object.entries(isObject(definitions) ? definitions : {});
  let parts = 0;
  const named = defs.map(([name, value]) => [name, read(value, ["$defs", name])]);
  return { ...read(root, []), ...(named.length === 0 ? {} : { $defs: Object.fromEntries(named) }) };

  function read(value: unknown, path: readonly string[]): JsonObject {
    const fail = (what: string) => {
      const where = ["schema", ...path].join(".").slice(0, 200);
      return usageError(`${where} ${what}`, { field: "response_format" });
    };
    if (value === true) return read({}, path);
    if (!isObject(value)) throw fail("is not a schema");
    if (path.length > MAX_DEPTH || ++parts > MAX_PARTS) throw fail("is nested too deeply, or has too many parts");
    const given = Object.fromEntries(Object.entries(value).filter(([key]) => !NOTES.includes(key)));
    const within = (one: unknown, ...more: readonly (string | number)[]) => read(one, [...path, ...more.map(String)]);
    const only = (...keys: readonly string[]) => {
      const other = Object.keys(given).find((key) => !keys.includes(key));
      if (other !== undefined) throw fail(`has ${other}, which is not supported here; leave it out`);
    };
    const { $ref, const: constant, enum: values, anyOf, oneOf = anyOf, allOf, type } = given;
    if ($ref !== undefined) {
      only("$ref");
      const [, name] = REFERENCE.exec(String($ref)) ?? [];
      if (name === undefined || !defs.some(([known]) => known === name))
        throw fail(`refers to ${$ref}, which is not in $defs`);
      return { $ref: `#/$defs/${name}` };
    }
    if (constant !== undefined || values !== undefined) {
      only("const", "enum", "type");
      const choices = values === undefined ? [constant] : values;
      const isPlain = (one: unknown) => one === null || ["string", "number", "boolean"].includes(typeof one);
      if (!Array.isArray(choices) || choices.length === 0 || choices.length > MAX_COUNT || !choices.every(isPlain)) {
        throw fail(`must have 1 to ${MAX_COUNT} values that are text, numbers, true, false or null`);
      }
      return { enum: choices };
    }
    if (oneOf !== undefined) {
      only("anyOf", "oneOf");
      if (!Array.isArray(oneOf) || oneOf.length === 0 || (anyOf !== undefined && given.oneOf !== undefined)) {
        throw fail("has no list of variants");
      }
      return { oneOf: oneOf.map((variant, i) => within(variant, "anyOf", i)) };
    }
    if (allOf !== undefined) {
      only("allOf");
      if (!Array.isArray(allOf) || allOf.length !== 1)
        throw fail("has allOf of several schemas, which is not supported");
      return within(allOf[0], "allOf", 0);
    }
    const types = type === undefined ? typesOf(given) : [type].flat().map(String);
    only("type", ...types.flatMap((one) => KEYWORDS[one] ?? []));
    const unknown = types.find((one) => !Object.hasOwn(KEYWORDS, one));
    if (unknown !== undefined || types.length === 0) throw fail(`has the type ${unknown}, which JSON does not have`);
    const variants = types.map((one) => ofType(one));
    return variants.length === 1 ? (variants[0] as JsonObject) : { oneOf: variants };

    function ofType(name: string): JsonObject {
      const own = Object.entries(given).filter(([key]) => KEYWORDS[name]?.includes(key));
      const counts = own.filter(([key]) => /^(?:min|max)/.test(key));
      const wrong = counts.find(([, one]) => !Number.isInteger(one) || Number(one) < 0 || Number(one) > MAX_COUNT);
      if (wrong) throw fail(`has ${wrong[0]} ${wrong[1]}; it must be a whole number up to ${MAX_COUNT}`);
      const limits: JsonObject = Object.fromEntries(counts);
      for (const what of ["Length", "Items"]) {
        const [least = 0, most = MAX_COUNT] = [limits[`min${what}`], limits[`max${what}`]].map(
          (one) => one as number | undefined,
        );
        if (least > most) throw fail(`has min${what} ${least} above max${what} ${most}, which nothing has`);
      }
      const result: Record<string, unknown> = { type: name, ...limits };
      const {
        properties = {},
        required = [],
        additionalProperties: others,
        items,
        prefixItems,
        format,
      } = Object.fromEntries(own);
      if (format !== undefined && !FORMATS.includes(String(format)))
        throw fail(`has the format ${format}, which is not supported`);
      if (format !== undefined) result.format = format;
      if (items !== undefined) result.items = within(items, "items");
      if (Array.isArray(prefixItems)) result.prefixItems = prefixItems.map((item, i) => within(item, "prefixItems", i));
      if (name !== "object") return result;
      if (!isObject(properties)) throw fail("has properties that are not schemas by name");
      const missing = [required].flat().find((key) => !Object.hasOwn(properties, String(key)));
      if (missing !== undefined) throw fail(`requires ${missing}, which is not in its properties`);
      const names = Object.keys(properties);
      if (names.length > 0) {
        result.properties = Object.fromEntries(names.map((key) => [key, within(properties[key], "properties", key)]));
      }
      const isOpen = names.length === 0 && others !== false;
      if (isObject(others)) result.additionalProperties = within(others, "additionalProperties");
      else result.additionalProperties = others === true || isOpen;
      return result;
    }
  }
}

/** Types of a schema that names none. */
function typesOf(schema: JsonObject): string[] {
  const keys = Object.keys(schema);
  if (keys.length === 0) return ["object", "array", "string", "number", "boolean", "null"];
  return Object.keys(KEYWORDS).filter((type) => keys.some((key) => KEYWORDS[type]?.includes(key)));
}
