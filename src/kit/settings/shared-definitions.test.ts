import fc from "fast-check";
import { expect, it } from "vitest";
import { z } from "zod";
import { type JsonSchema, jsonSchemaOf } from "./schema-fields.js";
import { publishedSchema, shareDefinitions } from "./shared-definitions.js";

/** The schema with every definition in place, by the rule of references alone. */
function unfolded({ $defs = {}, ...schema }: JsonSchema): JsonSchema {
  const inner = (part: unknown): unknown => {
    if (Array.isArray(part)) return part.map(inner);
    if (typeof part !== "object" || part === null) return part;
    const { $ref } = part as JsonSchema;
    if (typeof $ref === "string") return inner(($defs as JsonSchema)[$ref.replace("#/$defs/", "")]);
    return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, inner(value)]));
  };
  return inner(schema) as JsonSchema;
}

const weight = z.union([z.number().min(0), z.array(z.number().min(0)).min(1)]).describe("how much a model counts");

it("says once what fields share, by the name of the first", () => {
  const entry = z.strictObject({ model: z.string().min(1), weight });
  const schema = z.strictObject({ weight, models: z.array(entry).min(2), others: z.array(entry).min(2) });
  const published = publishedSchema("layergraft thing", schema);
  expect(published).toMatchObject({
    title: "layergraft thing",
    properties: {
      weight: { $ref: "#/$defs/weight" },
      models: { $ref: "#/$defs/models" },
      others: { $ref: "#/$defs/models" },
    },
    $defs: { models: { items: { properties: { weight: { $ref: "#/$defs/weight" } } } }, weight: { anyOf: [{}, {}] } },
  });
  expect(unfolded(published)).toEqual({ title: "layergraft thing", ...jsonSchemaOf(schema) });
});

it("calls definitions after their content where several fields are called alike", () => {
  const [a, b] = ["the first of two kinds of selections", "the other kind of selection"].map((about) =>
    z.array(z.string().min(1).max(99)).min(1).describe(about.repeat(3)),
  );
  const one = z.strictObject({ layers: a, inner: z.strictObject({ layers: b, one: z.strictObject({ layers: a }) }) });
  const published = publishedSchema("", z.strictObject({ one, two: z.strictObject({ layers: b }) }));
  const names = Object.keys(published.$defs as object);
  expect(names).toEqual([expect.stringMatching(/^layers-[0-9a-f]{8}$/), expect.stringMatching(/^layers-[0-9a-f]{8}$/)]);
  expect(new Set(names).size).toBe(2);
});

const leaf = fc.record({ type: fc.constantFrom("string", "number"), description: fc.string({ maxLength: 200 }) });
const { schema } = fc.letrec<{ schema: JsonSchema }>((tie) => ({
  schema: fc.oneof(
    { depthSize: "small" },
    leaf,
    fc.record({ type: fc.constant("array"), items: tie("schema") }),
    fc.record({ anyOf: fc.array(tie("schema"), { maxLength: 4 }) }),
    fc.record({
      // What is data and looks like a schema stays as it is.
      default: fc.constant({ items: { type: "string" } }),
      properties: fc.dictionary(fc.constantFrom("items", "default", "a b", "$ref2"), tie("schema"), {
        noNullPrototype: true,
      }),
    }),
  ),
}));

it("unfolds to the schema that it was given", () => {
  fc.assert(
    fc.property(schema, (given) => {
      const twice = { anyOf: [given, { type: "array", items: given }] };
      expect(unfolded(shareDefinitions(twice))).toEqual(twice);
    }),
  );
});
