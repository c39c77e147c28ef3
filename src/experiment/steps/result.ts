// What a step leaves: its result, checked when it is read, so that nothing else counts as one. Which steps there are, and
// where, is run/store.ts's.

import { readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { isSystemError, LayergraftError, writeFileAtomically } from "../../core/index.js";
import type { StepKind } from "./step.js";

/** In a step's folder; there only when the step is done. */
const RESULT_FILE = "result.json";

const item = z.object({
  index: z.int().min(0),
  id: z.string(),
  value: z.union([z.number(), z.array(z.number())]).nullable(),
});

/** Duration of the step; absent from results of earlier versions. */
const seconds = z.number().optional();

const resultSchema = z.discriminatedUnion("kind", [
  z.object({
    kind: z.literal("train"),
    seconds,
    checkpoints: z.array(z.object({ path: z.string(), samples: z.number(), isAdapter: z.boolean().optional() })).min(1),
  }),
  z.object({
    kind: z.literal("analyze"),
    seconds,
    suggested: z.array(z.object({ name: z.string(), reason: z.string(), recipe: z.record(z.string(), z.unknown()) })),
  }),
  z.object({
    kind: z.literal("evaluate"),
    seconds,
    items: z
      .array(item)
      .min(1, "there are no items")
      .refine((items) => new Set(items.map(({ index }) => index)).size === items.length, "an item is there twice"),
    /** From 0 to 1, of the items that could be scored. */
    score: z.number(),
    /** Items without a value, as the model refused them or its answer could not be judged; the score leaves them out. */
    unscored: z.int().min(0).optional(),
    /** Seconds until the model could answer: opening it and computing what a merge blends. */
    openSeconds: z.number().optional(),
    /** Of which computing what a merge blends. */
    mergeSeconds: z.number().optional(),
    answerSeconds: z.number().optional(),
  }),
]);

/** What a step leaves. */
export type StepResult = z.output<typeof resultSchema>;
export type EvaluationResult = Extract<StepResult, { kind: "evaluate" }>;

/**
 * The result in a step's folder, if it is done.
 * @throws {LayergraftError} code `result` if the file is not what a step of this kind leaves
 */
export async function readResult(folder: string, kind: StepKind): Promise<StepResult | undefined> {
  const path = join(folder, RESULT_FILE);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return undefined;
    throw error;
  }
  const refuse = (why: string, cause?: unknown) =>
    new LayergraftError(
      "result",
      `${path} is not a valid step result (${why}). Delete its folder to run the step again.`,
      { file: path },
      cause,
    );
  let result: StepResult;
  try {
    result = resultSchema.parse(JSON.parse(text));
  } catch (error) {
    const [issue] = error instanceof z.ZodError ? error.issues : [];
    throw refuse(issue ? `${issue.path.join(".") || "value"}: ${issue.message}` : "not valid JSON", error);
  }
  if (result.kind !== kind) throw refuse(`its kind is ${result.kind}; expected ${kind}`);
  return result;
}

/** Writes a step's result; from then on the step is done. */
export async function writeResult(folder: string, result: StepResult): Promise<void> {
  await writeFileAtomically(join(folder, RESULT_FILE), `${JSON.stringify(result)}\n`);
}

/** Puts a damaged result aside, so that the step runs again without anybody's help. @returns where a person finds it */
export async function setResultAside(folder: string): Promise<string> {
  const aside = join(folder, `${RESULT_FILE}.damaged`);
  await rename(join(folder, RESULT_FILE), aside);
  return aside;
}
