// How much more one expert changed than another, in words. The studio's page has this module, too, without the rest of the room.

/** What the page of an analysis has of how much experts changed. */
interface MeasuredChanges {
  readonly steps: readonly number[];
  readonly marks: readonly { readonly name: string; readonly steps: readonly number[] }[];
  /** By expert, layer and matrix. */
  readonly cells: readonly (readonly (readonly ({
    readonly rows: number;
    readonly above: readonly number[];
    readonly mean: number | null;
  } | null)[])[])[];
}

/** How much an expert changed: the mean over its rows, and how many are above its own threshold and above that of all. */
export function changeOf({ steps, marks, cells }: MeasuredChanges, expert: number) {
  const all = (cells[expert] ?? []).flat().filter((cell) => cell !== null && cell.rows > 0 && cell.mean !== null);
  const sum = (of: (cell: NonNullable<(typeof all)[number]>) => number) =>
    all.reduce((total, cell) => total + (cell ? of(cell) : 0), 0);
  const rows = sum((cell) => cell.rows);
  const at = (step: number | undefined) =>
    step === undefined || rows === 0
      ? undefined
      : { threshold: steps[step] ?? 0, share: sum(({ above }) => above[step] ?? 0) / rows };
  return {
    mean: rows > 0 ? sum((cell) => cell.rows * (cell.mean ?? 0)) / rows : null,
    own: at(marks[0]?.steps[expert]),
    common: at(marks.find(({ name }) => name === "common")?.steps[expert]),
  };
}

/**
 * How much experts changed, in sentences: `math changed 1.9 times as much as swahili: the mean change of a row is 3.10e-5 in
 * math, 1.63e-5 in swahili. Above a threshold of 2.20e-5 for all: 18.0% of the rows of math, 7.0% of the rows of swahili.`
 * Empty for one expert.
 */
export function comparedChanges(data: MeasuredChanges, names: readonly string[]): string {
  const size = (value: number) => value.toExponential(2);
  const found = names.map((name, expert) => ({ name, ...changeOf(data, expert) }));
  const sorted = found.toSorted((a, b) => (b.mean ?? 0) - (a.mean ?? 0));
  const [most, least] = [sorted[0], sorted.at(-1)];
  if (!most || !least || most === least || !most.mean) return "";
  // Of many, the two ends: the maps have the others.
  const shown = sorted.length > 3 ? [most, least] : sorted;
  const times = least.mean
    ? `${shown === sorted ? "" : "most, "}${(most.mean / least.mean).toFixed(1)} times as much as ${least.name}`
    : "most";
  const means = shown.map(({ name, mean }) => `${size(mean ?? 0)} in ${name}`).join(", ");
  const shares = shown.flatMap(({ name, common }) =>
    common ? [`${(100 * common.share).toFixed(1)}% of the rows of ${name}`] : [],
  );
  const above = most.common
    ? ` Above a threshold of ${size(most.common.threshold)} for all: ${shares.join(", ")}.`
    : "";
  return `${most.name} changed ${times}: the mean change of a row is ${means}.${above}`;
}
