// Asks the thread that reads experiments. What takes too long ends with the thread, and the page hears why.
import { usageError } from "../../core/index.js";
import { Thread } from "../threads/thread.js";
import type { READS } from "./reader.js";

/** Milliseconds for an answer. */
const TIME_TO_ANSWER = 60_000;
/** Milliseconds without questions after which the thread ends, and with it what it keeps in memory. */
const IDLE = 60_000;

type Reads = typeof READS;
type Question<K extends keyof Reads> = Omit<Parameters<Reads[K]>[0], "folder">;
type Answer<K extends keyof Reads> = Awaited<ReturnType<Reads[K]>>;

export class Experiments {
  readonly #folder: string;
  #thread: Thread | undefined;
  #idle: NodeJS.Timeout | undefined;

  /** @param folder of the project */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @throws LayergraftError if a plan cannot be read, or takes too long */
  async ask<K extends keyof Reads>(kind: K, input: Question<K>): Promise<Answer<K>> {
    clearTimeout(this.#idle);
    if (!this.#thread || this.#thread.hasEnded) this.#thread = new Thread();
    const thread = this.#thread;
    const late = `Reading experiments took more than ${TIME_TO_ANSWER / 1000} s. Try again, or use the command line.`;
    const timer = setTimeout(() => thread.end(usageError(late)), TIME_TO_ANSWER);
    try {
      return (await thread.ask(kind, { ...input, folder: this.#folder })) as Answer<K>;
    } finally {
      clearTimeout(timer);
      clearTimeout(this.#idle);
      if (thread.isIdle) this.#idle = setTimeout(() => this.close(), IDLE).unref();
    }
  }

  /** Ends the thread. */
  close(): void {
    clearTimeout(this.#idle);
    this.#thread?.end();
  }
}
