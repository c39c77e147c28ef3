// Values as they stand in layergraft.json, checked when they are read: the file may have been edited.
import { z } from "zod";
import type { Value } from "./expression.js";

const weight = z.union([
  z.number(),
  z.object({ measured: z.string(), at: z.int().min(0).optional(), inverse: z.literal(true).optional() }),
]);
const seed = z.tuple([z.int(), z.int()]);
const share = z.number().min(0).max(1);

/** A value of a plan. */
export const valueSchema: z.ZodType<Value> = z.lazy(() => valueUnion) as unknown as z.ZodType<Value>;

const of = (count?: number) => {
  const values = z.array(valueSchema).min(1);
  return count === undefined ? values : values.length(count);
};
const weighted = z.array(z.object({ weight, value: valueSchema }));

const valueUnion = z.union([
  z.object({ source: z.string(), tensor: z.string() }),
  z.object({ blend: weighted }),
  z.object({ sum: weighted }),
  z.discriminatedUnion("op", [
    z.object({ op: z.literal("subtract"), of: of(2) }),
    z.object({ op: z.literal("trim"), of: of(1), low: weight, high: weight }),
    z.object({ op: z.literal("trim-by"), of: of(2), low: weight }),
    z.object({ op: z.literal("drop"), of: of(1), density: share, scale: weight, seed }),
    z.object({ op: z.literal("drop-by-magnitude"), of: of(1), density: share, epsilon: share, seed }),
    z
      .object({
        ...{ op: z.literal("consensus"), of: of(), weights: z.array(weight) },
        ...{ weighted: z.boolean(), normalize: z.boolean(), tie: weight },
      })
      .refine(({ of: values, weights }) => values.length === weights.length, "needs a weight for each value"),
    z.object({ op: z.literal("variance"), of: of() }),
    z.object({ op: z.literal("approach"), of: of(2), step: z.number().min(0) }),
    z.object({
      ...{ op: z.literal("select"), of: of(2), mask: z.string() },
      ...{ axis: z.enum(["rows", "columns"]), matrix: z.int().min(1) },
    }),
    z.object({ op: z.literal("slerp-rows"), of: of(2), t: weight, straight: share }),
  ]),
]);
