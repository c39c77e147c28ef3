// Values as stored in layergraft.json, checked when they are read: the file may have been edited.
import { z } from "zod";
import { type FieldKind, operations } from "../streaming/value-operation.js";
import type { Value } from "./expression.js";

export const valueSchema: z.ZodType<Value> = z.lazy(buildUnion) as unknown as z.ZodType<Value>;

function buildUnion() {
  const weight = z.union([
    z.number(),
    z.object({ measured: z.string(), at: z.int().min(0).optional(), inverse: z.literal(true).optional() }),
  ]);
  const schemas: Readonly<Record<FieldKind, z.ZodType>> = {
    number: weight,
    numberPerValue: z.array(weight),
    numbers: z.array(weight),
    text: z.string(),
    mask: z.string(),
    factors: z.string(),
    share: z.number().min(0).max(1),
    size: z.number().min(0),
    count: z.int().min(1),
    flag: z.boolean(),
    axis: z.enum(["rows", "columns"]),
    seed: z.tuple([z.int(), z.int()]),
  };
  const declared = operations().map(([op, { values, fields }]) => {
    const kinds = Object.entries<FieldKind>(fields);
    const of = z.array(valueSchema).min(values ?? 1);
    const shape = Object.fromEntries(kinds.map(([name, kind]) => [name, schemas[kind]]));
    return z
      .object({ ...shape, op: z.literal(op), of: values === undefined ? of : of.max(values) })
      .refine((operation: Record<string, unknown>) => {
        const count = (operation.of as unknown[]).length;
        return kinds.every(
          ([name, kind]) => kind !== "numberPerValue" || (operation[name] as unknown[]).length === count,
        );
      }, "needs a number for each value");
  });
  const weighted = z.array(z.object({ weight, value: valueSchema }));
  return z.union([
    z.object({ source: z.string(), tensor: z.string(), asStored: z.literal(true).optional() }),
    z.object({ blend: weighted }),
    z.object({ sum: weighted }),
    z.discriminatedUnion("op", declared as [(typeof declared)[number]]),
  ]);
}
