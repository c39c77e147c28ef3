import { useEffect, useState } from "preact/hooks";
import { z } from "zod";
import { type Job, jobInputs } from "../../protocol/index.js";
import { call } from "../client.js";
import { Notice, ownClass } from "../components/basics.js";
import { Different } from "../components/different.js";
import { Own } from "../components/grid.js";
import { JobOutcome } from "../recipe/outcome.js";
import { type Choice, isStale, models, onEvent, project, useAnswer } from "../store.js";

const answer = z.object({ text: z.string(), finish: z.string(), tokens: z.number() });
const answers = z.record(z.string(), z.union([answer, z.object({ problem: z.string() })]));

const FINISHES: Readonly<Record<string, string>> = { length: "cut at the limit", end: "", stop: "" };

/** The answers of a job: as they come, and what differs from the first when all are there. */
export function AnswersOf({ job, choices }: { job: Job; choices: readonly Choice[] }) {
  const { data: input } = jobInputs.answer.safeParse(job.input);
  const [streamed, setStreamed] = useState<Readonly<Record<string, string>>>({});
  useEffect(
    () =>
      onEvent((event) => {
        if (event.type !== "text" || event.job !== job.id) return;
        setStreamed((texts) => ({ ...texts, [event.stream]: (texts[event.stream] ?? "") + event.text }));
      }),
    [job.id],
  );
  const isDone = job.state === "done";
  const done = useAnswer(
    async () => (isDone ? answers.parse(await call("job.result", { id: job.id })) : undefined),
    [job.id, isDone],
  );
  const hasChanged = useAnswer(async () => {
    const sources = Object.keys(job.fingerprints ?? {});
    return isStale(job, await call("fingerprints", { sources }));
  }, [job.id, project.value, models.value]);
  if (!input) return null;
  const resultOf = (name: string) => {
    const found = done?.[name];
    return found && "problem" in found ? { problem: found.problem } : { answer: found };
  };
  const textOf = (name: string) => (resultOf(name).answer?.text ?? streamed[name] ?? "").trimStart();
  const [first] = input.models;
  return (
    <>
      <p class="asked">
        <span class="label">Prompt</span> <bdi>{input.prompts[0]}</bdi>
      </p>
      {hasChanged && job.state !== "running" ? (
        <Notice kind="caution" text="A model or recipe was changed since these answers. Ask again to update them." />
      ) : null}
      <JobOutcome job={job} />
      <div class="answers">
        {input.models.map(({ name }, i) => {
          const { answer, problem } = resultOf(name);
          const text = textOf(name);
          return (
            <article
              key={name}
              class={`card ${ownClass(choices.find((one) => one.name === name)?.own ?? "base")}`}
              aria-label={name}
            >
              <h2>
                <Own name={name} />
              </h2>
              {problem === undefined ? null : <Notice kind="problem" text={problem} />}
              <p class="answer" dir="auto" aria-live={job.state === "running" ? "polite" : "off"}>
                {text === "" && job.state === "running" ? <span class="soft">waiting</span> : null}
                {i > 0 && first && answer ? <Different from={textOf(first.name)} to={text} /> : text}
              </p>
              {answer ? (
                <p class="soft">
                  {answer.tokens} tokens{FINISHES[answer.finish] ? `, ${FINISHES[answer.finish]}` : ""}
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
