// Scores that others published, which a report compares with: PLAN.published.csv beside PLAN.yaml.
import { z } from "zod";
import { isFile } from "../../kit/files/index.js";
import { RecipeError } from "../../kit/index.js";
import { checkSchema, formatProblem } from "../../kit/settings/index.js";
import { readRows } from "../../train/data/index.js";

const number = z
  .string()
  .regex(/^-?\d+(\.\d+)?$/, "must be a number")
  .transform(Number);
const optional = z.union([z.literal("").transform(() => undefined), number]).optional();

const PUBLISHED = z.object({
  /** A task or an average of the plan. */
  task: z.string(),
  /** The label of a row in the main table of the task. */
  row: z.string(),
  /** As the report prints it: percent of shares, points of BLEU. */
  score: number,
  /** Smallest and largest over models. */
  min: optional,
  max: optional,
  /** Why it cannot be compared with the plan's own, such as other translations; empty if it can. */
  differs: z.string().optional(),
});
export type PublishedScore = z.output<typeof PUBLISHED>;

/**
 * Reads the published scores of a plan; none if there is no such file.
 * @throws RecipeError for rows that are not valid, with their lines
 */
export async function readPublished(plan: string): Promise<readonly PublishedScore[]> {
  const file = `${plan.replace(/\.ya?ml$/i, "")}.published.csv`;
  if (!(await isFile(file))) return [];
  const scores: PublishedScore[] = [];
  const found: string[] = [];
  for await (const { rows, lines } of readRows([file])) {
    for (const [i, row] of rows.entries()) {
      const { value, problems } = checkSchema(PUBLISHED, row);
      if (value) scores.push(value);
      found.push(...problems.map((problem) => `line ${lines[i]}: ${formatProblem(problem)}`));
    }
  }
  if (found.length > 0) throw new RecipeError(`${file} is not valid:`, found.slice(0, 20), { file });
  return scores;
}
