import type { Job } from "../../protocol.ts";

/** How far a job is. */
export function JobProgress({ job }: { job: Job }) {
  const { progress } = job;
  if (job.state !== "running") return null;
  const share = progress && progress.total > 0 ? progress.done / progress.total : undefined;
  return (
    <div class="progress">
      <progress max={1} {...(share === undefined ? {} : { value: share })} aria-label={job.title} />
      <span class="soft">
        {progress?.phase ?? "starting"}
        {share === undefined ? "" : `, ${Math.floor(100 * share)}%`}
      </span>
    </div>
  );
}
