// Asks a thread that stays for a while. What takes too long ends with the thread, and the page hears why.
import { usageError } from "../../kit/index.js";
import type { READS } from "../experiments/reader.js";
import type { scoreVersion } from "../jobs/evaluate.js";
import { openThread, type Thread } from "../threads/thread.js";

/** Seconds for an answer. */
const TIME_TO_ANSWER = 60;
/** Milliseconds without questions after which the thread ends, and with it what it keeps in memory. */
const IDLE = 60_000;

/** As threads/worker.ts answers. */
type Answers = typeof READS & { readonly score: typeof scoreVersion };
type Question<K extends keyof Answers> = Omit<Parameters<Answers[K]>[0], "folder">;
type Answer<K extends keyof Answers> = Awaited<ReturnType<Answers[K]>>;

export class Asker {
  readonly #folder: string;
  #thread: Thread | undefined;
  #idle: NodeJS.Timeout | undefined;

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
    try {
      return (await thread.ask(kind, { ...input, folder: this.#folder })) as Answer<K>;
    } finally {
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
