// Several comparisons at once.

/**
 * P values adjusted for as many comparisons (Holm 1979, Scandinavian Journal of Statistics 6): comparing them with 5%
 * finds a difference that is not there in at most 5% of such families. In the order given; `undefined` stays and does not count.
 */
export function holmAdjust<P extends number | undefined>(pValues: readonly P[]): P[] {
  const adjusted = [...pValues];
  const known = pValues.flatMap((p, at) => (p === undefined ? [] : [{ p, at }])).sort((a, b) => a.p - b.p);
  let largest = 0;
  for (const [rank, { p, at }] of known.entries()) {
    largest = Math.max(largest, Math.min(1, (known.length - rank) * p));
    adjusted[at] = largest as P;
  }
  return adjusted;
}
