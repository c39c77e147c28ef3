// Progress of work that is counted in things done and comes in phases: a bar on a terminal, a line now and then elsewhere.
import { Presets, SingleBar } from "cli-progress";
import { formatDuration } from "../core/format.js";

export interface TaskState {
  /** What is being done. A new phase is a new bar. */
  readonly phase: string;
  readonly done: number;
  readonly total: number;
  /** What else is worth knowing, such as a loss. */
  readonly detail: string;
}

export interface TaskDisplay {
  update(state: TaskState): void;
  /** Ends the display; the last state stays on the screen. */
  stop(): void;
}

/** A bar on a terminal, a line now and then elsewhere. */
export function showTasks(stream: NodeJS.WriteStream = process.stderr): TaskDisplay {
  return stream.isTTY ? bars(stream) : lines(stream);
}

/** Time left of a phase, by its speed so far. */
function clock(): (state: TaskState) => { isNew: boolean; seconds: number; left: number } {
  let phase = "";
  let start = 0;
  let first = 0;
  return ({ phase: now, done, total }) => {
    const time = performance.now() / 1000;
    const isNew = now !== phase;
    // Counted from the first that is done: a resumed phase begins with what is there, which took no time.
    if (isNew || first === 0) [phase, start, first] = [now, time, done];
    const seconds = time - start;
    return { isNew, seconds, left: done > first ? ((total - done) * seconds) / (done - first) : 0 };
  };
}

const leftText = (left: number) => (left >= 1 ? `${formatDuration(Math.ceil(left))} left` : "");

function bars(stream: NodeJS.WriteStream): TaskDisplay {
  const read = clock();
  let bar: SingleBar | undefined;
  const stop = () => {
    bar?.stop();
    bar = undefined;
  };
  return {
    update: (state) => {
      const { isNew, left } = read(state);
      if (isNew) stop();
      const payload = { phase: state.phase.padEnd(28), detail: state.detail, left: leftText(left) };
      if (!bar) {
        const format = "{phase} {bar} {percentage}%  {detail}  {left}";
        bar = new SingleBar({ format, stream, hideCursor: true, barsize: 24, linewrap: false }, Presets.shades_classic);
        bar.start(Math.max(1, state.total), state.done, payload);
      } else bar.update(state.done, payload);
    },
    stop,
  };
}

// Seldom enough not to fill a log, often enough to see that it lives.
const LINE_SECONDS = 10;

function lines(stream: NodeJS.WritableStream): TaskDisplay {
  const read = clock();
  let last = Number.NEGATIVE_INFINITY;
  return {
    update: (state) => {
      const { isNew, left } = read(state);
      const now = performance.now() / 1000;
      if (!isNew && now - last < LINE_SECONDS) return;
      last = now;
      const percent = state.total > 0 ? Math.floor((100 * state.done) / state.total) : 100;
      stream.write(`${[`${state.phase} ${percent}%`, state.detail, leftText(left)].filter(Boolean).join("  ")}\n`);
    },
    stop: () => undefined,
  };
}
