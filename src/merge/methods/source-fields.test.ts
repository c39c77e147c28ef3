// What schemas say of sources, against what the schemas accept.
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { METHODS } from "./index.js";
import { modelsField, sourceField, statisticsField } from "./method.js";
import { type SourceList, sourceFieldsIn } from "./source-fields.js";

const listsIn = (schema: z.ZodObject) => sourceFieldsIn(schema).filter((one): one is SourceList => "entry" in one);

describe("sources", () => {
  it("are found in optional, described, refined and transformed fields, the base last", () => {
    const own = z.strictObject({
      method: z.literal("own"),
      base: sourceField("base").describe("another text"),
      teacher: sourceField("teacher").refine(() => true),
      spare: sourceField("spare").transform((source) => source),
      donor: sourceField("donor", "tokenizer").optional(),
      inputs: statisticsField("inputs", "teacher").optional(),
      words: z.array(z.string()).default([]),
      strength: z.number(),
      students: modelsField("students", { of: sourceField("its teacher"), inputs: statisticsField("gram", "of") }, 2),
      pair: z.array(sourceField("one of them")).length(2).optional(),
    });
    const model = { field: "model", source: "model" };
    expect(sourceFieldsIn(own)).toEqual([
      { field: "teacher", source: "model" },
      { field: "spare", source: "model" },
      { field: "donor", source: "tokenizer" },
      { field: "inputs", source: "statistics", statistics: { kind: "inputs", of: "teacher" } },
      {
        field: "students",
        atLeast: 2,
        entry: [
          model,
          { field: "of", source: "model" },
          { field: "inputs", source: "statistics", statistics: { kind: "gram", of: "of" } },
        ],
      },
      { field: "pair", atLeast: 2, entry: [model] },
      { field: "base", source: "model" },
    ]);
  });

  it.each(METHODS.map(({ name, schema, example }) => ({ name, schema, example })))(
    "of $name: its lists can do without entries as long as its schema accepts them",
    ({ schema, example }) => {
      for (const { field, atLeast } of listsIn(schema as unknown as z.ZodObject)) {
        const entries = (example as unknown as Record<string, unknown[]>)[field] ?? [];
        const isAccepted = (count: number) =>
          schema.safeParse({ ...example, [field]: entries.slice(0, count) }).success;
        expect(entries.map((_, i) => [i + 1, isAccepted(i + 1)])).toEqual(
          entries.map((_, i) => [i + 1, i + 1 >= atLeast]),
        );
        expect(atLeast).toBeGreaterThan(0);
        expect(isAccepted(0)).toBe(false);
      }
    },
  );
});
