// Quantities as people read and write them: bytes, counts, durations. Units are decimal.

function scaled(value: number, units: readonly string[]): string {
  let unit = 0;
  let rest = value;
  while (rest >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit++;
  }
  const digits = unit === 0 || rest >= 99.95 ? 0 : rest >= 9.995 ? 1 : 2;
  return `${rest.toFixed(digits)}${units[unit]}`;
}

/** `2.47 GB`. Decimal units: 1 GB is 10^9 bytes. */
export function formatBytes(bytes: number): string {
  return scaled(bytes, [" B", " kB", " MB", " GB", " TB", " PB"]);
}

/** `8.03B` parameters, `464k`. */
export function formatCount(count: number): string {
  return scaled(count, ["", "k", "M", "B", "T"]);
}

/** `1 tensor`, `3 tensors`. */
export function plural(count: number, noun: string): string {
  // By hand: toLocaleString loads ICU's tables, a tenth of the time of a command.
  return `${String(count).replace(/\B(?=(\d{3})+$)/g, ",")} ${noun}${count === 1 ? "" : "s"}`;
}

/** `38 ms`, `1.8 s`, `12 s`, `3 min 20 s`, `2 h 05 min`. */
export function formatDuration(seconds: number): string {
  if (!Number.isFinite(seconds)) return "unknown";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/**
 * Reads a size as people write it: `5GB`, `512 MiB`, `1.5g`, `1000000`.
 * @returns whole bytes, or `undefined` if it is not a size or not positive.
 */
export function parseBytes(text: string): number | undefined {
  const match = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])(?:(i)?b)?|b?)\s*$/i.exec(text);
  if (!match) return undefined;
  const [, number, prefix = "", binary] = match;
  const bytes = Math.round(Number(number) * (binary ? 1024 : 1000) ** " kmgt".indexOf(prefix.toLowerCase()));
  return Number.isSafeInteger(bytes) && bytes > 0 ? bytes : undefined;
}

/** `a, b, c and 12 more` */
export function formatSome(items: readonly string[], most = 3): string {
  const shown = items.slice(0, most).join(", ");
  return items.length > most ? `${shown} and ${items.length - most} more` : shown;
}

/** A text for messages: at most 80 characters, on one line. */
export function shorten(text: string): string {
  const line = text.slice(0, 400).replace(/\s+/g, " ");
  return line.length > 80 || text.length > 400 ? `${line.slice(0, 77)}...` : line;
}

/**
 * A number with fixed decimals. Equal means that were summed in different orders differ in their last bits and, halfway
 * between two decimals (31.25), would print differently; so those bits are rounded off first. Zero has no sign.
 */
export function formatFixed(value: number, decimals: number): string {
  return Number(value.toPrecision(12))
    .toFixed(decimals)
    .replace(/^-(0(?:\.0*)?)$/, "$1");
}

/** A share in percent: `31.3`. */
export function formatShare(share: number): string {
  return formatFixed(100 * share, 1);
}

/** `31.3%` */
export function formatPercent(share: number): string {
  return `${formatShare(share)}%`;
}

/** Layer numbers as ranges: `0-4, 30-31`. */
export function formatRanges(layers: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const layer of layers) {
    const last = ranges.at(-1);
    if (last && last[1] === layer - 1) last[1] = layer;
    else ranges.push([layer, layer]);
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(", ");
}

/** Letters of scripts that are written from right to left, such as Hebrew and Arabic, with their marks. */
const RIGHT_TO_LEFT = "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefc\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}";
const RUN = `([${RIGHT_TO_LEFT}]+(?:[\\s_'-]+[${RIGHT_TO_LEFT}]+)*)`;

/** The parts of a text, of which every second one is written from right to left. */
export const directionsOf = (text: string): string[] => text.split(new RegExp(RUN, "u"));

/**
 * A text in which parts from right to left have isolates around them (U+2068 and U+2069), so that numbers and signs beside them
 * stay where they are: for text that has no elements, as that of SVG.
 */
export const isolated = (text: string): string => text.replace(new RegExp(RUN, "gu"), "\u2068$1\u2069");
