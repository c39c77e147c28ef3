import type { Job } from "../../protocol.ts";
import { call } from "../client.ts";
import { attempt } from "../store.ts";

/** How far a job that runs is, and a way to cancel it. */
export function JobProgress({ job, isBare = false }: { job: Job; isBare?: boolean }) {
  const { progress } = job;
  if (job.state !== "running") return null;
  const share = progress && progress.total > 0 ? progress.done / progress.total : undefined;
  return (
    <div class="progress">
      <progress max={1} {...(share === undefined ? {} : { value: share })} aria-label={job.title} />
      <div class="row">
        <span class="soft">
          {progress?.phase ?? "starting"}
          {share === undefined ? "" : `, ${Math.floor(100 * share)}%`}
        </span>
        {isBare ? null : <CancelButton job={job} />}
      </div>
    </div>
  );
}

export function CancelButton({ job }: { job: Job }) {
  return (
    <button type="button" onClick={() => attempt(() => call("job.cancel", { id: job.id }))}>
      Cancel
    </button>
  );
}
