// What the page and the server say about evaluations: tasks, results in the folder `evaluations`, and comparisons of two.
import { z } from "zod";

const count = z.int().min(0);
/** Items of which the page asks for the texts at once. */
const MAX_ITEMS = 50;

/** The fields of a job, whose names those of earlier versions were not; texts and questions are those of `generate` and `eval` now. */
export function ofEarlierJob(job: unknown): unknown {
  const { runner, prompt, task, ...fields } = Object(job);
  if (runner === undefined && prompt === undefined && task === undefined) return job;
  const { backend, type } = Object(runner);
  const { text, system } = Object(prompt);
  const named = { backend, type, system, prompts: prompt && [text], tasks: task && [task] };
  // They had null for what was not given.
  return Object.fromEntries(Object.entries({ ...fields, ...named }).filter(([, value]) => (value ?? null) !== null));
}

/** The folder of an evaluation within `evaluations`, or a name of the result of an experiment. */
export const evaluationName = z.string().regex(/^[\p{L}\p{N}][\p{L}\p{N} _.-]{0,199}$/u, "is not the name of a result");
const taskName = z.string().min(1).max(200);
// A task may make its ids of long texts.
const itemId = z.string();

/** What evaluations can be made of. */
const choices = z.strictObject({
  /** Task files of the project, and of the folders that it and its models are in: these begin with `..`. */
  files: z.array(z.strictObject({ file: z.string(), title: z.string(), problem: z.string().nullable() })),
  families: z.array(z.strictObject({ name: z.string(), summary: z.string(), tasks: z.array(z.string()) })),
});
export type Choices = z.infer<typeof choices>;

/** A score as reports print it, and its place on an axis; null where it has none. */
export const score = z.strictObject({
  score: z.string(),
  /** 95% interval over items. */
  interval: z.string(),
  value: z.number().nullable(),
  low: z.number().nullable(),
  high: z.number().nullable(),
});
export type Score = z.infer<typeof score>;

export const evaluation = z.strictObject({
  name: evaluationName,
  /** The model, as the evaluation was given it. */
  source: z.string(),
  /** What ran the model. */
  runner: z.string(),
  /** Milliseconds since 1970. */
  ended: z.number(),
  /** Whether the source has changed since: a recipe that was edited, or other weights. */
  isEarlier: z.boolean(),
  /** The recipe as it was then; null for other models, and for results of earlier versions of the studio. */
  recipe: z.string().nullable(),
  /** Which of the scored texts of its recipe that is, from 1 for the first. */
  version: count.nullable(),
  /** Of a step of an experiment: its plan, by its path in the project, and how its report calls the model. */
  experiment: z
    .strictObject({ plan: z.string(), entry: z.string(), configuration: z.string(), kind: z.string() })
    .nullable(),
  limit: count.nullable(),
  tasks: z.array(
    z.strictObject({
      task: z.string(),
      title: z.string(),
      protocol: z.string(),
      /** Equal where the same was asked. */
      prompts: z.string(),
      items: count,
      metric: z.string(),
      /** `%`, or nothing for points. */
      unit: z.string(),
      /** From 0 to 1. */
      ...score.shape,
    }),
  ),
});
export type Evaluation = z.infer<typeof evaluation>;
type TaskScore = Evaluation["tasks"][number];

/** Whether two scores are of the same questions, by the same metric. */
export const askSame = (a: TaskScore, b: TaskScore) =>
  a.task === b.task && a.protocol === b.protocol && a.prompts === b.prompts && a.metric === b.metric;

const comparison = z.strictObject({
  tasks: z.array(
    z.strictObject({
      task: z.string(),
      title: z.string(),
      protocol: z.string(),
      comparisons: z.array(
        z.strictObject({
          metric: z.string(),
          title: z.string(),
          /** What was found, in sentences. */
          verdict: z.string(),
          /** Whether items are right or wrong, so that they can be gained and lost. */
          hasFlips: z.boolean(),
          gained: z.array(itemId),
          lost: z.array(itemId),
        }),
      ),
      /** All items of both, in their order. */
      ids: z.array(itemId),
    }),
  ),
  skipped: z.array(z.strictObject({ task: z.string(), reason: z.string() })),
});
export type ResultComparison = z.infer<typeof comparison>;

/** An item with the answers of models. */
const comparedItem = z.strictObject({
  id: itemId,
  prompt: z.string(),
  /** What other items begin with, too, such as solved examples; may be empty. */
  beginning: z.string(),
  gold: z.string(),
  answers: z.array(
    z.strictObject({
      text: z.string(),
      /** Why there is no answer. */
      fault: z.string().nullable(),
      /** What it is worth, from 0 to 1; null where it has no such number. */
      value: z.number().nullable(),
    }),
  ),
});
export type ComparedItem = z.infer<typeof comparedItem>;

/** What each item is worth by each model. */
const matrix = z.strictObject({
  metric: z.string(),
  items: z.array(
    z.strictObject({
      id: itemId,
      group: z.string().nullable(),
      /** From 0 to 1, in the order of the models; null where it has no such number. */
      values: z.array(z.number().nullable()),
    }),
  ),
});
export type Matrix = z.infer<typeof matrix>;

const names = z.array(evaluationName).min(1).max(12);
const pair = { first: evaluationName, second: evaluationName };
export const evaluationOperations = {
  "evaluation.choices": { input: z.strictObject({}), output: choices },
  /** Finished evaluations, the latest first, then those of experiments. */
  "evaluation.list": { input: z.strictObject({}), output: z.array(evaluation) },
  /** As `layergraft compare`; the names are those in its sentences. */
  "evaluation.compare": {
    input: z.strictObject({ ...pair, names: z.tuple([z.string().max(200), z.string().max(200)]) }),
    output: comparison,
  },
  /**
   * What the result of a recipe shows against everything else in the project that was asked the same. `alternative`: the result
   * of the best of that; null if there is none. Null of another model, and if the recipe has changed since.
   */
  "evaluation.finding": {
    input: z.strictObject({ result: evaluationName, task: taskName }),
    output: z.strictObject({ text: z.string(), alternative: z.string().nullable() }).nullable(),
  },
  /** Writes a page on which people choose between the answers of two. `url`: where the server shows it. */
  "evaluation.rate": {
    input: z.strictObject(pair),
    output: z.strictObject({ file: z.string(), url: z.string(), pairs: count }),
  },
  /** What people chose there, in sentences; the names are those in them. */
  "evaluation.tally": {
    input: z.strictObject({ ...pair, names: z.tuple([z.string().max(200), z.string().max(200)]), saved: z.json() }),
    output: z.strictObject({ sentences: z.array(z.string()) }),
  },
  /** All items of models that were asked the same, by the main metric. */
  "evaluation.matrix": { input: z.strictObject({ names, task: taskName }), output: matrix },
  "evaluation.items": {
    input: z.strictObject({
      names,
      task: taskName,
      metric: z.string().max(200),
      ids: z.array(itemId).max(MAX_ITEMS),
    }),
    output: z.array(comparedItem),
  },
} as const;
