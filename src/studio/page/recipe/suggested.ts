// The latest suggestions for two experts, and their scores where they were asked for.
import { z } from "zod";
import { type Input, type Job, jobInputs, type Score, type Suggestion } from "../../protocol/index.js";
import { call } from "../client.js";
import { attempt, isStale, jobs, settings, useAnswer } from "../store.js";

export type Suggested = Pick<
  Suggestion,
  "name" | "title" | "evidence" | "reason" | "reference" | "owners" | "recipe"
> & {
  readonly score?: Score;
  /** Why it has no score. */
  readonly problem?: string;
};
const suggestions = z.array(z.custom<Suggested>());

type Scoring = Extract<Input<"job.start">, { kind: "suggest" }>["input"]["score"];
interface Named {
  readonly name: string;
  readonly source: string;
}

/** @returns the job, of models as they are; what it found, where it is done; and a function that asks again */
export function useSuggested(task: Named | undefined, language: Named | undefined) {
  const base = settings.value?.base ?? null;
  const inputOf = (job: Job) => jobInputs.suggest.safeParse(job.kind === "suggest" ? job.input : undefined).data;
  const latest = jobs.value.find((job) => {
    const asked = inputOf(job);
    return asked?.base === base && asked?.task === task?.source && asked?.language === language?.source;
  });
  const job = latest && isStale(latest) ? undefined : latest;
  const isDone = job?.state === "done";
  const found = useAnswer(
    async () => (isDone ? suggestions.parse(await call("job.result", { id: job.id })) : []),
    [job?.id, isDone],
  );
  const ask = (score?: Scoring) => {
    if (base === null || !task || !language) return Promise.resolve(undefined);
    const names = { task: task.name, language: language.name };
    const sources = { base, task: task.source, language: language.source };
    return attempt(() =>
      call("job.start", { kind: "suggest", input: { ...sources, names, ...(score ? { score } : {}) } }),
    );
  };
  return { job, isDone, found, scoredOn: job && inputOf(job)?.score, ask };
}
