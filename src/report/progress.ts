// Progress on a terminal: a bar with bytes, rate and time left; plain lines where there is no terminal.
// Writes to the stream it is given, by default stderr, and never to stdout.
import { Presets, SingleBar } from "cli-progress";
import { formatBytes, formatDuration } from "../core/format.js";
import type { Progress } from "../streaming/run.js";

export interface ProgressDisplay {
  update(progress: Progress): void;
  /** Ends the display; the bar's last state stays on the screen. */
  stop(): void;
}

/** Shows nothing. */
export const SILENT: ProgressDisplay = { update() {}, stop() {} };

/** A bar on a terminal, a line now and then elsewhere. */
export function showProgress(stream: NodeJS.WriteStream = process.stderr): ProgressDisplay {
  return stream.isTTY ? new Bar(stream) : new Lines(stream);
}

/** Rate and time left of one phase. */
class Clock {
  #phase = "";
  #start = 0;
  #startBytes = 0;

  /** @returns bytes per second and seconds left, both 0 before anything can be said */
  read({ phase, doneBytes, totalBytes }: Progress): { isNew: boolean; rate: number; left: number; seconds: number } {
    const now = performance.now() / 1000;
    const isNew = phase !== this.#phase;
    if (isNew) {
      this.#phase = phase;
      this.#start = now;
      this.#startBytes = doneBytes; // a resumed run begins with what is there; it did not take us any time
    }
    const seconds = now - this.#start;
    const rate = seconds > 0 ? (doneBytes - this.#startBytes) / seconds : 0;
    return { isNew, rate, left: rate > 0 ? (totalBytes - doneBytes) / rate : 0, seconds };
  }
}

class Bar implements ProgressDisplay {
  readonly #stream: NodeJS.WriteStream;
  readonly #clock = new Clock();
  #bar: SingleBar | undefined;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  update(progress: Progress): void {
    const { isNew, rate, left } = this.#clock.read(progress);
    if (isNew) this.stop();
    const payload = {
      phase: progress.phase,
      done: formatBytes(progress.doneBytes),
      all: formatBytes(progress.totalBytes),
      speed: rate > 0 ? `${formatBytes(rate)}/s${left > 0 ? `  ${formatDuration(Math.ceil(left))} left` : ""}` : "",
    };
    if (!this.#bar) {
      this.#bar = new SingleBar(
        {
          format: "{phase} {bar} {percentage}%  {done} of {all}  {speed}",
          stream: this.#stream,
          hideCursor: true,
          barsize: 24,
          linewrap: false,
        },
        Presets.shades_classic,
      );
      this.#bar.start(Math.max(1, progress.totalBytes), progress.doneBytes, payload);
    } else {
      this.#bar.update(progress.doneBytes, payload);
    }
  }

  stop(): void {
    this.#bar?.stop();
    this.#bar = undefined;
  }
}

// Seldom enough not to fill a log, often enough to see that it lives.
const LINE_SECONDS = 5;

class Lines implements ProgressDisplay {
  readonly #stream: NodeJS.WritableStream;
  readonly #clock = new Clock();
  #lastLine = 0;

  constructor(stream: NodeJS.WritableStream) {
    this.#stream = stream;
  }

  update(progress: Progress): void {
    const { isNew, rate, left, seconds } = this.#clock.read(progress);
    const complete = progress.doneBytes >= progress.totalBytes;
    if (isNew) this.#lastLine = 0;
    if (!complete && seconds - this.#lastLine < LINE_SECONDS) return;
    if (complete && this.#lastLine === Number.POSITIVE_INFINITY) return;
    this.#lastLine = complete ? Number.POSITIVE_INFINITY : seconds;
    const percent = progress.totalBytes > 0 ? Math.floor((100 * progress.doneBytes) / progress.totalBytes) : 100;
    const rest = complete ? `in ${formatDuration(seconds)}` : `${formatBytes(rate)}/s, ${formatDuration(left)} left`;
    this.#stream.write(`${progress.phase} ${percent}% (${formatBytes(progress.doneBytes)}) ${rest}\n`);
  }

  stop(): void {}
}
