import { useState } from "preact/hooks";
import type { Job } from "../../protocol/index.js";
import { call } from "../client.js";
import { attempt, project } from "../store.js";
import { Button } from "./basics.js";

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

/** A command, from the project's folder. */
export function Command({ words }: { words: readonly string[] }) {
  return (
    <pre class="command">
      <code>{`cd ${wordOf(project.value?.folder ?? "")}\n${words.map(wordOf).join(" ")}`}</code>
    </pre>
  );
}
