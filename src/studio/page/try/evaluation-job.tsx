// The evaluation under way, or how the latest one ended.
import { z } from "zod";
import type { Job } from "../../protocol/index.js";
import { call } from "../client.js";
import { Command } from "../components/progress.js";
import { JobOutcome } from "../recipe/outcome.js";
import { jobs, useAnswer } from "../store.js";

/** The evaluation that runs, or else the latest: another one may have been refused while it runs. */
export function latestEvaluation(): Job | undefined {
  const all = jobs.value.filter(({ kind }) => kind === "evaluate");
  return all.find(({ state }) => state === "running") ?? all[0];
}

/** Changes whenever a model may be finished. */
export function versionOf(job: Job | undefined): string {
  return job ? `${job.id} ${job.state} ${job.progress?.model ?? ""}` : "";
}

const evaluated = z.array(z.object({ name: z.string(), folder: z.string(), isKept: z.boolean() }));

export function EvaluationJob({ job }: { job: Job }) {
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
      <p>The results are in the project's folder, and in the tables above. Compare two of them item by item there.</p>
      <details>
        <summary>Folders and command</summary>
        <p class="path lines">{folders.join("\n")}</p>
        {folders.length > 1 ? <Command words={["layergraft", "compare", ...folders]} /> : null}
      </details>
    </section>
  );
}
