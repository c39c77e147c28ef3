// Ratings by people of the answers in two results: the page that they choose on, and the tally of what they chose. The command
// is compare's.
import { resolve } from "node:path";
import { z } from "zod";
import { type RatingTally, ratingPage, tallyRatings, tallyVerdict } from "../evaluate/index.js";
import type { Shown } from "../figures/index.js";
import { exists, readJsonObject, writeFileAtomically } from "../kit/files/index.js";
import { OutputError, usageError } from "../kit/index.js";
import { commandLine, plural, visible } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import type { Noted, Verb } from "./verb.js";

const schema = z.strictObject({
  results: z.array(z.string()).meta({ description: "folders that eval wrote" }),
  page: namedField("file", "write a page on which people choose between answers, without names").optional(),
  ratings: z
    .array(z.union([z.string(), z.record(z.string(), z.unknown())]))
    .optional()
    .meta({ description: "tally the choices that people saved on that page" }),
  names: z
    .tuple([z.string(), z.string()])
    .default(["the first", "the second"])
    .meta({ description: "what sentences call the two" }),
  seed: z.int().min(0).default(0).meta({ description: "seed of the order and the sides" }),
});

/** A page that was written, or what was chosen on one, by task. */
export interface RateResult extends Noted {
  readonly page?: { readonly file: string; readonly pairs: number; readonly equal: number };
  readonly tallies?: readonly (RatingTally & { readonly sentence: string })[];
}

export const rateVerb: Verb<typeof schema, RateResult> = {
  name: "rate",
  description:
    "Let people choose between the answers of two results without knowing whose they are, and tally what they chose.",
  schema,
  fetch: "headers",
  options: { force: "replace the page of `page` that is there" },
  async run({ results, page, ratings, names, seed }, { folder = ".", force }) {
    const at = (path: string) => (folder === "." ? path : resolve(folder, path));
    const [first, second] = results.map(at);
    if (first === undefined || second === undefined || results.length > 2)
      throw usageError(`Ratings are of two results, not of ${results.length}.`);
    if (page === undefined) {
      const saved = (ratings ?? []).map(async (one, i) =>
        typeof one === "string"
          ? ([one, await readJsonObject(at(one))] as const)
          : ([i > 0 ? `File ${i + 1}` : "The file", one] as const),
      );
      const found = await tallyRatings([first, second], Object.fromEntries(await Promise.all(saved)));
      const tallies = found.map((one) => ({ ...one, sentence: `${one.task}: ${tallyVerdict(one, names)}` }));
      return { tallies, notes: [], warnings: [] };
    }
    if (ratings) throw usageError("A page is written, or what was chosen on one is tallied, not both at once.");
    const file = at(page);
    if (!force && (await exists(file)))
      throw new OutputError(`${page} already exists`, { file: page, option: "force" });
    const { page: text, pairs, equal } = await ratingPage([first, second], seed);
    await writeFileAtomically(file, text);
    return { page: { file: page, pairs, equal }, notes: [], warnings: [] };
  },
  show({ page, tallies = [] }): Shown[] {
    const written = page
      ? [
          `Wrote ${page.file}: ${plural(page.pairs, "pair")} of answers${page.equal > 0 ? `; ${page.equal} are equal, and left out` : ""}`,
        ]
      : [];
    const tallied = tallies.flatMap(({ sentence, notes }) => [
      sentence,
      ...notes.map(({ id, note }) => `  item ${id}: ${visible(note)}`),
    ]);
    return [{ kind: "text", lines: [...written, ...tallied] }];
  },
  terminal: {
    groups: { "Ratings by people, of two results:": ["page", "ratings", "force"] },
    flags: { page: { flag: "rate" }, ratings: { value: "files..." } },
    json: ({ page, tallies = [] }) => page ?? tallies.map(({ sentence: _, ...tally }) => tally),
    closing: ({ page }, { results }) =>
      page ? [`Tally what raters save: ${commandLine`compare ${results} --ratings FILES`}`] : [],
  },
};
