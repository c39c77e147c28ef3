// The progress of an experiment for people: what ended stays on the screen, what runs is one line that is rewritten on a
// terminal. Writes to the stream it is given and never to stdout.
import { formatDuration } from "../core/format.js";
import type { Counts, RunEvent } from "../experiment/run/runner.js";

export interface ExperimentDisplay {
  update(event: RunEvent, counts: Counts): void;
  /** Ends the display; what it said stays. */
  stop(): void;
}

/** Shows nothing. */
export const SILENT_EXPERIMENT: ExperimentDisplay = { update() {}, stop() {} };

// As often as an eye can follow, and, where there is no terminal, seldom enough not to fill a log.
const REDRAW_SECONDS = 0.1;
const LINE_SECONDS = 30;

/** `12 of about 130 steps done, 2 running, 1 failed` */
export function describeCounts({ done, running, failed, left, waiting }: Counts): string {
  const all = (done + running + failed + left + waiting).toLocaleString("en-US");
  return [
    `${done.toLocaleString("en-US")} of ${waiting > 0 ? "about " : ""}${all} steps done`,
    ...(running > 0 ? [`${running} running`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
  ].join(", ");
}

/** A display for a stream; rewrites its line where that is a terminal. */
export function showExperiment(stream: NodeJS.WriteStream = process.stderr): ExperimentDisplay {
  const isTerminal = stream.isTTY === true;
  const started = performance.now() / 1000;
  const running = new Map<string, { label: string; share: number; what: string }>();
  let last = Number.NEGATIVE_INFINITY;
  let before: number | undefined;
  let isOpen = false;

  const line = (counts: Counts): string => {
    const now = performance.now() / 1000 - started;
    // From the steps that this run has done; what earlier ones did took it no time.
    before ??= counts.done;
    const own = counts.done - before;
    const rest = counts.left + counts.running + counts.waiting;
    const left = own > 2 ? `, ${formatDuration((now / own) * rest)} left` : "";
    const at = [...running.values()].map(
      ({ label, share, what }) => `${label} ${Math.round(100 * share)}%${what === "" ? "" : ` (${what})`}`,
    );
    return `${describeCounts(counts)}${left}${at.length > 0 ? `  ${at.join("; ")}` : ""}`;
  };
  const rewrite = (text: string): void => {
    // A line longer than the terminal could not be rewritten.
    stream.write(`\r\u001b[2K${text.slice(0, Math.max(20, (stream.columns ?? 80) - 1))}`);
    isOpen = true;
  };
  const stay = (text: string): void => {
    stream.write(isTerminal ? `\r\u001b[2K${text}\n` : `${text}\n`);
    isOpen = false;
  };

  return {
    update(event, counts) {
      const { key, label } = event;
      if (event.event === "started") running.set(key, { label, share: 0, what: "" });
      else if (event.event === "progress") running.set(key, { label, share: event.share, what: event.what });
      else running.delete(key);
      if (event.event === "done") stay(`done    ${label} (${formatDuration(event.seconds)})`);
      if (event.event === "failed") stay(`failed  ${label}: ${event.reason}`);
      if (event.event === "lost") stay(`again   ${label}: ${event.reason}`);
      const now = performance.now() / 1000;
      const isNews = event.event !== "progress" && event.event !== "started";
      if (isTerminal && (isNews || now - last > REDRAW_SECONDS)) rewrite(line(counts));
      else if (!isTerminal && now - last > LINE_SECONDS) stream.write(`${line(counts)}\n`);
      else return;
      last = now;
    },
    stop() {
      if (isOpen) stream.write("\n");
      isOpen = false;
    },
  };
}
