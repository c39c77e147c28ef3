import { resolve } from "node:path";
import { z } from "zod";
import { compareFinding } from "../evaluate/findings/index.js";
import {
  compareResults,
  comparisonNotes,
  comparisonTable,
  type MethodComparison,
  type ResultsComparison,
} from "../evaluate/index.js";
import { findingText, type Shown } from "../figures/index.js";
import { exists } from "../kit/files/index.js";
import { formatSome, wrapped } from "../kit/printing/index.js";
import type { CompareInput } from "./inputs.js";
import { callVerb, type Noted, type Verb, type VerbOptions } from "./verb.js";

const SHARE = "must be a number from 0 to 1";

export const compareSchema = z.strictObject({
  results: z
    .array(z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]))
    .min(2, "must list two or more")
    .meta({
      description:
        "folders that eval or lm_eval wrote; each is compared with the first. Join runs of one method with commas",
    }),
  discordance: z
    .number(SHARE)
    .min(0, SHARE)
    .max(1, SHARE)
    .optional()
    .meta({ description: "share of items expected to flip", unset: "the share that flipped" }),
  flips: z.boolean().optional().meta({ description: "list the items that only one of them got right" }),
  seed: z.int().min(0).default(0).meta({ description: "bootstrap seed" }),
  resamples: z
    .int()
    .min(1, "must be at least 1")
    .optional()
    .meta({ description: "bootstrap resamples", unset: "1000" }),
});

/** Result of `compare`. */
export interface CompareResult extends ResultsComparison, Noted {}

export const compareVerb: Verb<typeof compareSchema, CompareResult> = {
  name: "compare",
  description:
    "Compare evaluations on the items they share: the difference from the first one, its 95% interval, the items that " +
    "flipped, an exact test, and the smallest difference that these items can show. Reads results of layergraft " +
    "and lm-evaluation-harness. Items are compared only if documents and prompts are the same.",
  schema: compareSchema,
  fetch: "headers",
  options: {},
  async run({ results, seed, resamples, discordance }, { folder }) {
    const found = await Promise.all(results.map((one) => runsOf(one, folder)));
    const comparison = await compareResults({ results: found, seed, resamples, discordance });
    return { ...comparison, notes: comparisonNotes(comparison), warnings: [] };
  },
  show(comparison, { flips: areListed }) {
    const { methods } = comparison;
    const labels = methods.length > 2 ? methods.map((_, i) => String(i + 1)) : ["first ", "second"];
    return [
      { kind: "text", lines: methods.map(({ name }, i) => `${labels[i]}  ${name}`) },
      { ...comparisonTable(comparison), kind: "table", what: "task", id: "", title: "", note: "" },
      ...textOf(verdicts(comparison)),
      ...(areListed ? textOf(flipsOf(comparison)) : []),
    ];
  },
  terminal: {
    positional: ["results"],
    groups: {
      Comparison: ["discordance"],
      "Ratings by people, of two results:": ["rate"],
      Output: ["flips", "format", "seed", "resamples"],
    },
    flags: { results: { value: "results..." }, discordance: { value: "share" } },
    json: ({ notes: _notes, warnings: _warnings, ...comparison }) => comparison,
  },
};

const textOf = (lines: readonly string[]): Shown[] => (lines.length > 0 ? [{ kind: "text", lines }] : []);

/** The results of a method: a path, or several runs, which may be joined with commas. */
async function runsOf(given: string | readonly string[], folder = "."): Promise<string | string[]> {
  const at = (path: string) => (folder === "." ? path : resolve(folder, path));
  if (typeof given !== "string") return given.map(at);
  const isSeveral = given.includes(",") && !(await exists(at(given)));
  return isSeveral ? given.split(",").map((path) => at(path.trim())) : at(given);
}

/** What was found on each task, by its main metric, where there are two results. */
function verdicts({ tasks, methods }: ResultsComparison): string[] {
  if (methods.length > 2) return [];
  return tasks.flatMap(({ title, comparisons }) =>
    comparisons
      .slice(0, 1)
      .flatMap((one) => wrapped(`${title}: ${findingText(compareFinding(one, ["the first", "the second"]))}`)),
  );
}

function flipsOf({ tasks, methods }: ResultsComparison): string[] {
  const flipped = ({ gained, lost }: MethodComparison) => gained.length + lost.length > 0;
  return tasks.flatMap(({ task, comparisons }) =>
    comparisons
      .filter(flipped)
      .flatMap(({ title, gained, lost, method }) => [
        `${task}, ${title}${methods.length > 2 ? `, result ${method + 1}` : ""}`,
        `  gained: ${formatSome(gained, gained.length)}`,
        `  lost:   ${formatSome(lost, lost.length)}`,
      ]),
  );
}

/**
 * Compares evaluations on the items that all of them have.
 * @throws RecipeError if the input is not valid, with every problem; if there are no results at a path, they are of different
 *   programs, or no task was asked in the same way in all
 */
export function compare(input: CompareInput, options: VerbOptions = {}): Promise<CompareResult> {
  return callVerb(compareVerb, input, options);
}
