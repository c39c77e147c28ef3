// Asks a thread that stays for a while. What takes too long ends with the thread, and the page hears why.
import { usageError } from "../../kit/index.js";
import type { READS } from "../experiments/reader.js";
import type { scoreVersion } from "../jobs/evaluate.js";
import type { MODELS } from "../models/models.js";
import { openThread, type Thread } from "../threads/thread.js";

/** Seconds for an answer. */
const TIME_TO_ANSWER = 60;
/** Milliseconds without questions after which the thread ends, and with it what it keeps in memory. */
const IDLE = 60_000;

/** As threads/worker.ts answers. */
type Answers = typeof READS & typeof MODELS & { readonly score: typeof scoreVersion };
type Question<K extends keyof Answers> = Omit<Parameters<Answers[K]>[0], "folder">;
type Answer<K extends keyof Answers> = Awaited<ReturnType<Answers[K]>>;

export class Asker {
  readonly #folder: string;
  #thread: Thread | undefined;
  #idle: NodeJS.Timeout | undefined;
  /** Questions without an answer. */
  open = 0;

  /** @param folder of the project */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @throws LayergraftError as the thread throws it, or code `usage` if the answer takes too long */
  async ask<K extends keyof Answers>(kind: K, input: Question<K>, seconds = TIME_TO_ANSWER): Promise<Answer<K>> {
    clearTimeout(this.#idle);
    if (!this.#thread || this.#thread.hasEnded) this.#thread = openThread();
    const thread = this.#thread;
    const late = `This took more than ${seconds} s. Try again, or use the command line.`;
    const timer = setTimeout(() => thread.end(usageError(late)), 1000 * seconds);
    this.open++;
    try {
      return (await thread.ask(kind, { ...input, folder: this.#folder })) as Answer<K>;
    } finally {
      this.open--;
      clearTimeout(timer);
      clearTimeout(this.#idle);
      if (thread.isIdle) this.#idle = setTimeout(() => this.close(), IDLE).unref();
    }
  }

  /** Stops what the thread works on; its answers are then errors of code `cancelled`. */
  cancel(): void {
    if (this.#thread?.isIdle === false) this.#thread.cancel();
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle);
    await this.#thread?.stop();
  }
}

/** Several threads: a question goes to the one with the fewest open, so that a model that takes long keeps no other waiting. */
export class AskerPool {
  readonly #askers: readonly Asker[];

  constructor(folder: string, size: number) {
    this.#askers = Array.from({ length: size }, () => new Asker(folder));
  }

  ask<K extends keyof Answers>(kind: K, input: Question<K>): Promise<Answer<K>> {
    const [free] = [...this.#askers].sort((a, b) => a.open - b.open);
    return (free as Asker).ask(kind, input);
  }

  async close(): Promise<void> {
    await Promise.all(this.#askers.map((one) => one.close()));
  }
}
