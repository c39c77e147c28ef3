// Held-out examples, and lists of examples in the store.
import { createHash } from "node:crypto";
import type { ExampleList } from "./batches.js";
import type { Kept } from "./collect.js";
import { DataError } from "./read/data-error.js";
import type { ExampleStore } from "./store.js";

export type HeldOut = { readonly share: number } | { readonly samples: number };

/**
 * Holds out examples by the hashes of their rows: those below a share, or a number of the smallest. Examples of equal rows
 * stay together, so there may be a few more than the number.
 * @throws DataError if no example would be left to train on
 */
export function splitSets(
  sets: readonly (readonly Kept[])[],
  heldOut: HeldOut | undefined,
): { readonly train: Kept[][]; readonly heldOut: Kept[][] } {
  if (!heldOut) return { train: sets.map((kept) => [...kept]), heldOut: sets.map(() => []) };
  const bound = "share" in heldOut ? heldOut.share : boundOf(sets.flat(), heldOut.samples);
  return {
    train: sets.map((kept) => kept.filter(({ split }) => split >= bound)),
    heldOut: sets.map((kept) => kept.filter(({ split }) => split < bound)),
  };
}

/** The smallest hash that is not held out. */
function boundOf(kept: readonly Kept[], samples: number): number {
  const hashes = kept.map(({ split }) => split).sort((a, b) => a - b);
  const last = hashes[samples - 1];
  const bound = last === undefined ? undefined : hashes.find((hash) => hash > last);
  if (bound !== undefined) return bound;
  throw new DataError(`holdout: cannot hold out ${samples} of ${kept.length} examples and leave any to train on`, {
    field: "holdout",
  });
}

/** Examples of the store, set by set. */
export function listOf(
  store: ExampleStore,
  sets: readonly { readonly name: string; readonly weight?: number | undefined; readonly kept: readonly Kept[] }[],
): ExampleList {
  const digest = createHash("sha256");
  const indices = sets.map(({ kept }) => Uint32Array.from(kept, ({ index }) => index));
  for (const { kept } of sets) for (const { digest: one } of kept) digest.update(one);
  const indexOf = (set: number, index: number) => indices[set]?.[index] ?? -1;
  return {
    sets: sets.map(({ name, weight, kept }) => ({ name, weight, size: kept.length })),
    digest: digest.digest("hex"),
    tokensOf: (set, index) => store.tokensOf(indexOf(set, index)),
    get: (set, index) => store.get(indexOf(set, index)),
  };
}
