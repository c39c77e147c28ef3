// Asks the thread that reads experiments. What takes too long ends with the thread, and the page hears why.
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { LayergraftError, usageError } from "../../core/index.js";
import type { Experiment, PlanEntry } from "../experiment-protocol.js";

/** Milliseconds for an answer. */
const TIME_TO_ANSWER = 60_000;
/** Milliseconds without questions after which the thread ends, and with it what it keeps in memory. */
const IDLE = 60_000;

export interface ReaderData {
  /** The project. */
  readonly folder: string;
}

/** What the thread answers. */
export interface Answers {
  /** Plans in the project. */
  list(input: object): Promise<PlanEntry[]>;
  /** An experiment; null if it is still of that version. */
  read(input: { readonly plan: string; readonly version: string | null }): Promise<Experiment | null>;
  /** YAML of a recipe of the report. */
  recipe(input: { readonly plan: string; readonly id: string }): Promise<string>;
}

export interface Question {
  readonly id: number;
  readonly kind: keyof Answers;
  readonly input: object;
}

export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly message: string; readonly isBug: boolean };

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly timer: NodeJS.Timeout;
}

export class Experiments {
  readonly #folder: string;
  #worker: Worker | undefined;
  readonly #pending = new Map<number, Pending>();
  #last = 0;
  #idle: NodeJS.Timeout | undefined;

  /** @param folder of the project */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** @throws LayergraftError code `usage` if a plan cannot be read, or takes too long */
  ask<K extends keyof Answers>(kind: K, input: Parameters<Answers[K]>[0]): ReturnType<Answers[K]> {
    const id = ++this.#last;
    clearTimeout(this.#idle);
    const answer = new Promise<unknown>((resolve, reject) => {
      const late = () => {
        const seconds = TIME_TO_ANSWER / 1000;
        this.#end(usageError(`Reading experiments took more than ${seconds} s. Try again, or use the command line.`));
      };
      this.#pending.set(id, { resolve, reject, timer: setTimeout(late, TIME_TO_ANSWER) });
    });
    this.#worker ??= this.#start();
    this.#worker.postMessage({ id, kind, input } satisfies Question);
    return answer as ReturnType<Answers[K]>;
  }

  /** Ends the thread. */
  close(): void {
    this.#end(new LayergraftError("cancelled", "The studio ends."));
  }

  #start(): Worker {
    const data: ReaderData = { folder: this.#folder };
    const worker = new Worker(createRequire(import.meta.url).resolve("#studio-reader"), { workerData: data });
    worker.on("message", (answer: Answer) => this.#receive(answer));
    worker.on("error", (error) => this.#worker === worker && this.#end(error));
    return worker;
  }

  #receive(answer: Answer): void {
    const pending = this.#pending.get(answer.id);
    this.#pending.delete(answer.id);
    clearTimeout(pending?.timer);
    if ("value" in answer) pending?.resolve(answer.value);
    else pending?.reject(answer.isBug ? new Error(answer.message) : usageError(answer.message));
    if (this.#pending.size > 0) return;
    this.#idle = setTimeout(() => this.close(), IDLE);
    this.#idle.unref();
  }

  #end(error: Error): void {
    clearTimeout(this.#idle);
    for (const { reject, timer } of this.#pending.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#pending.clear();
    void this.#worker?.terminate();
    this.#worker = undefined;
  }
}
