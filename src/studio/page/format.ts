/** A share of 1 with the digits that the command line prints: `3.4%`, `42.0%`; `<0.1%` where that would be 0.0%. */
export function percentText(share: number | null): string {
  if (share === null || Number.isNaN(share)) return "none";
  if (share > 0 && share < 0.0005) return "<0.1%";
  return `${(100 * share).toFixed(share > 0 && share < 1 ? 1 : 0)}%`;
}

/** A small quantity, such as a change: `1.25e-3`; null where there is none. */
export function sizeText(value: number | null): string {
  return value === null || Number.isNaN(value) ? "none" : value === 0 ? "0" : value.toExponential(2);
}

/** With two decimals and a true minus; null where there is none. */
export function decimalText(value: number | null, digits = 2): string {
  if (value === null || Number.isNaN(value)) return "none";
  return value
    .toFixed(digits)
    .replace(/^-(?=[0.]*$)/, "")
    .replace("-", "−");
}

const scaled = (value: number, base: number, units: readonly string[]): string => {
  let [rest, i] = [value, 0];
  while (rest >= base * 0.9995 && i < units.length - 1) [rest, i] = [rest / base, i + 1];
  return `${rest >= 99.95 || i === 0 ? Math.round(rest) : rest.toPrecision(3)}${units[i]}`;
};

/** `1.24 B` of parameters. */
export const countText = (count: number) => scaled(count, 1000, ["", " k", " M", " B", " T"]);
/** `2.47 GB`, in powers of 1000. */
export const bytesText = (bytes: number) => scaled(bytes, 1000, [" B", " kB", " MB", " GB", " TB"]);

/** From milliseconds: `0.4 s`, `2 min 5 s`. */
export function durationText(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  return whole < 3600
    ? `${Math.floor(whole / 60)} min ${whole % 60} s`
    : `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** A moment, from milliseconds since 1970: the one form of dates. */
export const timeText = (time: number) =>
  new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
