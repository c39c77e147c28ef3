// What BLEU and chrF share: references, counts of n-grams, signatures.
import { plural, RecipeError } from "../../core/index.js";

/**
 * References of a corpus: one per hypothesis, or several streams, each of them as long as the hypotheses (as sacreBLEU
 * has them). In a stream, null stands for a line without a reference.
 */
export type References = readonly string[] | readonly (readonly (string | null | undefined)[])[];

/** sacreBLEU's version whose numbers these are; signatures carry it. */
export const SACREBLEU_VERSION = "2.6.0";

/**
 * The references of each hypothesis.
 * @throws RecipeError where the counts do not match, or a hypothesis has none
 */
export function referencesOf(hypotheses: readonly string[], references: References): string[][] {
  if (hypotheses.length === 0) throw new RecipeError("there are no hypotheses to score");
  if (references.length === 0) throw new RecipeError("there are no references to score against");
  const isOne = references.every((entry): entry is string => typeof entry === "string");
  const streams = isOne ? [references as readonly string[]] : references;
  const problems = streams.flatMap((stream, i) => {
    if (typeof stream === "string" || !Array.isArray(stream)) return [`references[${i}] is not a list of lines`];
    if (stream.length === hypotheses.length) return [];
    const name = streams.length === 1 ? "the references have" : `references[${i}] has`;
    return [`${name} ${plural(stream.length, "line")}, the hypotheses have ${hypotheses.length}`];
  });
  if (problems.length > 0) {
    throw new RecipeError("there must be one line of references for each line of hypotheses:", problems);
  }
  return hypotheses.map((_, line) => {
    const found = streams.flatMap((stream) => stream[line] ?? []);
    if (found.length === 0) throw new RecipeError(`line ${line + 1} has no reference`);
    return found;
  });
}

/** The `nrefs` of a signature. */
export function referenceCount(references: readonly (readonly string[])[]): string {
  const counts = new Set(references.map((lines) => lines.length));
  return counts.size === 1 ? String([...counts][0]) : "var";
}

/** `key:value|key:value`, sacreBLEU's version last. */
export function formatSignature(fields: Readonly<Record<string, string | number>>): string {
  const pairs = Object.entries({ ...fields, version: SACREBLEU_VERSION });
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
