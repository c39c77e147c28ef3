// The tokenizers of test/fixtures/tokenizers and what Hugging Face's programs make of texts and ids with them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { JsonTokenizer, type Tokenizer } from "../../src/text/tokenizer.js";

export const FIXTURES = join(import.meta.dirname, "../fixtures/tokenizers");

export function readFixture(name: string): Record<string, unknown> {
  return JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), "utf8")) as Record<string, unknown>;
}

/** A tokenizer.json of the fixtures; one has the model of another, which is stored once. */
export function tokenizerJson(name: string): Record<string, unknown> {
  const json = readFixture(name);
  return typeof json.model === "string" ? { ...json, model: readFixture(json.model).model } : json;
}

export interface Expectations {
  /** Ids that the post-processor puts before and after. */
  around: [number[], number[]];
  /** Ids of each text. */
  ids: number[][];
  /** What the ids of a text, by its number, decode to where that is not the text. */
  decoded: Record<string, string>;
  /** Random ids, decoded whole and without special tokens. */
  noise: [ids: number[], whole: string, bare: string][];
  size: number;
}

const { texts, ...expected } = readFixture("expected") as { texts: string[] } & Record<string, Expectations>;

export const TEXTS: readonly string[] = texts;

export const EXPECTED = expected as unknown as Readonly<Record<string, Expectations>>;

export const NAMES = Object.keys(EXPECTED);

const made = new Map<string, Tokenizer>();

/** A tokenizer of the fixtures, made once. */
export function fixture(name: string): Tokenizer {
  const tokenizer = made.get(name) ?? new JsonTokenizer(tokenizerJson(name));
  made.set(name, tokenizer);
  return tokenizer;
}
