import { describe, expect, it } from "vitest";
import { answerSchema } from "./answer-schema.js";

describe("a JSON Schema of answers", () => {
  const any = expect.objectContaining({ oneOf: expect.arrayContaining([{ type: "null" }]) });
  it.each<[Record<string, unknown>, object]>([
    [{ type: "object" }, { type: "object", additionalProperties: true }],
    [
      { type: "object", additionalProperties: false },
      { type: "object", additionalProperties: false },
    ],
    [
      { title: "T", properties: { a: { type: "integer", default: 1 } }, required: ["a"] },
      { type: "object", properties: { a: { type: "integer" } }, additionalProperties: false },
    ],
    // As pydantic writes optional fields.
    [
      { anyOf: [{ type: "string", maxLength: 5 }, { type: "null" }] },
      { oneOf: [{ type: "string", maxLength: 5 }, { type: "null" }] },
    ],
    [
      { type: ["array", "null"], items: { enum: ["x", 1, null] } },
      { oneOf: [{ type: "array", items: { enum: ["x", 1, null] } }, { type: "null" }] },
    ],
    [
      { type: "array", items: true },
      { type: "array", items: any },
    ],
    [{ const: "x", type: "string" }, { enum: ["x"] }],
    [
      {
        $ref: "#/definitions/n",
        definitions: { n: { type: "object", properties: { next: { allOf: [{ $ref: "#/definitions/n" }] } } } },
      },
      {
        $ref: "#/$defs/n",
        $defs: { n: { type: "object", properties: { next: { $ref: "#/$defs/n" } }, additionalProperties: false } },
      },
    ],
    [
      { type: "object", additionalProperties: { type: "number" } },
      { type: "object", additionalProperties: { type: "number" } },
    ],
    [
      { type: "string", format: "date" },
      { type: "string", format: "date" },
    ],
  ])("%j is translated", (schema, expected) => {
    expect(answerSchema(schema)).toEqual(expected);
  });

  const deep = (levels: number): object => (levels === 0 ? {} : { type: "array", items: deep(levels - 1) });
  it.each<[Record<string, unknown>, RegExp]>([
    [
      { type: "object", properties: { age: { type: "integer", minimum: 0 } } },
      /^schema\.properties\.age has minimum, which is not supp/,
    ],
    [{ type: "string", pattern: "a" }, /has pattern/],
    [{ type: "string", format: "email" }, /has the format email/],
    [{ type: "string", minItems: 1 }, /has minItems/],
    [{ not: {} }, /^schema has not, which is not supported here/],
    [{ type: "text" }, /has the type text, which JSON does not have/],
    [{ enum: [{}] }, /must have 1 to 1000 values that are text/],
    [{ enum: [] }, /must have 1 to 1000 values that are text/],
    [{ $ref: "#/$defs/x" }, /refers to #\/\$defs\/x, which is not in \$defs/],
    [{ $ref: "https://example.org" }, /which is not in \$defs/],
    [{ allOf: [{}, {}] }, /has allOf of several schemas/],
    [{ anyOf: [{}], type: "object" }, /has type/],
    [{ properties: {}, required: ["a"] }, /requires a, which is not in its properties/],
    [{ type: "array", maxItems: 1e9 }, /has maxItems 1000000000; it must be a whole number up to 1000/],
    [{ type: "array", items: 5 }, /^schema\.items is not a schema/],
    [deep(40) as Record<string, unknown>, /is nested too deeply/],
    [{ enum: Array.from({ length: 3 }, () => "x"), minLength: 1 }, /has minLength/],
    [{ anyOf: Array.from({ length: 3000 }, () => ({ type: "null" })) }, /has too many parts/],
  ])("%# is refused", (schema, message) => {
    expect(() => answerSchema(schema)).toThrow(message);
  });
});
