// Which tensors of a model are copies of another's, to the bit, and whose copy each is taken for.

import type { Checkpoint } from "../../formats/checkpoint/index.js";
import { groupBy } from "../../kit/index.js";
import type { StreamOptions } from "../../tensor/streaming/index.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { compareWith } from "./closeness.js";
import type { Fitted, KnownModel } from "./fit-weights.js";

/** For each tensor with one, the models whose copy it is, as places in `models`. */
export type Copies = ReadonlyMap<Fitted, readonly number[]>;

/** @param dtype as a recipe names it: a copy that was saved in another element type is rounded to that first */
export async function findCopies(
  merged: Checkpoint,
  models: readonly KnownModel[],
  fitted: readonly Fitted[],
  dtype: Pick<RecipeInput, "dtype">,
  stream: StreamOptions,
): Promise<Copies> {
  const copies = new Map<Fitted, number[]>();
  for (const [i, { source }] of models.entries()) {
    const recipe = { method: "passthrough", slices: [{ model: source }], ...dtype } as RecipeInput;
    const found = await compareWith(merged, models, recipe, new Map(), stream);
    for (const one of fitted) {
      if (found.get(one.stored.name)?.differing === 0) copies.set(one, [...(copies.get(one) ?? []), i]);
    }
  }
  return copies;
}

/**
 * The model whose copy each tensor is, of those that are equal in it: the one that most tensors of its layer are copies of, one that
 * is not the base, then the one that most of all tensors are copies of, then the first.
 * @param base its place in `models`, where it is known
 */
export function ownersOf(copies: Copies, base?: number): ReadonlyMap<Fitted, number> {
  const countIn = (some: readonly (readonly [Fitted, readonly number[]])[]) => {
    const counts = new Map<number, number>();
    for (const i of some.flatMap(([, equal]) => equal)) counts.set(i, (counts.get(i) ?? 0) + 1);
    return (i: number) => counts.get(i) ?? 0;
  };
  const all = countIn([...copies]);
  return new Map(
    [...groupBy([...copies], ([{ stored }]) => stored.layer).values()].flatMap((unit) => {
      const here = countIn(unit);
      return unit.map(([one, equal]) => {
        const [owner = 0] = equal.toSorted(
          (a, b) => here(b) - here(a) || Number(a === base) - Number(b === base) || all(b) - all(a) || a - b,
        );
        return [one, owner] as const;
      });
    }),
  );
}
