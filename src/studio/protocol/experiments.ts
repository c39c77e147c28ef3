// What the page shows of experiments. Texts are clipped and lists are cut by the server, as plans may be by strangers.
import { z } from "zod";
import { score } from "./evaluations.js";

const count = z.int().min(0);

/** A process that runs an experiment. */
const runner = z.strictObject({ pid: z.int(), host: z.string(), isStudio: z.boolean() });

/** A plan in the project, as the list shows it. */
export const planEntry = z.strictObject({
  /** Path from the project. */
  plan: z.string(),
  name: z.string(),
  /** Why it cannot be opened. */
  problem: z.string().nullable(),
  runner: runner.nullable(),
  /** Steps that are known, and those that are done; null if it was never run. */
  steps: z.strictObject({ done: count, known: count }).nullable(),
});
export type PlanEntry = z.infer<typeof planEntry>;

const scored = z.strictObject({
  ...score.shape,
  /** Smallest and largest over the row's models. */
  range: z.string().nullable(),
  isBest: z.boolean(),
});

export const experiment = z.strictObject({
  plan: z.string(),
  title: z.string(),
  folder: z.string(),
  /** Changes with what this shows. */
  version: z.string(),
  /** Of the plan's text, which a run names, so that it starts no program that the page did not show. */
  planDigest: z.string(),
  runner: runner.nullable(),
  counts: z.strictObject({ done: count, running: count, failed: count, left: count, waiting: count }),
  /** Of all steps that are done. */
  seconds: z.number(),
  secondsLeft: z.number().nullable(),
  /** Steps in parallel. */
  workers: count,
  /** Why it cannot run. */
  problems: z.array(z.string()),
  notes: z.array(z.string()),
  /** What a run starts that is not layergraft. */
  programs: z.array(z.strictObject({ when: z.string(), what: z.string() })),
  /** Columns of the grid. */
  tasks: z.array(
    z.strictObject({
      title: z.string(),
      about: z.string(),
      sentences: z.array(z.string()),
      /** Of the scores of its column, with the texts of its ticks. */
      axis: z.strictObject({ low: z.number(), high: z.number(), ticks: z.array(z.string()) }),
    }),
  ),
  /** Rows of the grid. A cell is null where the row has no such task. */
  rows: z.array(
    z.strictObject({
      label: z.string(),
      detail: z.string(),
      /** Of an expert: its position in the plan. */
      own: count.nullable(),
      kind: z.enum(["base", "expert", "average", "merge", "swap", "joint", "control"]),
      /** Recipe of the row's only model. */
      recipe: z.string().nullable(),
      cells: z.array(z.union([scored, z.literal("waits"), z.null()])),
    }),
  ),
  moreRows: count,
  /** Scores over two fields of a recipe, or over one in a single row. */
  maps: z.array(
    z.strictObject({
      title: z.string(),
      /** Name of the merge. */
      merge: z.string(),
      about: z.string(),
      /** Fields; the first is empty for a single row. */
      fields: z.tuple([z.string(), z.string()]),
      rows: z.array(z.string()),
      columns: z.array(z.string()),
      /** Null where there is no result yet. `shade`: from the lowest, 0, to the highest, 1. */
      cells: z.array(
        z.array(
          z.strictObject({ score: z.string(), about: z.string(), shade: z.number(), isBest: z.boolean() }).nullable(),
        ),
      ),
    }),
  ),
  /** What the intervals are. */
  intervals: z.string(),
  running: z.array(z.strictObject({ label: z.string(), since: z.string() })),
  failed: z.array(z.strictObject({ label: z.string(), reason: z.string() })),
  /** Path of the written report. */
  report: z.string().nullable(),
  /** Address at which the server shows it. */
  reportUrl: z.string().nullable(),
});
export type Experiment = z.infer<typeof experiment>;
