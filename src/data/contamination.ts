// A passage is 13 words, as for GPT-3 (arXiv 2005.14165, appendix C), or 26 characters of scripts without spaces.
import { isAbsolute, join } from "node:path";
import { z } from "zod";
import { formatOfName, localFiles, readRows } from "./read/index.js";
import { DataError } from "./read/row.js";

export const contaminationSchema = z.strictObject({
  files: z.array(z.string().min(1)).min(1).describe("evaluation files, folders or patterns; any format, else lines"),
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

/** A word has weight 2, a character of a script without spaces weight 1. */
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

export class ContaminationIndex {
  /** The file of each passage: its units, joined by spaces. */
  readonly #files = new Map<string, string>();
  readonly #weight: number;
  readonly #shortest: number;
  /** Numbers of units of evaluation texts that are shorter than a passage. */
  readonly #shortCounts = new Set<number>();

  /** @param words, shortest as in the declaration */
  constructor({ words, shortest }: Pick<ContaminationDeclaration, "words" | "shortest">) {
    this.#weight = words * WORD_WEIGHT;
    this.#shortest = shortest * WORD_WEIGHT;
  }

  get size(): number {
    return this.#files.size;
  }

  /** Adds the texts of an evaluation file. A passage of several files belongs to the first. */
  add(file: string, texts: Iterable<string>): void {
    for (const text of texts) {
      const units = unitsOf(text);
      const weight = units.reduce((sum, unit) => sum + unit.weight, 0);
      if (weight < this.#shortest) continue;
      const isShort = weight < this.#weight;
      if (isShort) this.#shortCounts.add(units.length);
      const passages = isShort ? [joined(units, 0, units.length)] : passagesOf(units, this.#weight);
      for (const passage of passages) if (!this.#files.has(passage)) this.#files.set(passage, file);
    }
  }

  /** The evaluation file that one of some texts shares a passage with, or undefined. */
  find(...texts: readonly string[]): string | undefined {
    for (const text of texts) {
      for (const passage of passagesOf(unitsOf(text), this.#weight, this.#shortCounts)) {
        const file = this.#files.get(passage);
        if (file !== undefined) return file;
      }
    }
    return undefined;
  }
}

type Unit = ReturnType<typeof unitsOf>[number];

/** From each unit on: as many units as reach the weight, after runs of the given numbers of units. */
function* passagesOf(units: readonly Unit[], weight: number, counts: Iterable<number> = []): Generator<string> {
  for (let start = 0; start < units.length; start++) {
    for (const count of counts) if (start + count <= units.length) yield joined(units, start, start + count);
    let sum = 0;
    let end = start;
    while (end < units.length && sum < weight) sum += units[end++]?.weight ?? 0;
    if (sum >= weight) yield joined(units, start, end);
  }
}

/** Units contain no spaces, so different runs of units have different texts. */
function joined(units: readonly Unit[], start: number, end: number): string {
  let text = "";
  for (let i = start; i < end; i++) text += ` ${units[i]?.text}`;
  return text;
}

/**
 * Reads evaluation files into an index.
 * @throws DataError if a file does not exist or cannot be read
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
      throw new DataError(`${path} does not exist. Contamination is checked against local files.`, { file: path });
    for (const file of files) {
      // Some sets have no header (MGSM). A header is compared like any text, which does no harm.
      const options = { format: formatOfName(file) ?? "text", header: false, allowShort: true, signal };
      for await (const { rows } of readRows([file], options)) index.add(file, rows.flatMap(textsOf));
    }
  }
  if (index.size > 0) return index;
  throw new DataError(`no text in ${declaration.files.join(", ")} is long enough for a passage; set shortest lower`, {
    ...(declaration.files[0] === undefined ? {} : { file: declaration.files[0] }),
  });
}

function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}
