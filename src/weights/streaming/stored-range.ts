// What a stored term reads, as a key.
import type { StoredTerm } from "./program.js";

/** Names the range of a stored term, whatever is done with its values. */
export function rangeOf({ file, offset, dtype, gathered }: StoredTerm): string {
  return `${file} ${offset} ${dtype} ${gathered ? identify(gathered.row) : ""}`;
}

const IDENTITIES = new WeakMap<object, number>();
let identified = 0;

/** A number for an object that is compared by identity: within a thread, equal objects of a program are one. */
export function identify(object: object): number {
  const known = IDENTITIES.get(object) ?? ++identified;
  IDENTITIES.set(object, known);
  return known;
}
