import { RecipeError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";

/** sacreBLEU's version whose numbers these are; signatures carry it. */
export const SACREBLEU_VERSION = "2.6.0";

/**
 * The sum over all lines of what each contributes.
 * @throws RecipeError where the counts of lines do not match
 */
export function sumOverLines(
  hypotheses: readonly string[],
  references: readonly string[],
  statistics: (hypothesis: string, reference: string) => number[],
): number[] {
  if (hypotheses.length === 0) throw new RecipeError("there are no hypotheses to score");
  if (hypotheses.length !== references.length) {
    throw new RecipeError(
      `there must be a reference for each of the ${hypotheses.length} hypotheses, not ${plural(references.length, "reference")}`,
    );
  }
  return sumVectors(hypotheses.map((hypothesis, i) => statistics(hypothesis, references[i] ?? "")));
}

/** `nrefs:1|key:value|version:2.6.0`, as sacreBLEU prints it. */
export function formatSignature(fields: Readonly<Record<string, string | number>>): string {
  const pairs = Object.entries({ nrefs: 1, ...fields, version: SACREBLEU_VERSION });
  return pairs.map(([key, value]) => `${key}:${value}`).join("|");
}

/** How often each n-gram of one order occurs. */
export function countNgrams(tokens: readonly string[], order: number, separator: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (let at = 0; at + order <= tokens.length; at++) {
    const ngram = order === 1 ? (tokens[at] ?? "") : tokens.slice(at, at + order).join(separator);
    counts.set(ngram, (counts.get(ngram) ?? 0) + 1);
  }
  return counts;
}

/** Sums of vectors of equal length, entry by entry. */
export function sumVectors(vectors: Iterable<readonly number[]>): number[] {
  const sums: number[] = [];
  for (const vector of vectors) for (const [i, value] of vector.entries()) sums[i] = (sums[i] ?? 0) + value;
  return sums;
}

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
