import { join } from "node:path";
import { z } from "zod";
import { isFile, readJsonObject } from "../../kit/files/index.js";
import { RecipeError } from "../../kit/index.js";
import { commandLine, formatSome } from "../../kit/printing/index.js";
import { checkSchema, formatProblem, recordOf } from "../../kit/settings/index.js";
import { keyOf } from "../backends/answer-cache.js";
import { averageRepeats, type JudgedItem } from "../scoring/scores.js";
import { fileRows } from "../tasks/task-data.js";
import { samplesFile } from "./folder.js";
import { FORMAT, type Results } from "./result-types.js";

/** JSON has no NaN; files hold null in its place. */
const number = z.union([z.number(), z.null().transform(() => Number.NaN)]);

const INTERVAL = z.object({
  low: number,
  high: number,
  level: z.number(),
  deviation: number,
  resamples: z.number().optional(),
  seed: z.number().optional(),
});

const SCORE = z.object({
  metric: z.string(),
  title: z.string(),
  scale: z.enum(["share", "points"]),
  value: number,
  standardError: number,
  interval: INTERVAL.optional(),
  items: z.number(),
  unscored: z.number(),
  signature: z.string().optional(),
  groups: recordOf(z.object({ value: number, items: z.number() })).optional(),
});

const METRIC = z.object({
  name: z.string(),
  title: z.string(),
  of: z.string(),
  by: z.enum(["mean", "group mean", "corpus"]),
  scale: z.enum(["share", "points"]),
  isAside: z.literal(true).optional(),
  signature: z.string().optional(),
});

const TASK = z.object({
  task: z.string(),
  title: z.string(),
  protocol: z.string(),
  shots: z.number(),
  answers: recordOf(z.number()).optional(),
  promptsDigest: z.string(),
  judgingDigest: z.string().optional(),
  items: z.number(),
  notes: z.array(z.string()),
  answeredBy: recordOf(z.number()),
  problems: z.object({
    refused: z.number(),
    missing: z.number(),
    tied: z.number().default(0),
    unscored: z.number(),
    cut: z.number(),
    executions: recordOf(z.number()).optional(),
  }),
  ties: z.literal("first").optional(),
  metrics: z.array(METRIC),
  scores: z.array(SCORE),
});

const RESULTS = z.object({
  format: z.literal(FORMAT),
  layergraft: z.string(),
  source: z.string(),
  backend: z.object({
    backend: z.string(),
    server: z.string().nullable(),
    model: z.string(),
    digest: z.string().nullable(),
    bos: z.enum(["tokenizer", "server"]),
    templateVariables: z.record(z.string(), z.unknown()).optional(),
    generationConfig: z.record(z.string(), z.unknown()).optional(),
  }),
  sandbox: z
    .object({
      python: z.string(),
      network: z.enum(["kernel", "python", "none"]),
      processes: z.enum(["kernel", "python", "none"]),
      files: z.enum(["kernel", "python", "none"]),
      isolation: z.enum(["kernel", "none"]).default("none"), // earlier versions had none
      memory: z.enum(["kernel", "python", "none"]),
      seconds: z.number(),
      memoryBytes: z.number(),
    })
    .nullable(),
  settings: z.object({
    limit: z.number().nullable(),
    seed: z.number(),
    resamples: z.number(),
    skipUnanswered: z.boolean().optional(),
  }),
  tasks: z.array(TASK),
});

const VERDICT = z.object({
  id: z.string(),
  group: z.string().optional(),
  repeat: z.number().optional(),
  prompt: z.unknown(),
  gold: z.string(),
  verdict: recordOf(z.union([z.number(), z.array(z.number())])).nullable(),
});

/**
 * Reads the results of an evaluation.
 * @param path its folder, or the results.json in it
 * @throws RecipeError if the file is missing or not valid, with every problem
 */
export async function readResults(path: string): Promise<Results> {
  const file = path.endsWith(".json") ? path : join(path, "results.json");
  let value: unknown;
  try {
    value = await readJsonObject(file);
  } catch (error) {
    throw RecipeError.at({ file }, `${path} has no results of an evaluation: ${(error as Error).message}`);
  }
  const { value: results, problems } = checkSchema(RESULTS, value);
  if (results) return results as Results;
  const format = (value as { format?: unknown }).format;
  if (typeof format === "number" && format > FORMAT) {
    throw RecipeError.at({ file }, `${file} was written by a newer version of layergraft; update layergraft`);
  }
  const summary = `${file} is not a valid results.json (${commandLine`eval MODEL --tasks TASK --out FOLDER`} writes one):`;
  throw new RecipeError(summary, problems.slice(0, 10).map(formatProblem), { file });
}

const SAMPLE = VERDICT.extend({
  prompt: z.union([
    z.object({ shared: z.string(), own: z.string() }),
    z.object({ shared: z.string(), messages: z.array(z.object({ role: z.string(), content: z.string() })) }),
  ]),
  output: z.union([z.string(), z.array(z.number().nullable())]).nullable(),
  fault: z.string().optional(),
  reading: recordOf(z.unknown()).nullable(),
});
/** A sample as results have it: prompt, answer and verdict. */
export type StoredSample = z.output<typeof SAMPLE>;

/** The verdict on an item, with a digest of its question. */
export interface JudgedSample extends JudgedItem {
  readonly asked: string;
}

/**
 * Reads the verdicts on the items of a task; of several answers to an item, their mean.
 * @param folder of the results
 * @throws LayergraftError if the file is missing, or a line is not a sample
 */
export async function readVerdicts(folder: string, task: string): Promise<JudgedSample[]> {
  const samples = await readRows(folder, task, VERDICT);
  return averageRepeats(samples.map(({ prompt, gold, ...judged }) => ({ ...judged, asked: keyOf(prompt, gold) })));
}

/**
 * Reads samples of a task.
 * @param ids of the samples that are wanted; default: all
 * @throws LayergraftError if the file is missing, or a line is not a sample
 */
export async function readSamples(folder: string, task: string, ids?: ReadonlySet<string>): Promise<StoredSample[]> {
  return readRows(folder, task, SAMPLE, ({ id }) => ids?.has(String(id)) ?? true);
}

async function readRows<T extends z.ZodType>(
  folder: string,
  task: string,
  schema: T,
  isWanted: (row: Readonly<Record<string, unknown>>) => boolean = () => true,
): Promise<z.output<T>[]> {
  const name = samplesFile(task);
  const file = join(folder, name);
  if (!(await isFile(file))) {
    throw RecipeError.at({ file }, `${folder} has no ${name}, the samples of ${task}, which compare needs`);
  }
  const rows = (await fileRows(file)).filter(({ row }) => isWanted(row));
  return rows.map(({ row, where }) => {
    const { value, problems } = checkSchema(schema, row);
    if (value === undefined) {
      throw RecipeError.at({ file }, `${where} is not a sample: ${formatSome(problems.map(formatProblem))}`);
    }
    return value;
  });
}
