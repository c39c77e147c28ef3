import { z } from "zod";
import { scalarText, valueAt } from "../../kit/settings/index.js";
import type { Example } from "./example.js";
import type { Row } from "./read/row.js";

const scalar = z.union([z.string(), z.number(), z.boolean()]);
const bound = z.number();

const columnFilter = z
  .strictObject({
    column: z.string().min(1).describe("column, such as language or scores.quality"),
    equals: z
      .union([scalar, z.array(scalar).min(1)])
      .optional()
      .describe("the value, or a list of values that pass"),
    at_least: bound.optional().describe("smallest number that passes"),
    at_most: bound.optional().describe("largest number that passes"),
  })
  .refine((one) => one.equals !== undefined || one.at_least !== undefined || one.at_most !== undefined, {
    error: "must have equals, at_least or at_most",
  });

const range = {
  min: z.int().min(0).optional().describe("smallest count that passes"),
  max: z.int().min(1).optional().describe("largest count that passes"),
};

const charactersFilter = z.strictObject({
  characters: z.strictObject({
    ...range,
    of: z.enum(["all", "prompt", "response"]).default("all").describe("which messages are counted"),
  }),
});

/** A word, or its beginning, end or middle: `math*`, `*数学*`. */
const word = z
  .string()
  .regex(/^\*?[^*\s](?:[^*]*[^*\s])?\*?$/, "must be a word or words, with * for more letters at either end only");

const withoutFilter = z.strictObject({
  without: z.strictObject({
    words: z
      .array(word)
      .min(1)
      .describe("words, in any case; `math*` is every word that begins so, `*数学*` the letters anywhere"),
    of: z.enum(["all", "prompt", "response"]).default("all").describe("which messages must not have them"),
  }),
});

const tokensFilter = z.strictObject({ tokens: z.strictObject(range) });

/** One filter of a declaration. */
export const filterSchema = z.union([columnFilter, charactersFilter, tokensFilter, withoutFilter], {
  error: "must be a filter of a column, of characters, of tokens or of words (without)",
});

export type FilterDeclaration = z.output<typeof filterSchema>;

interface Named<T> {
  /** The condition, such as `laser_score >= 1.06`. */
  readonly name: string;
  readonly passes: (value: T) => boolean;
}

export interface Filters {
  readonly columns: readonly string[];
  readonly ofRows: readonly Named<Row>[];
  readonly ofExamples: readonly Named<Example>[];
  /** Of the tokens of an example, special ones included, before it is cut. */
  readonly ofTokens: readonly Named<number>[];
}

export function compileFilters(declarations: readonly FilterDeclaration[]): Filters {
  const ofRows: Named<Row>[] = [];
  const ofExamples: Named<Example>[] = [];
  const ofTokens: Named<number>[] = [];
  const columns = new Set<string>();
  for (const declaration of declarations) {
    if ("column" in declaration) {
      columns.add(declaration.column);
      ofRows.push(...columnFilters(declaration));
    } else if ("characters" in declaration) {
      const { of, ...limits } = declaration.characters;
      const name = of === "all" ? "characters" : `characters of ${of}`;
      ofExamples.push(...rangeFilters(name, limits, (example: Example) => charactersOf(example, of)));
    } else if ("without" in declaration) {
      ofExamples.push(wordsFilter(declaration.without));
    } else ofTokens.push(...rangeFilters("tokens", declaration.tokens, (count: number) => count));
  }
  return { columns: [...columns], ofRows, ofExamples, ofTokens };
}

function columnFilters({ column, equals, at_least, at_most }: z.output<typeof columnFilter>): Named<Row>[] {
  const filters: Named<Row>[] = [];
  if (equals !== undefined) {
    const allowed = new Set([equals].flat().map(String));
    const passes = (row: Row) => allowed.has(scalarText(valueAt(row, column)) ?? "");
    filters.push({ name: `${column} = ${[...allowed].join(" or ")}`, passes });
  }
  // A value that is not a number passes no bound.
  const numberIn = (row: Row) => Number(scalarText(valueAt(row, column))?.trim() || Number.NaN);
  return [...filters, ...rangeFilters(column, { min: at_least, max: at_most }, numberIn)];
}

function rangeFilters<T>(
  name: string,
  { min, max }: { readonly min?: number | undefined; readonly max?: number | undefined },
  measure: (value: T) => number,
): Named<T>[] {
  const filters: Named<T>[] = [];
  if (min !== undefined) filters.push({ name: `${name} >= ${min}`, passes: (value) => measure(value) >= min });
  if (max !== undefined) filters.push({ name: `${name} <= ${max}`, passes: (value) => measure(value) <= max });
  return filters;
}

function wordsFilter({ words, of }: z.output<typeof withoutFilter>["without"]): Named<Example> {
  const letter = "[\\p{L}\\p{M}\\p{N}]";
  const patterns = words.map((written) => {
    const begin = written.startsWith("*") ? "" : `(?<!${letter})`;
    const end = written.endsWith("*") ? "" : `(?!${letter})`;
    const text = escaped(written.replaceAll("*", "").normalize("NFC")).replace(/\s+/g, "\\s+");
    return `${begin}${text}${end}`;
  });
  const pattern = new RegExp(patterns.join("|"), "iu");
  const passes = (example: Example) =>
    !messagesOf(example, of).some(({ content }) => pattern.test(content.normalize("NFC")));
  return { name: `free of ${words.join(", ")}`, passes };
}

/** Text in a regular expression with the flag u. */
const escaped = (text: string) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

/** System messages belong to the prompt. */
function messagesOf({ messages }: Example, of: "all" | "prompt" | "response") {
  return messages.filter(({ role }) => of === "all" || (of === "response") === (role === "assistant"));
}

/** Unicode code points of messages. */
function charactersOf(example: Example, of: "all" | "prompt" | "response"): number {
  const counted = messagesOf(example, of);
  // The second half of a surrogate pair is not counted.
  return counted.reduce((sum, { content }) => sum + content.replace(/[\uDC00-\uDFFF]/g, "").length, 0);
}
