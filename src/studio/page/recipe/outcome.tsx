import type { Job } from "../../protocol/index.js";
import { Button, Notice } from "../components/basics.js";
import { CancelButton } from "../components/progress.js";
import { again } from "./recipe-store.js";

/** A job that runs, or why it ended without a result. What keeps its work can be resumed. */
export function JobOutcome({ job }: { job: Job }) {
  if (job.state === "running") return <JobProgress job={job} />;
  if (job.state === "done") return null;
  const { kind, error, state } = job;
  const keeps = ["evaluate", "merge", "export", "experiment"].includes(kind);
  const text = error ?? `${STATES[state]}.${kind === "evaluate" ? " Answers so far are kept." : ""}`;
  return (
    <Notice kind={error === null ? "caution" : "problem"} text={text}>
      {keeps ? <Button text="Resume" onClick={() => again(job)} /> : null}
    </Notice>
  );
}

/** What is to be known about what a job wrote. */
export const JobNotes = ({ job: { made } }: { job: Job }) =>
  made && made.notes.length > 0 ? <Notice text={made.notes.join("\n")} /> : null;

/** How far a job that runs is, and a way to cancel it. */
function JobProgress({ job }: { job: Job }) {
  const { progress } = job;
  const share = progress && progress.total > 0 ? progress.done / progress.total : undefined;
  return (
    <div class="progress">
      <progress max={1} {...(share === undefined ? {} : { value: share })} aria-label={job.title} />
      <div class="row">
        <span class="soft">
          {progress?.model === undefined ? "" : `${progress.model}: `}
          {progress?.phase ?? "starting"}
          {share === undefined ? "" : `, ${Math.floor(100 * share)}%`}
        </span>
        <CancelButton job={job} />
      </div>
    </div>
  );
}

/** How jobs of each state end. */
export const STATES: Readonly<Record<Job["state"], string>> = {
  running: "Running",
  done: "Done",
  failed: "Failed",
  cancelled: "Cancelled",
  interrupted: "Interrupted when the studio ended",
};
