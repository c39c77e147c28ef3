// The answers of several models to one prompt.
import { useEffect, useState } from "preact/hooks";
import { z } from "zod";
import { type Job, jobInputs } from "../../protocol/index.ts";
import { call } from "../client.ts";
import { Different } from "../components/different.tsx";
import { JobProgress } from "../components/progress.tsx";
import { attempt, onEvent } from "../store.ts";
import { type Choice, choiceClass } from "./choices.tsx";

const answers = z.record(z.string(), z.object({ text: z.string(), finish: z.string(), tokens: z.number() }));
type Answers = z.infer<typeof answers>;

const FINISHES: Readonly<Record<string, string>> = { length: "cut at the limit", end: "", stop: "" };

/** The answers of a job: as they come, and what differs from the first when all are there. */
export function AnswersOf({ job, choices }: { job: Job; choices: readonly Choice[] }) {
  const { data: input } = jobInputs.answer.safeParse(job.input);
  const [streamed, setStreamed] = useState<Readonly<Record<string, string>>>({});
  const [done, setDone] = useState<Answers | null>(null);
  useEffect(
    () =>
      onEvent((event) => {
        if (event.type !== "text" || event.job !== job.id) return;
        setStreamed((texts) => ({ ...texts, [event.stream]: (texts[event.stream] ?? "") + event.text }));
      }),
    [job.id],
  );
  useEffect(() => {
    if (job.state !== "done") return;
    void attempt(async () => setDone(answers.parse(await call("job.result", { id: job.id }))));
  }, [job.id, job.state]);
  if (!input) return null;
  const textOf = (name: string) => (done?.[name]?.text ?? streamed[name] ?? "").trimStart();
  const [first] = input.models;
  return (
    <>
      <p class="asked">
        <span class="label">Prompt</span> {input.prompt.text}
      </p>
      <JobProgress job={job} />
      {job.error === null ? null : <p class="notice problem">{job.error}</p>}
      <div class="answers">
        {input.models.map(({ name }, i) => {
          return (
            <article
              key={name}
              class={`card ${choiceClass(choices.find((one) => one.name === name)?.own)}`}
              aria-label={name}
            >
              <h2 class="row">
                <span class="mark" aria-hidden="true" />
                {name}
              </h2>
              <p class="answer" aria-live={job.state === "running" ? "polite" : "off"}>
                {i > 0 && first && done ? <Different from={textOf(first.name)} to={textOf(name)} /> : textOf(name)}
              </p>
              {done?.[name] ? (
                <p class="soft">
                  {done[name].tokens} tokens{FINISHES[done[name].finish] ? `, ${FINISHES[done[name].finish]}` : ""}
                </p>
              ) : null}
            </article>
          );
        })}
      </div>
      {done && input.models.length > 1 ? (
        <p class="soft">Words that {first?.name} does not have at that place are marked.</p>
      ) : null}
    </>
  );
}
