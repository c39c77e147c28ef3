// The progress of an experiment for people: what ended stays on the screen, what runs is one line that is rewritten on a
// terminal. Writes to the stream it is given and never to stdout.
import { formatDuration, formatShare } from "../core/format.js";
import type { Counts, RunEvent } from "../experiment/run/run-experiment.js";

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
/** Times left below this are over before they are read. */
const LEAST_SECONDS_LEFT = 2;
/** Characters of a label that still tell which step it is. */
const LEAST_LABEL = 16;

/** `12 of about 130 steps done, 2 running, 1 failed` */
export function describeCounts({ done, running, failed, left, waiting }: Counts): string {
  const all = (done + running + failed + left + waiting).toLocaleString("en-US");
  return [
    `${done.toLocaleString("en-US")} of ${waiting > 0 ? "about " : ""}${all} steps done`,
    ...(running > 0 ? [`${running} running`] : []),
    ...(failed > 0 ? [`${failed} failed`] : []),
  ].join(", ");
}

/** A step that runs, as the line shows it. */
interface Shown {
  readonly label: string;
  readonly share: number;
  readonly what: string;
}

/**
 * The line on what runs: counts, time left, and of each step how far it is and as much of its label as fits. Labels differ
 * at their ends, so it is the middle that gives way.
 * @param width characters that there are
 */
export function progressLine(head: string, running: readonly Shown[], width: number): string {
  const shares = running.map(({ share }) => `${Math.round(100 * share)}%`.padStart(4));
  const room = width - head.length - shares.reduce((sum, share) => sum + share.length + 3, 0);
  const each = Math.floor(room / Math.max(1, running.length));
  // With many at once there is no room for names: how many run stands in the head.
  if (each < LEAST_LABEL) return head.slice(0, width);
  const texts = running.map(({ label, what }, i) => `  ${shares[i]} ${shortened(withWord(label, what, each), each)}`);
  return `${head}${texts.join("")}`.slice(0, width);
}

function withWord(label: string, what: string, room: number): string {
  const whole = what === "" ? label : `${label} (${what})`;
  return whole.length <= room ? whole : label;
}

function shortened(text: string, length: number): string {
  if (text.length <= length) return text;
  const end = Math.ceil((length - 1) / 2);
  return `${text.slice(0, length - 1 - end)}…${text.slice(text.length - end)}`;
}

/** A display for a stream; rewrites its line where that is a terminal. @param clock seconds; for tests */
export function showExperiment(
  stream: NodeJS.WriteStream = process.stderr,
  clock: () => number = () => performance.now() / 1000,
): ExperimentDisplay {
  const isTerminal = stream.isTTY === true;
  const started = clock();
  const running = new Map<string, Shown>();
  let last = Number.NEGATIVE_INFINITY;
  let before: number | undefined;
  let isOpen = false;
  /** When it will end, as far as the last step's end told. */
  let end: number | undefined;

  /** Told anew when a step ends, and counted down between: a step that takes its time does not move the end at each look. */
  const foresee = ({ done, left, running: now, waiting }: Counts): void => {
    // From the steps that this run has done; what earlier ones did took it no time.
    const own = done - (before ?? done);
    if (own > 2) end = clock() + ((clock() - started) / own) * (left + now + waiting);
  };
  const line = (counts: Counts): string => {
    const seconds = (end ?? Number.NEGATIVE_INFINITY) - clock();
    const left = seconds >= LEAST_SECONDS_LEFT ? `, about ${formatDuration(Math.round(seconds))} left` : "";
    const width = isTerminal ? Math.max(20, (stream.columns ?? 80) - 1) : Number.POSITIVE_INFINITY;
    return progressLine(`${describeCounts(counts)}${left}`, [...running.values()], width);
  };
  const rewrite = (text: string): void => {
    stream.write(`\r\u001b[2K${text}`);
    isOpen = true;
  };
  const stay = (text: string): void => {
    stream.write(isTerminal ? `\r\u001b[2K${text}\n` : `${text}\n`);
    isOpen = false;
  };

  return {
    update(event, counts) {
      const { key, label } = event;
      before ??= counts.done - (event.event === "done" ? 1 : 0);
      if (event.event === "started") running.set(key, { label, share: 0, what: "" });
      else if (event.event === "progress") running.set(key, { label, share: event.share, what: event.what });
      else running.delete(key);
      if (event.event === "done") {
        foresee(counts);
        const score = event.score === undefined ? "" : `${formatShare(event.score)}, `;
        stay(`done    ${label} (${score}${formatDuration(event.seconds)})`);
      }
      if (event.event === "failed") stay(`failed  ${label}: ${event.reason}`);
      if (event.event === "lost") {
        stay(event.reason === "stopped" ? `stopped ${label}` : `again   ${label}: ${event.reason}`);
      }
      const now = clock();
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
