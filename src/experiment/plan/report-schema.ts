// What a plan says about its report: averages, tables, comparisons and figures.
import { z } from "zod";
import { oneOf, text } from "./plan-values.js";

const names = z.union([text.transform((name) => [name]), z.array(text).min(1, "must list at least one name")], {
  error: "must be a name, or a list of names",
});

/** A list of two names. @param example field and value @param what that the names name */
export function pairOf(example: string, what: string) {
  const rule = `must be a list of two ${what}, as in ${example}`;
  return (
    z
      .array(text, rule)
      // Text has a length, too.
      .refine((pair) => pair.length === 2, { error: rule, when: ({ value }) => Array.isArray(value) })
      .meta({ minItems: 2, maxItems: 2 })
  );
}

/** As in `THRESHOLD_PRESETS` of the analysis. */
const THRESHOLDS = ["auto", "paper", "paper-fine"] as const;

export const changes = z.strictObject({
  of: names.describe("an expert, a family or a role, or several; each expert has a figure"),
  threshold: z
    .union([z.number().positive(), z.enum(THRESHOLDS)], {
      error: "must be a positive number, auto, paper or paper-fine",
    })
    .default("auto")
    .describe(
      "mean absolute change above which a row counts: a number, paper (1.9e-5), paper-fine (1e-5), or auto, which an eighth of the rows exceeds (default: auto)",
    ),
});

export const average = z.strictObject({
  name: text.describe("name of its table, and of its row in tables of tasks"),
  tasks: z
    .array(text)
    .min(1, "must list at least one task")
    .describe("tasks to average, each counting alike; `{language}` in a name stands for every language"),
});

const statistics = ["mean", "min", "max"] as const;

const tableRow = z.strictObject({
  tasks: z
    .union([text.transform((name) => [name]), z.array(text).min(1, "must list at least one task")], {
      error: "must be a task or average, or a list of them",
    })
    .describe(
      "task or average, or several; `{language}` in a name stands for each language of the table, whose models alone are in these rows",
    ),
  show: z
    .array(oneOf(statistics, "must be mean, min or max"))
    .min(1, "must list at least one of mean, min and max")
    .default(["mean"])
    .describe("a row for each: the mean over the models of a cell, the smallest or the largest"),
});

const tableColumn = z.strictObject({
  title: text.describe("heading of the column"),
  of: names.describe("base, an expert, a family, a role or a merge, or several, whose models are averaged"),
  at: oneOf(["default", "chosen"], "must be default or chosen")
    .default("default")
    .describe("configuration of a merge with a search: the default, or the one that the search chose"),
});

export const reportTable = z.strictObject({
  name: text.describe("title of the table"),
  note: text.optional().describe("note below the title"),
  languages: z
    .array(text)
    .min(1, "must list at least one language")
    .optional()
    .describe("codes of the languages in the order of the table; models of others are left out (default: the plan's)"),
  rows: z
    .array(
      z.union([text.transform((name) => tableRow.parse({ tasks: name })), tableRow], {
        error: "must be a task, or { tasks, show }",
      }),
    )
    .min(1, "must list at least one row")
    .describe("rows of the table, in order"),
  columns: z.array(tableColumn).min(1, "must list at least one column").describe("columns of the table, in order"),
});
