import type { Job } from "../../protocol/index.ts";
import { Button, Notice } from "../components/basics.tsx";
import { JobProgress, STATES } from "../components/progress.tsx";
import { again } from "./recipe-store.ts";

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
