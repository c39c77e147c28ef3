// Questions to a thread of the studio and its answers, with events on the way. Errors are sent as plain data, because
// messages do not keep classes.
import { createRequire } from "node:module";
import { parentPort, Worker } from "node:worker_threads";
import { type ErrorWhere, isAnySystemError, LayergraftError, messageOf } from "../../kit/index.js";
import type { Progress } from "../protocol/index.js";

export type ThreadEvent =
  | { readonly type: "progress"; readonly progress: Progress }
  | { readonly type: "text"; readonly stream: string; readonly text: string };

interface Question {
  readonly id: number;
  readonly kind: string;
  readonly input: unknown;
}

const CANCEL = "cancel";
/** Milliseconds to end by itself: more than the steps of an experiment have. */
const GRACE = 20_000;

/** An error without a code is a bug. */
type PlainError = { readonly message: string; readonly code?: string; readonly where?: ErrorWhere };

type Reply = { readonly event: ThreadEvent } | { readonly value: unknown } | { readonly error: PlainError };

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly onEvent?: ((event: ThreadEvent) => void) | undefined;
}

/** A thread that answers questions until it is ended. */
export class Thread {
  readonly #worker = new Worker(createRequire(import.meta.url).resolve("#studio-thread"));
  readonly #pending = new Map<number, Pending>();
  #last = 0;
  /** When all questions so far are answered. */
  #answered: Promise<unknown> = Promise.resolve();
  hasEnded = false;

  constructor() {
    this.#worker.on("message", ({ id, ...reply }: Reply & { readonly id: number }) => this.#receive(id, reply));
    this.#worker.on("error", (error: Error) => this.end(error));
    this.#worker.on("exit", () => this.end());
  }

  get isIdle(): boolean {
    return this.#pending.size === 0;
  }

  /** @throws LayergraftError as the thread threw it; another error is a bug */
  ask(kind: string, input: unknown, onEvent?: (event: ThreadEvent) => void): Promise<unknown> {
    const id = ++this.#last;
    this.#worker.postMessage({ id, kind, input } satisfies Question);
    const answer = new Promise((resolve, reject) => void this.#pending.set(id, { resolve, reject, onEvent }));
    this.#answered = Promise.allSettled([this.#answered, answer]).then(() => undefined);
    return answer;
  }

  /** Asks the thread to stop what it does. Its answers to that are then errors of code `cancelled`. */
  cancel(): void {
    this.#worker.postMessage(CANCEL);
  }

  /** Ends the thread once it has stopped, or after a while: ONNX Runtime aborts the process where a thread ends in the middle. */
  async stop(): Promise<void> {
    this.cancel();
    const timer = setTimeout(() => this.end(), GRACE);
    await this.#answered;
    clearTimeout(timer);
    this.end();
  }

  /** Ends the thread. @param error answers the questions that are open */
  end(error: Error = new LayergraftError("cancelled", "The thread ended.")): void {
    this.hasEnded = true;
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
    void this.#worker.terminate();
  }

  #receive(id: number, reply: Reply): void {
    const pending = this.#pending.get(id);
    if ("event" in reply) pending?.onEvent?.(reply.event);
    else this.#pending.delete(id);
    if ("value" in reply) pending?.resolve(reply.value);
    if ("error" in reply) {
      const { code, message, where } = reply.error;
      pending?.reject(code === undefined ? new Error(message) : new LayergraftError(code, message, where));
    }
  }
}

export interface Controls {
  readonly signal: AbortSignal;
  readonly onEvent: (event: ThreadEvent) => void;
}

/** Called once in a thread. @param answers what it does, by kind of question */
export function answerQuestions(
  answers: Readonly<Record<string, (input: never, controls: Controls) => Promise<unknown>>>,
): void {
  let controller = new AbortController();
  parentPort?.on("message", async (message: Question | typeof CANCEL) => {
    if (message === CANCEL) {
      controller.abort();
      // Later questions are not meant.
      controller = new AbortController();
      return;
    }
    const { id, kind, input } = message;
    const send = (reply: Reply) => parentPort?.postMessage({ id, ...reply });
    try {
      const controls = { signal: controller.signal, onEvent: (event: ThreadEvent) => send({ event }) };
      send({ value: await answers[kind]?.(input as never, controls) });
    } catch (error) {
      send({ error: plain(error) });
    }
  });
}

function plain(error: unknown): PlainError {
  if (isAnySystemError(error)) return { code: "usage", message: messageOf(error) };
  if (error instanceof LayergraftError) return { code: error.code, message: error.message, where: error.where };
  return { message: messageOf(error) };
}
