// Scores of models on a task, as `layergraft eval` gives them.

import { signal } from "@preact/signals";
import { z } from "zod";
import { type Job, jobInputs } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Form } from "../components/basics.js";
import { Command } from "../components/progress.js";
import { NewTask, useTask } from "../components/task-fields.js";
import { type Values, VerbFields } from "../components/verb-fields.js";
import { JobOutcome } from "../recipe/outcome.js";
import { startSaved } from "../recipe/recipe-store.js";
import { jobs, useAnswer } from "../store.js";
import { chosen, ModelList } from "./choices.js";
import { Results } from "./results.js";

/** Fields of the verb `eval`; few items at first, as they take seconds. */
const fields = signal<Values>({ limit: 100 });
/** Those that are made of the models and the task; results have folders of their own. */
const MADE = ["source", "tasks", "name", "out"];

export function Evaluate() {
  const all = jobs.value.filter(({ kind }) => kind === "evaluate");
  // Another one may have been refused while it runs.
  const latest = all.find(({ state }) => state === "running") ?? all[0];
  const { data: before } = jobInputs.evaluate.safeParse(latest?.input);
  const { task, pick, choice, name } = useTask(before?.tasks[0]);
  const count = chosen.value.length;
  const canStart = latest?.state !== "running" && count > 0 && task !== null;
  const start = () =>
    startSaved({
      kind: "evaluate",
      input: {
        ...fields.value,
        models: chosen.value.map(({ name, source }) => ({ name, source })),
        tasks: [task ?? ""],
      },
    });
  return (
    <div class="stack wide">
      <Form class="ask" onSubmit={() => void start()}>
        <div class="stack">
          {choice}
          {name}
          <div>
            <NewTask onChange={pick} />
          </div>
          <VerbFields verb="eval" made={MADE} values={fields.value} set={(values) => (fields.value = values)} />
        </div>
        <div class="stack">
          <ModelList />
          <Button
            text={`Evaluate ${count === 1 ? chosen.value[0]?.name : `${count} models`}`}
            type="submit"
            class="primary"
            disabled={!canStart}
          />
        </div>
      </Form>
      {latest ? <Latest job={latest} /> : null}
      <Results version={versionOf(latest)} />
    </div>
  );
}

/** Changes whenever a model may be finished. */
function versionOf(job: Job | undefined): string {
  return job ? `${job.id} ${job.state} ${job.progress?.model ?? ""}` : "";
}

const evaluated = z.array(z.object({ name: z.string(), folder: z.string(), isKept: z.boolean() }));

/** The evaluation under way, or how the latest one ended. */
function Latest({ job }: { job: Job }) {
  if (job.state === "done") return <Done job={job} />;
  return (
    <section class="card stack tight" aria-label={job.title}>
      <h2>{job.title}</h2>
      <JobOutcome job={job} />
    </section>
  );
}

/** Where the results are, which were there before, and what can follow. */
function Done({ job }: { job: Job }) {
  const results = useAnswer(async () => evaluated.parse(await call("job.result", { id: job.id })), [job.id]) ?? [];
  const kept = results.flatMap(({ name, isKept }) => (isKept ? name : []));
  const folders = results.map(({ folder }) => `evaluations/${folder}`);
  if (folders.length === 0) return null;
  return (
    <section class="card stack tight" aria-label={job.title}>
      <h2>{job.title}</h2>
      {kept.length > 0 ? <p>Evaluated before with the same questions, and not run again: {kept.join(", ")}.</p> : null}
      <p>The results are in the project's folder, and in the tables below. Compare two of them item by item there.</p>
      <details>
        <summary>Folders and command</summary>
        <p class="path lines">{folders.join("\n")}</p>
        {folders.length > 1 ? <Command words={["layergraft", "compare", ...folders]} /> : null}
      </details>
    </section>
  );
}
