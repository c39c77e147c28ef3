// The progress of an evaluation for people: one line that is rewritten on a terminal, a line now and then elsewhere.
// Writes to the stream it is given and never to stdout.
import { formatDuration } from "../core/format.js";
import type { EvaluationProgress } from "../evaluate/task-run.js";
import { formatScore } from "./scores.js";

export interface EvaluationDisplay {
  update(progress: EvaluationProgress): void;
  /** A line that stays, such as a message of a server that starts. */
  note(text: string): void;
  /** Ends the display; the last line of each task stays. */
  stop(): void;
}

/** Shows nothing. */
export const SILENT_EVALUATION: EvaluationDisplay = { update() {}, note() {}, stop() {} };

// Seldom enough not to fill a log, often enough to see that it lives.
const LINE_SECONDS = 10;
// As often as an eye can follow.
const REDRAW_SECONDS = 0.1;

/** A display for a stream; rewrites its line where that is a terminal. */
export function showEvaluation(stream: NodeJS.WriteStream = process.stderr): EvaluationDisplay {
  const isTerminal = stream.isTTY === true;
  let task = "";
  let last = Number.NEGATIVE_INFINITY;
  let isOpen = false;
  const write = (text: string, stays: boolean): void => {
    if (!isTerminal) return void stream.write(`${text}\n`);
    // A line longer than the terminal could not be rewritten.
    const shown = text.slice(0, Math.max(20, (stream.columns ?? 80) - 1));
    stream.write(`\r\u001b[2K${shown}${stays ? "\n" : ""}`);
    isOpen = !stays;
  };
  return {
    update(progress) {
      const now = performance.now() / 1000;
      const isNew = progress.task !== task;
      const isDone = progress.done === progress.total;
      if (isNew) last = Number.NEGATIVE_INFINITY;
      task = progress.task;
      if (!isDone && now - last < (isTerminal ? REDRAW_SECONDS : LINE_SECONDS)) return;
      // Elsewhere the first line would say nothing.
      if (!isTerminal && isNew && !isDone) {
        last = now;
        return;
      }
      last = now;
      write(progressLine(progress), isDone);
    },
    note(text) {
      if (isOpen) write("", false);
      write(text, true);
    },
    stop() {
      if (isOpen) stream.write("\n");
      isOpen = false;
    },
  };
}

/** `2/6 MGSM Swahili  120 of 250 (48%)  strict 41.7  2.1 items/s, 1 min 02 s left`. */
export function progressLine(progress: EvaluationProgress): string {
  const { number, tasks, title, done, total, score, metric, scale, refused, itemsPerSecond, secondsLeft } = progress;
  const rate = itemsPerSecond === undefined ? "" : `${rateText(itemsPerSecond)}`;
  const left = secondsLeft === undefined || done === total ? "" : `${formatDuration(Math.ceil(secondsLeft))} left`;
  return [
    tasks > 1 ? `${number}/${tasks} ${title}` : title,
    `${done} of ${total} (${Math.floor((100 * done) / total)}%)`,
    score === undefined ? "" : `${metric} ${formatScore(score, scale)}`,
    refused > 0 ? `${refused} refused` : "",
    [rate, left].filter((text) => text !== "").join(", "),
  ]
    .filter((text) => text !== "")
    .join("  ");
}

function rateText(rate: number): string {
  return rate >= 1 ? `${rate.toFixed(1)} items/s` : `${formatDuration(1 / rate)} per item`;
}
