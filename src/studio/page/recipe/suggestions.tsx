import { useEffect, useState } from "preact/hooks";
import { stringify } from "yaml";
import { z } from "zod";
import type { Job } from "../../protocol/index.ts";
import { call } from "../client.ts";
import { JobProgress } from "../components/progress.tsx";
import { nameFor } from "../names.ts";
import { attempt, inBackground, isStale, jobs, project, settings } from "../store.ts";
import type { Tower } from "./board-view.tsx";
import { create } from "./recipe-store.ts";

const suggestions = z.array(z.object({ name: z.string(), reason: z.string(), recipe: z.record(z.string(), z.json()) }));
type Suggestion = z.infer<typeof suggestions>[number];

export function Suggestions({ towers }: { towers: readonly Tower[] }) {
  const { base = null, experts = [] } = settings.value ?? {};
  const [task, language] = experts;
  const [found, setFound] = useState<readonly Suggestion[]>([]);
  const isOurs = ({ kind, input }: Job) =>
    kind === "suggest" &&
    JSON.stringify(input) === JSON.stringify({ base, task: task?.source, language: language?.source });
  const latest = jobs.value.find(isOurs);
  const job = latest && isStale(latest) ? undefined : latest;
  useEffect(() => {
    if (job?.state !== "done") return;
    void inBackground(async () => setFound(suggestions.parse(await call("job.result", { id: job.id }))));
  }, [job?.id, job?.state]);
  if (base === null || !task || !language) return null;
  const ask = () =>
    attempt(() =>
      call("job.start", { kind: "suggest", input: { base, task: task.source, language: language.source } }),
    );
  const nameOf = (source: string) => towers.find((tower) => tower.source === source)?.name ?? source;
  return (
    <div class="card stack">
      <h2>Suggestions</h2>
      {job?.state === "running" ? <JobProgress job={job} /> : null}
      {job === undefined || ["failed", "cancelled", "interrupted"].includes(job.state) ? (
        <>
          <p class="soft">
            Measures where {nameOf(task.source)} and {nameOf(language.source)} changed, and proposes merges to try.
          </p>
          <div class="row">
            <button type="button" onClick={ask}>
              Suggest recipes
            </button>
          </div>
        </>
      ) : null}
      {job?.state === "done" && found.length > 0 ? (
        <ul class="suggestions">
          {found.map(({ name, reason, recipe }) => (
            <li key={name}>
              <div>
                <strong>{name}</strong>
                <p class="soft">{reason}</p>
              </div>
              <button
                type="button"
                onClick={() => create(nameFor(name, project.value?.recipes ?? []), stringify(recipe))}
              >
                Use
              </button>
            </li>
          ))}
        </ul>
      ) : null}
    </div>
  );
}
