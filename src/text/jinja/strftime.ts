// Dates as Python's strftime writes them in the C locale, for templates that give the date.

const named = (options: Intl.DateTimeFormatOptions) => (date: Date) => date.toLocaleDateString("en-US", options);

const two = (value: number) => String(value).padStart(2, "0");

/** Day of the year, from 1. Counted in UTC, where every day has the same length. */
function dayOfYear(date: Date): number {
  const midnight = Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return 1 + Math.round((midnight - Date.UTC(date.getFullYear(), 0, 1)) / 86_400_000);
}

const DIRECTIVES: Readonly<Record<string, (date: Date) => string>> = {
  a: named({ weekday: "short" }),
  A: named({ weekday: "long" }),
  b: named({ month: "short" }),
  B: named({ month: "long" }),
  d: (date) => two(date.getDate()),
  e: (date) => String(date.getDate()).padStart(2),
  F: (date) => formatTime(date, "%Y-%m-%d"),
  H: (date) => two(date.getHours()),
  I: (date) => two(date.getHours() % 12 || 12),
  j: (date) => String(dayOfYear(date)).padStart(3, "0"),
  m: (date) => two(date.getMonth() + 1),
  M: (date) => two(date.getMinutes()),
  p: (date) => (date.getHours() < 12 ? "AM" : "PM"),
  S: (date) => two(date.getSeconds()),
  T: (date) => formatTime(date, "%H:%M:%S"),
  y: (date) => two(date.getFullYear() % 100),
  Y: (date) => String(date.getFullYear()),
  "%": () => "%",
};

/** A date in local time. `%-d` is `%d` without padding; unknown directives stay as they are. */
export function formatTime(date: Date, format: string): string {
  return format.replace(/%(-?)([a-zA-Z%])/g, (whole, bare: string, name: string) => {
    const text = DIRECTIVES[name]?.(date) ?? whole;
    return bare ? text.replace(/^[0 ]+(?=\d)/, "") : text;
  });
}

/**
 * What a clock on the wall shows, without the zone: read by `new Date` in another zone, it shows the same, so templates write the
 * same date again.
 */
export const wallClock = (date: Date): string => formatTime(date, "%FT%T");
