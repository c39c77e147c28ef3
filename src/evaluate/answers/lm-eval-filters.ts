// Answers as lm-evaluation-harness 0.4.13 reads them (filters/extraction.py), and its exact match (api/metrics.py).
/** What a filter without a match gives. */
const INVALID = "[invalid]";
const LAST_NUMBER = /(-?[$0-9.,]{2,})|(-?[0-9]+)/g;
/** Python's string.punctuation. */
const PUNCTUATION = /[!"#$%&'()*+,\-./:;<=>?@[\\\]^_`{|}~]/g;

/** `strict-match`: the group of the first match of a pattern. */
export function strictMatch(text: string, pattern: RegExp): string {
  return pattern.exec(text)?.[1]?.trim() ?? INVALID;
}

/** `flexible-extract`: the last number, or what looks like one, such as "$.". */
export function flexibleExtract(text: string): string {
  return [...text.matchAll(LAST_NUMBER)].at(-1)?.[0].trim() ?? INVALID;
}

/** `exact_match` with `ignore_case` and `ignore_punctuation`. */
export function matchesWithoutPunctuation(answer: string, gold: string): boolean {
  const plain = (text: string) => text.toLowerCase().replace(PUNCTUATION, "");
  return plain(answer) === plain(gold);
}

/** `exact_match` of GSM8K: without commas, dollar signs, what comes before `#### `, and a point at the end. */
export function matchesAsGsm8k(answer: string, gold: string): boolean {
  const plain = (text: string) =>
    text
      .replace(/,/g, "")
      .replace(/\$/g, "")
      .replace(/.*#### /gs, "")
      .replace(/\.(?=\n?$(?![\s\S]))/g, "")
      .toLowerCase();
  return plain(answer) === plain(gold);
}
