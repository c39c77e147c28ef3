// How much more one expert changed than another, and where, in words. The studio's page has this module, too, without the rest of the room.

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

/** Share of an expert's changed rows that its layers are said to have. */
const MOST = 0.8;
/** Of changes in the same layers: below the first, a swap keeps nearly all; above the second, it loses much. */
const [FEW, MANY] = [0.15, 0.5];
/** Experts that a sentence lists. */
const MAX_EXPERTS = 4;

/** The fewest layers that have most of an expert's changed rows, and the share of them in each layer; undefined if there are none. */
function layersChanged({ marks, cells }: MeasuredChanges, expert: number) {
  const step = marks[0]?.steps[expert] ?? 0;
  const counts = (cells[expert] ?? []).map((layer) => layer.reduce((sum, cell) => sum + (cell?.above[step] ?? 0), 0));
  const all = counts.reduce((sum, count) => sum + count, 0);
  if (all === 0) return undefined;
  const layers: number[] = [];
  let held = 0;
  for (const layer of [...counts.keys()].sort((a, b) => (counts[b] ?? 0) - (counts[a] ?? 0) || a - b)) {
    if (held >= MOST * all) break;
    layers.push(layer);
    held += counts[layer] ?? 0;
  }
  return { layers: layers.sort((a, b) => a - b), held: held / all, shares: counts.map((count) => count / all) };
}

/**
 * Where experts changed, in sentences: `swahili changed layers 0-2 (91% of its changed rows), math layers 3-7 (97%). 4% of their
 * changes are in the same layers, so a swap can keep what both changed.` Empty if none changed.
 * @param ranges layer numbers in words, such as `0-2, 7`
 */
export function whereChanged(
  data: MeasuredChanges,
  names: readonly string[],
  ranges: (layers: readonly number[]) => string,
): string {
  const found = names.flatMap((name, expert) => {
    const one = layersChanged(data, expert);
    return one ? [{ name, ...one }] : [];
  });
  const [first, second] = found;
  if (!first) return "";
  const percent = (share: number) => `${Math.round(100 * share)}%`;
  const said = found.slice(0, MAX_EXPERTS).map(({ name, layers, held }, i) => {
    const noun = layers.length === 1 ? "layer" : "layers";
    return `${name} ${i === 0 ? "changed " : ""}${noun} ${ranges(layers)} (${percent(held)}${i === 0 ? " of its changed rows" : ""})`;
  });
  const where = `${said.join(", ")}${found.length > MAX_EXPERTS ? `, and ${found.length - MAX_EXPERTS} more` : ""}.`;
  if (!second || found.length > 2) return where;
  const shared = first.shares.reduce((sum, share, layer) => sum + Math.min(share, second.shares[layer] ?? 0), 0);
  const so =
    shared < FEW
      ? "so a swap can keep what both changed"
      : shared < MANY
        ? "so a swap keeps most of what both changed"
        : "so a swap loses much of what one changed: try a soup or TIES, too";
  return `${where} ${shared < 0.005 ? "None" : percent(shared)} of their changes are in the same layers, ${so}.`;
}
