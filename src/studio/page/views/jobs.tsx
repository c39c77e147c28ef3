import type { Job } from "../../protocol.ts";
import { call } from "../client.ts";
import { JobProgress } from "../components/progress.tsx";
import { attempt, jobs } from "../store.ts";

const STATES: Readonly<Record<Job["state"], string>> = {
  running: "running",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
  interrupted: "interrupted when the studio ended",
};

export function Jobs() {
  return (
    <section>
      <h1>Activity</h1>
      {jobs.value.length === 0 ? <p class="soft">Analyses, merges and evaluations appear here.</p> : null}
      <ul class="jobs">
        {jobs.value.map((job) => (
          <li key={job.id}>
            <div>
              <strong>{job.title}</strong> <span class="soft">{STATES[job.state]}</span>
              <JobProgress job={job} />
              {job.error === null ? null : <p class="problem">{job.error}</p>}
            </div>
            {job.state === "running" ? (
              <button type="button" onClick={() => attempt(() => call("job.cancel", { id: job.id }))}>
                Cancel
              </button>
            ) : null}
          </li>
        ))}
      </ul>
    </section>
  );
}
