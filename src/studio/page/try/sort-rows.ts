// The order of results in their table.

/** What a result is sorted by. */
interface Sorted {
  readonly isEarlier: boolean;
  /** Among the models of the project. */
  readonly place: number;
  readonly score: { readonly value: number | null };
  readonly ended: number;
}

const byPlace = (a: Sorted, b: Sorted) => Number(a.isEarlier) - Number(b.isEarlier) || a.place - b.place;

/** Ways to sort: by place, by score, by time. The highest and the latest come first. */
const ORDERS = {
  Model: byPlace,
  Score: (a: Sorted, b: Sorted) => (b.score.value ?? 0) - (a.score.value ?? 0),
  Finished: (a: Sorted, b: Sorted) => b.ended - a.ended,
};
export type Order = keyof typeof ORDERS;
export const isOrder = (name: string): name is Order => Object.hasOwn(ORDERS, name);

/** Rows without a score are last either way, and rows that are alike in the order of the project. */
export function sortRows<T extends Sorted>(rows: readonly T[], order: Order, isTurned: boolean): T[] {
  const sign = isTurned ? -1 : 1;
  const isAbsent = ({ score }: Sorted) => Number(order === "Score" && score.value === null);
  return rows.toSorted(
    (a, b) => isAbsent(a) - isAbsent(b) || sign * ORDERS[order](a, b) || byPlace(a, b) || b.ended - a.ended,
  );
}
