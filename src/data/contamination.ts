// Finds training examples that share a long passage with evaluation sets. A passage is 13 words, as in GPT-3's
// decontamination (Brown et al., arXiv 2005.14165, appendix C), or 26 characters of scripts without spaces.

import { isAbsolute, join } from "node:path";
import { z } from "zod";
import { own } from "../core/index.js";
import type { Example } from "./example.js";
import { HashTable } from "./hash-table.js";
import { DataError } from "./read/data-error.js";
import { formatOfName, localFiles, readRows } from "./read/index.js";

export const contaminationSchema = z.strictObject({
  files: z.array(z.string().min(1)).min(1).describe("evaluation files, folders or patterns; any format, else lines"),
  columns: z.array(z.string()).optional().describe("columns to compare with; default: all texts in a row"),
  words: z
    .int()
    .min(4)
    .default(13)
    .describe("consecutive words that make a passage; a Chinese, Japanese or Thai character counts as half a word"),
  shortest: z
    .int()
    .min(4)
    .default(8)
    .describe("evaluation texts shorter than a passage are searched for whole, down to this many words"),
});

export type ContaminationDeclaration = z.output<typeof contaminationSchema>;

/** More evaluation files than this are not told apart in counts. */
const MAX_FILES = 65_000;

/** A word weighs 2 and a character of a script without spaces 1, so that n words are 2n characters. */
const WORD_WEIGHT = 2;

/** Chinese, Japanese, Thai, Lao, Khmer, Burmese: written without spaces between words. */
const WITHOUT_SPACES =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/**
 * Words, and single characters of scripts without spaces, of a text in the form in which passages are compared: NFKC,
 * lower case, letters, marks and digits only.
 */
export function unitsOf(text: string): { readonly text: string; readonly weight: number }[] {
  const words =
    text
      .normalize("NFKC")
      .toLowerCase()
      .match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  return words.flatMap((word) => {
    if (!WITHOUT_SPACES.test(word)) return [{ text: word, weight: WORD_WEIGHT }];
    // Latin letters and digits within such a word stay together.
    const parts = word.match(/[^\p{Script=Latin}\p{N}]|[\p{Script=Latin}\p{N}]+/gu) ?? [];
    return parts.map((part) => ({ text: part, weight: WITHOUT_SPACES.test(part) ? 1 : WORD_WEIGHT }));
  });
}

/** Passages of evaluation sets, as hashes. */
export class ContaminationIndex {
  readonly #passages = new HashTable();
  readonly #files: string[] = [];
  readonly #weight: number;
  readonly #shortest: number;
  /** Numbers of units of evaluation texts that are shorter than a passage. */
  readonly #shortCounts = new Set<number>();

  /** @param words, shortest as in the declaration */
  constructor({ words, shortest }: Pick<ContaminationDeclaration, "words" | "shortest">) {
    this.#weight = words * WORD_WEIGHT;
    this.#shortest = shortest * WORD_WEIGHT;
  }

  /** Passages known. */
  get size(): number {
    return this.#passages.size;
  }

