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

/** A moment, from milliseconds since 1970: the one form of dates. */
export const timeText = (time: number) =>
  new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
