// White space and characters as in Python's str, which sacreBLEU uses. In JavaScript, \s also has U+FEFF, and lacks U+001C
// to U+001F and U+0085.

const SPACE = "[\\t-\\r\\u001c-\\u0020\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+";
const SPACES = new RegExp(SPACE, "gu");
const LEADING = new RegExp(`^${SPACE}`, "u");
const ONE_SPACE = new RegExp(`^${SPACE}$`, "u");

/** str.rstrip(). Scans from the end: a pattern anchored there takes quadratic time on long runs of spaces within. */
export function stripEnd(text: string): string {
  let end = text.length;
  while (end > 0 && ONE_SPACE.test(text[end - 1] ?? "")) end--;
  return text.slice(0, end);
}

/** str.strip(). */
export function strip(text: string): string {
  return stripEnd(text).replace(LEADING, "");
}

/** str.split(): words between white space, none of them empty. */
export function words(text: string): string[] {
  return text.split(SPACES).filter((word) => word !== "");
}
