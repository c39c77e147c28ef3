// Scores of models on a task, as `layergraft eval` gives them.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { z } from "zod";
import { type Job, jobInputs } from "../../protocol.ts";
import { call } from "../client.ts";
import { Field } from "../components/basics.tsx";
import { NumberField } from "../components/number-field.tsx";
import { JobProgress } from "../components/progress.tsx";
import { attempt, jobs } from "../store.ts";
import { chosen, known, ModelList, RunnerFields, runner, runnerText } from "./choices.tsx";
import { Results } from "./results.tsx";

const OTHER = "";
/** Null until one is chosen: until then that of the latest evaluation, or the first. */
const picked = signal<string | null>(null);
const typed = signal("");
const data = signal("");
const limit = signal<number | null>(100);

function startEvaluation(input: unknown): Promise<unknown> {
  return attempt(async () => call("job.start", { kind: "evaluate", input: jobInputs.evaluate.parse(input) }));
}

export function Evaluate() {
  const { files = [], families = [] } = known.value ?? {};
  const first = files.find(({ problem }) => problem === null)?.file ?? families[0]?.tasks[0] ?? OTHER;
  const all = jobs.value.filter(({ kind }) => kind === "evaluate");
  // Another one may have been refused while it runs.
  const latest = all.find(({ state }) => state === "running") ?? all[0];
  const { data: before } = jobInputs.evaluate.safeParse(latest?.input);
  const isListed = [...files.map(({ file }) => file), ...families.flatMap(({ tasks }) => tasks)].includes(
    before?.task ?? "",
  );
  const choice = picked.value ?? (isListed ? before?.task : undefined) ?? first;
  const task = (choice === OTHER ? typed.value : choice).trim();
  const problem = files.find(({ file }) => file === choice)?.problem ?? null;
  const count = chosen.value.length;
  const canStart = latest?.state !== "running" && count > 0 && task !== "" && problem === null;
  const start = () =>
    startEvaluation({
      ...{ models: chosen.value.map(({ name, source }) => ({ name, source })), task, limit: limit.value },
      ...{ data: data.value.trim() === "" ? null : data.value, runner: runner.value },
    });
  return (
    <div class="stack wide">
      <form
        class="ask"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <div class="stack">
          <div class="task-fields">
            <Field label="Task" hint={summaryOf(choice)} error={problem ?? undefined}>
              {(attributes) => (
                <select
                  {...attributes}
                  value={choice}
                  onChange={({ currentTarget }) => (picked.value = currentTarget.value)}
                >
                  {files.length > 0 ? (
                    <optgroup label="Task files of this project">
                      {files.map(({ file, title }) => (
                        <option key={file} value={file}>
                          {title === file ? file : `${title} (${file})`}
                        </option>
                      ))}
                    </optgroup>
                  ) : null}
                  {families.map(({ name, tasks }) => (
                    <optgroup key={name} label={name}>
                      {tasks.map((one) => (
                        <option key={one}>{one}</option>
                      ))}
                    </optgroup>
                  ))}
                  <option value={OTHER}>Another task or file</option>
                </select>
              )}
            </Field>
            <NumberField
              {...{ label: "Most items", value: limit.value, min: 1, max: 10_000_000, placeholder: "all" }}
              onChange={(value) => (limit.value = value)}
            />
          </div>
          {choice === OTHER ? (
            <Field
              label="Name or file"
              hint="A name such as belebele_swh, or a .yaml file. Paths start from the project."
            >
              {(attributes) => (
                <input
                  {...{ ...attributes, type: "text", class: "code", value: typed.value, maxLength: 4096 }}
                  onInput={({ currentTarget }) => (typed.value = currentTarget.value)}
                />
              )}
            </Field>
          ) : null}
          <details>
            <summary>
              Options <span class="small soft">{runnerText(runner.value)}</span>
            </summary>
            <div class="method-form">
              <RunnerFields />
              <Field label="Data folder" hint="Without one, built-in tasks are downloaded from the hub.">
                {(attributes) => (
                  <input
                    {...{ ...attributes, type: "text", class: "code", value: data.value, maxLength: 4096 }}
                    onInput={({ currentTarget }) => (data.value = currentTarget.value)}
                  />
                )}
              </Field>
            </div>
          </details>
        </div>
        <div class="stack">
          <ModelList />
          <button type="submit" class="primary" disabled={!canStart}>
            Evaluate {count === 1 ? chosen.value[0]?.name : `${count} models`}
          </button>
        </div>
      </form>
      {latest ? <Latest job={latest} /> : null}
      <Results version={versionOf(latest)} />
    </div>
  );
}

function summaryOf(task: string): string | undefined {
  return known.value?.families.find(({ tasks }) => tasks.includes(task))?.summary;
}

/** Changes whenever a model may be finished. */
function versionOf(job: Job | undefined): string {
  return job ? `${job.id} ${job.state} ${job.progress?.phase.split(":")[0] ?? ""}` : "";
}

const ENDED: Partial<Record<Job["state"], string>> = {
  cancelled: "The evaluation was cancelled.",
  interrupted: "The studio ended during the evaluation.",
};
const evaluated = z.array(z.object({ name: z.string(), isKept: z.boolean() }));

/** The evaluation under way, or how the latest one ended. */
function Latest({ job }: { job: Job }) {
  if (job.state === "running") {
    return (
      <section class="card stack tight" aria-label={job.title}>
        <h2>{job.title}</h2>
        <JobProgress job={job} />
      </section>
    );
  }
  if (job.state === "done") return <KeptResults job={job} />;
  const ended = ENDED[job.state];
  return (
    <div class={`notice ${job.error === null ? "caution" : "problem"}`}>
      <span>{job.error ?? `${ended} Answers so far are kept.`}</span>
      <button type="button" onClick={() => startEvaluation(job.input)}>
        {job.error === null ? "Resume" : "Try again"}
      </button>
    </div>
  );
}

/** Which models were not evaluated again. */
function KeptResults({ job }: { job: Job }) {
  const [names, setNames] = useState<readonly string[]>([]);
  useEffect(() => {
    void attempt(async () => {
      const results = evaluated.parse(await call("job.result", { id: job.id }));
      setNames(results.flatMap(({ name, isKept }) => (isKept ? name : [])));
    });
  }, [job.id]);
  if (names.length === 0) return null;
  return (
    <p class="notice">
      <span>Evaluated before with the same questions, and not run again: {names.join(", ")}.</span>
    </p>
  );
}
