import { createRequire } from "node:module";
import type { SingleBar } from "cli-progress";
import type { Progress } from "../kit/index.js";
import { formatBytes, formatDuration, visible, write } from "../kit/printing/index.js";

/** What a display shows. Each phase has a bar and leaves a line when it is complete. */
export interface ShownProgress extends Omit<Progress, "unit"> {
  /** Default: a plain count. */
  readonly unit?: Progress["unit"];
  /** Extra text, such as a loss. */
  readonly detail?: string;
}

export interface ProgressDisplay {
  update(progress: ShownProgress): void;
  /** Removes the bar until the next update, to print something else. */
  clear(): void;
  /** Prints a permanent line. */
  note(text: string): void;
  /** Ends the display and leaves the state of a bar as a line. */
  stop(): void;
}

export const SILENT: ProgressDisplay = { update() {}, clear() {}, note() {}, stop() {} };

// Rare enough not to fill a log, frequent enough to show that the process is alive.
const LINE_SECONDS = 10;

/** From the cursor to the end of the screen. */
const ERASE_BELOW = "\u001b[J";

interface Phase {
  readonly start: number;
  /** Work done before the phase began, which the time estimate excludes. */
  readonly first: number;
  /** Seconds between the estimated end and the start, updated when more is done. */
  end: number | undefined;
  state: ShownProgress;
  /** When its last line was written. */
  written: number;
  isComplete: boolean;
}

/** @param clock seconds; for tests */
export function showProgress(
  stream: NodeJS.WriteStream = process.stderr,
  clock: () => number = () => performance.now() / 1000,
): ProgressDisplay {
  let phase: Phase | undefined;
  let bar: SingleBar | undefined;
  const clear = () => {
    if (!bar) return;
    bar.stop();
    // What other threads wrote has moved the bar down from where it began.
    stream.write(ERASE_BELOW);
    bar = undefined;
  };
  const line = (text: string) => {
    clear();
    write(stream, `${text}\n`);
  };
  const textOf = (now: Phase) => {
    const text = describe(now, clock());
    now.written = clock();
    return text;
  };
  const finish = () => {
    if (phase && bar) line(`${phase.state.phase} ${textOf(phase)}`);
    phase = undefined;
  };
  const draw = (now: Phase) => {
    const payload = { phase: now.state.phase, text: textOf(now) };
    const { done, total } = now.state;
    if (bar) return bar.update(done, payload);
    // Loaded here: most commands end before they draw a bar.
    const { SingleBar, Presets } = createRequire(import.meta.url)("cli-progress") as typeof import("cli-progress");
    const format = "{phase} {bar} {text}";
    const options = { format, stream, hideCursor: true, barsize: 24, linewrap: false, clearOnComplete: true };
    bar = new SingleBar(options, Presets.shades_classic);
    bar.start(Math.max(1, total), done, payload);
  };
  return {
    update(given) {
      const now = clock();
      // Names of models, which the bar prints by itself.
      const state = { ...given, phase: inLine(given.phase), detail: inLine(given.detail ?? "") };
      if (state.phase !== phase?.state.phase) finish();
      phase ??= { start: now, first: state.done, end: undefined, state, written: now, isComplete: false };
      const { first, start } = phase;
      if (state.done > first && (state.done !== phase.state.done || phase.end === undefined)) {
        phase.end = ((now - start) * (state.total - first)) / (state.done - first);
      }
      phase.state = state;
      if (state.done >= state.total) {
        if (!phase.isComplete) line(`${state.phase} ${textOf(phase)}`);
        phase.isComplete = true;
      } else if (stream.isTTY) draw(phase);
      else if (now - phase.written >= LINE_SECONDS) line(`${state.phase} ${textOf(phase)}`);
    },
    clear,
    note: line,
    stop: finish,
  };
}

const inLine = (text: string) => visible(text.replace(/[\n\r\t]/g, " "));

/** `48%  120 of 250  strict 41.7  1 min 02 s left` */
function describe({ state, start, first, end }: Phase, now: number): string {
  const { done, total, unit, detail = "" } = state;
  const amount = unit === "bytes" ? formatBytes : (count: number) => count.toLocaleString("en-US");
  const seconds = now - start;
  // Steps are rare, so the time counts down between two of them. Bytes are not: where none come, it counts up.
  const isStream = unit === "bytes" && done > first;
  const left = isStream ? ((total - done) * seconds) / (done - first) : end === undefined ? 0 : end - seconds;
  const rate = isStream && done < total && seconds > 0 ? `${formatBytes((done - first) / seconds)}/s` : "";
  return [
    `${total > 0 ? Math.floor((100 * done) / total) : 100}%`,
    `${amount(done)} of ${amount(total)}`,
    rate,
    detail,
    // What was complete at its first report began before that.
    done >= total
      ? first < total
        ? `in ${formatDuration(seconds)}`
        : ""
      : left >= 1
        ? `${formatDuration(Math.ceil(left))} left`
        : "",
  ]
    .filter((part) => part !== "")
    .join("  ");
}
