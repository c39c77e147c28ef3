// Entry point of the studio's threads: a job, questions about experiments, or scores of versions of a recipe.
import { answerQuestions, type Controls } from "../../kit/index.js";
import { READS } from "../experiments/reader.js";
import { scoreVersion } from "../jobs/evaluate.js";
import { type JobOrder, KINDS, type Work } from "../jobs/kinds.js";
import { MODELS } from "../models/models.js";
import type { ThreadEvent } from "./thread.js";

answerQuestions({
  ...READS,
  ...MODELS,
  score: scoreVersion,
  job({ kind, input, place }: JobOrder, { signal, onEvent }: Controls<ThreadEvent>): Promise<unknown> {
    const work = KINDS[kind] as Work<typeof kind>;
    return work(input, place, {
      signal,
      onProgress: ({ model, phase, done, total, unit, parts }) =>
        onEvent({ type: "progress", progress: { model, phase, done, total, unit, parts } }),
      onText: (stream, text) => onEvent({ type: "text", stream, text }),
    });
  },
});
