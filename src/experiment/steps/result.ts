import { rename } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { isFile, readJsonObject, writeFileAtomically } from "../../kit/files/index.js";
import { LayergraftError } from "../../kit/index.js";
import type { StepKind } from "./step.js";

/** In a step's folder; it exists only if the step is done. */
const RESULT_FILE = "result.json";
/** Beside it: what a verb found, as its command's --json prints it. */
export const VALUE = "value.json";

const item = z.object({
  /** In the task's order, from 0. */
  index: z.int().min(0),
  id: z.string(),
  /** From 0 to 1, or what a corpus score is summed from; null if the answer could not be judged. */
  value: z.union([z.number(), z.array(z.number())]).nullable(),
  /** Whether several choices were the likeliest. */
  tied: z.literal(true).optional(),
});

const checkpoint = z.object({
  /** In the step's folder. */
  path: z.string().refine((path) => !path.split(/[\\/]/).includes(".."), "leads out of the step's folder"),
  samples: z.number(),
  /** Whether it is an adapter to the base. */
  isAdapter: z.boolean().optional(),
});

const suggestion = z.object({
  name: z.string(),
  reason: z.string(),
  /** Its sources are named base, task and language. */
  recipe: z.record(z.string(), z.unknown()),
});

export type ItemResult = z.output<typeof item>;
export type TrainedCheckpoint = z.output<typeof checkpoint>;
export type SuggestedRecipe = z.output<typeof suggestion>;

/** What two experts both changed, at the automatic threshold. */
const overlap = z.object({
  columns: z.array(z.string()),
  /** By layer from 0 and column, from 0 to 1; null where neither expert changed a row, or there is no such matrix. */
  cells: z.array(z.array(z.number().nullable())),
  total: z.number().nullable(),
  /** Share of the rows that each expert changed. */
  shares: z.array(z.number()),
});

/** Share of the rows that an expert changed by more than a threshold. */
const changed = z.object({
  threshold: z.number(),
  columns: z.array(z.string()),
  /** By layer from 0 and column, from 0 to 1; null where there is no such matrix. */
  cells: z.array(z.array(z.number().nullable())),
  /** Over the whole model, with embeddings and norms. */
  total: z.number(),
});

const lines = z.array(z.string());
/** Words, and tables of texts. */
const figure = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("text"), lines }),
  z.object({ kind: z.literal("entries"), entries: z.array(z.object({ name: z.string(), lines })) }),
  z.object({ kind: z.literal("table"), title: z.string(), columns: z.array(z.string()), rows: z.array(lines) }),
]);

export type Changed = z.output<typeof changed>;
export type Overlap = z.output<typeof overlap>;

/** Duration of the step; absent from results of earlier versions. */
const seconds = z.number().optional();

/** What a person should know of the step, each once; absent if there is nothing. */
const notes = z.array(z.string()).optional();

const resultSchema = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("train"),
    seconds,
    notes,
    checkpoints: z.array(checkpoint).min(1),
  }),
  z.object({
    kind: z.literal("analyze"),
    seconds,
    notes,
    suggested: z.array(suggestion),
    /** Absent from results of earlier versions. */
    overlap: overlap.optional(),
    /** Of the analysis of one expert. */
    changed: changed.optional(),
  }),
  z.object({ kind: z.literal("merge"), seconds, notes }),
  z.object({
    kind: z.literal("verb"),
    ...{ seconds, notes },
    /** What the verb wrote, in the step's folder; absent if it writes nothing. */
    out: z.string().optional(),
    /** What it shows of its result. */
    figures: z.array(figure),
  }),
  z.object({
    kind: z.literal("evaluate"),
    seconds,
    notes,
    items: z
      .array(item)
      .min(1, "has no items")
      .refine((items) => new Set(items.map(({ index }) => index)).size === items.length, "has an item twice"),
    /** First score of the scored items, from 0 to 1; a hundredth of a score in points. */
    score: z.number(),
    /** Items that the model refused, or whose answer could not be judged. The score leaves them out. */
    unscored: z.int().min(0).optional(),
    /** Means of what is measured beside the score, from 0 to 1, such as the share of answers in the asked language. */
    asides: z.array(z.object({ metric: z.string(), title: z.string(), value: z.number(), items: z.int() })).optional(),
    /** Seconds to open the model, merging included. */
    openSeconds: z.number().optional(),
    mergeSeconds: z.number().optional(),
    answerSeconds: z.number().optional(),
  }),
]);

export type StepResult = z.output<typeof resultSchema>;
export type EvaluationResult = Extract<StepResult, { kind: "evaluate" }>;

/**
 * Reads the result in a step's folder; undefined if the step is not done.
 * @throws LayergraftError code `result` if it is not a valid result of this kind
 */
export async function readResult(folder: string, kind: StepKind): Promise<StepResult | undefined> {
  const path = join(folder, RESULT_FILE);
  // A pipe or a device could be read without end.
  if (!(await isFile(path))) return undefined;
  const refuse = (why: string, cause?: unknown) =>
    new LayergraftError(
      "result",
      `${path} is not a valid step result (${why}). Delete its folder to run the step again.`,
      { file: path },
      cause,
    );
  let result: StepResult;
  try {
    result = resultSchema.parse(await readJsonObject(path));
  } catch (error) {
    const [issue] = error instanceof z.ZodError ? error.issues : [];
    throw refuse(issue ? `${issue.path.join(".")}: ${issue.message}` : (error as Error).message, error);
  }
  if (result.kind !== kind) throw refuse(`its kind is ${result.kind}; expected ${kind}`);
  return result;
}

/** Writes a step's result, which makes the step done. */
export async function writeResult(folder: string, result: StepResult): Promise<void> {
  await writeFileAtomically(join(folder, RESULT_FILE), `${JSON.stringify(result)}\n`);
}

/** Renames a damaged result, so that the step runs again. @returns its new path */
export async function setResultAside(folder: string): Promise<string> {
  const moved = join(folder, `${RESULT_FILE}.damaged`);
  await rename(join(folder, RESULT_FILE), moved);
  return moved;
}
