// What BLEU and chrF share: references, counts of n-grams, signatures.
import { plural, RecipeError } from "../../core/index.js";

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