  /** Takes up the texts of an evaluation file. */
  add(file: string, texts: Iterable<string>): void {
    let index = this.#files.indexOf(file);
    if (index < 0) index = Math.min(this.#files.push(file) - 1, MAX_FILES);
    for (const text of texts) {
      const units = hashesOf(text);
      const total = units.weight.reduce((sum, weight) => sum + weight, 0);
      if (total < this.#shortest) continue;
      const isShort = total < this.#weight;
      if (isShort) this.#shortCounts.add(units.weight.length);
      const take = (high: number, low: number, count: number, isPassage: boolean) => {
        if (isPassage || (isShort && count === units.weight.length)) this.#passages.add(high, low, index);
        return false;
      };
      scan(units, this.#weight, take);
    }
  }

  /** The evaluation file that a text shares a passage with, or undefined. */
  find(text: string): string | undefined {
    let found: number | undefined;
    scan(hashesOf(text), this.#weight, (high, low, count, isPassage) => {
      if (isPassage || this.#shortCounts.has(count)) found = this.#passages.get(high, low);
      return found !== undefined;
    });
    return found === undefined ? undefined : this.#files[found];
  }

  /** The evaluation file that a message of an example shares a passage with, or undefined. */
  findIn({ messages }: Example): string | undefined {
    for (const { content } of messages) {
      const file = this.find(content);
      if (file !== undefined) return file;
    }
    return undefined;
  }
}

/** Hashes of a text's units, in two halves. */
interface UnitHashes {
  readonly high: Int32Array;
  readonly low: Int32Array;
  readonly weight: Uint8Array;
}

function hashesOf(text: string): UnitHashes {
  const units = unitsOf(text);
  const [high, low] = [new Int32Array(units.length), new Int32Array(units.length)];
  for (const [i, unit] of units.entries()) {
    let [a, b] = START;
    for (let at = 0; at < unit.text.length; at++) {
      const code = unit.text.charCodeAt(at);
      b = step(b, Math.imul(code ^ a, 0xcc9e2d51));
      a = step(a, Math.imul(code ^ b, 0x1b873593));
    }
    high[i] = a;
    low[i] = b;
  }
  return { high, low, weight: Uint8Array.from(units, ({ weight }) => weight) };
}

/** Digits of pi: any start does. */
const START: readonly [number, number] = [0x243f6a88, 0x85a308d3 | 0];

/**
 * Visits all rows of units, from each unit on until they weigh enough, with their hashes.
 * @param visit is called with the halves of a hash, the number of units, and whether they weigh enough; ends the scan by
 *   returning true
 */
function scan(
  { high, low, weight }: UnitHashes,
  enough: number,
  visit: (high: number, low: number, count: number, isPassage: boolean) => boolean,
): void {
  for (let start = 0; start < weight.length; start++) {
    let [a, b] = START;
    let sum = 0;
    for (let end = start; end < weight.length && sum < enough; end++) {
      b = step(b, Math.imul((low[end] ?? 0) ^ a, 0xcc9e2d51));
      a = step(a, Math.imul((high[end] ?? 0) ^ b, 0x1b873593));
      sum += weight[end] ?? 0;
      if (visit(a >>> 0, b >>> 0, end - start + 1, sum >= enough)) return;
    }
  }
}

/** Mixes a word into a lane: murmur3's step (Appleby, public domain). */
function step(lane: number, value: number): number {
  const mixed = lane ^ ((value << 15) | (value >>> 17));
  return (Math.imul((mixed << 13) | (mixed >>> 19), 5) + 0xe6546b64) | 0;
}

/**
 * Reads evaluation files into an index.
 * @throws {DataError} if a file does not exist or cannot be read
 */
export async function readEvaluationFiles(
  declaration: ContaminationDeclaration,
  options: { readonly folder?: string | undefined; readonly signal?: AbortSignal | undefined } = {},
): Promise<ContaminationIndex> {
  const index = new ContaminationIndex(declaration);
  const { folder, signal } = options;
  for (const given of declaration.files) {
    const path = folder === undefined || isAbsolute(given) ? given : join(folder, given);
    const files = await localFiles(path);
    if (!files)
      throw new DataError(`${path} does not exist; contamination is looked for in local files`, { file: path });
    for (const file of files) {
      const { columns } = declaration;
      // Sets are published headerless, too (MGSM); what a header says is compared like any text, and harms nothing.
      const options = { format: formatOfName(file) ?? "text", header: columns !== undefined, allowShort: true, signal };
      for await (const { rows } of readRows([file], options)) {
        if (columns && !columns.some((column) => rows.some((row) => Object.hasOwn(row, column)))) {
          throw new DataError(
            `${file} has no column ${columns.join(" or ")}; it has ${Object.keys(rows[0] ?? {}).join(", ")}`,
            { file },
          );
        }
        index.add(
          file,
          rows.flatMap((row) => textsOf(columns ? columns.map((column) => own(row, column)) : row)),
        );
      }
    }
  }
  if (index.size > 0) return index;
  throw new DataError(`no text in ${declaration.files.join(", ")} is long enough to look for`, {
    ...(declaration.files[0] === undefined ? {} : { file: declaration.files[0] }),
  });
}

/** All texts in a value. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}
