import { useState } from "preact/hooks";
import type { Job } from "../../protocol/index.ts";
import { call } from "../client.ts";
import { attempt, project } from "../store.ts";
import { Button } from "./basics.tsx";

/** How far a job that runs is, and a way to cancel it. */
export function JobProgress({ job }: { job: Job }) {
  const { progress } = job;
  if (job.state !== "running") return null;
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

interface CancelProps {
  readonly job: Job;
  readonly label?: string;
  readonly busyLabel?: string;
}

export function CancelButton({ job, label = "Cancel", busyLabel = "Cancelling…" }: CancelProps) {
  const [isAsked, setAsked] = useState(false);
  const cancel = async () => {
    setAsked(true);
    await attempt(() => call("job.cancel", { id: job.id }));
    setAsked(false);
  };
  return <Button text={isAsked ? busyLabel : label} disabled={isAsked} onClick={() => void cancel()} />;
}

/** A word of a command line, quoted where a shell would split it. */
const wordOf = (text: string) => (/^[\w./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** The command that does the same, from the project's folder. */
export function Command({ words }: { words: readonly string[] }) {
  return (
    <pre class="command">
      <code>{`cd ${wordOf(project.value?.folder ?? "")}\nlayergraft ${words.map(wordOf).join(" ")}`}</code>
    </pre>
  );
}
