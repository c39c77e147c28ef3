// Questions to a thread or a process and its answers, with events on the way. Errors travel as plain data, because messages
// do not keep classes.
import type { ChildProcess } from "node:child_process";
import { parentPort, type Transferable, type Worker } from "node:worker_threads";
import {
  CancelledError,
  DiskFullError,
  type ErrorWhere,
  FormatError,
  isAnySystemError,
  isOutOfMemory,
  LayergraftError,
  messageOf,
  OUT_OF_MEMORY,
  OutputError,
} from "./errors.js";

/** An error without a code is a bug. */
export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly where?: ErrorWhere;
}

/** An error as data. Errors of the operating system, and of memory, get words for people. */
export function plainError(error: unknown): PlainError {
  if (error instanceof LayergraftError) {
    const { name, message, code, where } = error;
    return { name, message, code, where };
  }
  if (isOutOfMemory(error)) return { name: "LayergraftError", message: OUT_OF_MEMORY, code: "memory" };
  const message = messageOf(error);
  if (!isAnySystemError(error)) return { name: error instanceof Error ? error.name : "Error", message };
  const { name } = DiskFullError.isMeantBy(error) ? DiskFullError : OutputError;
  return { name, message, code: "output", where: error.path === undefined ? {} : { file: error.path } };
}

const CLASSES = { CancelledError, DiskFullError, FormatError, OutputError };

/** The error that was thrown elsewhere. */
export function errorOf({ name, message, code, where = {} }: PlainError): Error {
  const known = Object.entries(CLASSES).find(([one]) => one === name)?.[1];
  if (known) return new known(message, where);
  if (code !== undefined) return new LayergraftError(code, message, where);
  return Object.assign(name === "SyntaxError" ? new SyntaxError(message) : new Error(message), { name });
}

export interface Controls<E = never> {
  readonly signal: AbortSignal;
  readonly onEvent: (event: E) => void;
}

/** What a thread or process does, by kind of question. */
export type Answers = Readonly<Record<string, (input: never, controls: never) => unknown>>;

interface Question {
  readonly id: number;
  readonly kind: string;
  readonly input: unknown;
}

type Reply<E> = { readonly event: E } | { readonly value: unknown } | { readonly error: PlainError };

const CANCEL = "cancel";
/** Milliseconds to end by itself: more than the steps of an experiment have. */
const GRACE = 20_000;

interface Pending<E> {
  readonly resolve: (value: never) => void;
  readonly reject: (error: Error) => void;
  readonly onEvent: ((event: E) => void) | undefined;
}

/** A thread or process that answers questions until it is ended. */
export class Answerer<A extends Answers, E = never> {
  readonly #peer: Worker | ChildProcess;
  readonly #pending = new Map<number, Pending<E>>();
  #last = 0;
  /** When all questions so far are answered. */
  #answered: Promise<unknown> = Promise.resolve();
  hasEnded = false;

  /** @param ended the error of questions that are open when it ends by itself */
  constructor(
    peer: Worker | ChildProcess,
    ended: (code: number | null) => Error = () => new CancelledError("The thread ended."),
  ) {
    this.#peer = peer;
    peer.on("message", ({ id, ...reply }: Reply<E> & { readonly id: number }) => this.#receive(id, reply));
    peer.on("error", (error: Error) => this.end(error));
    peer.on("exit", (code: number | null) => this.end(ended(code)));
  }

  get isIdle(): boolean {
    return this.#pending.size === 0;
  }

  /**
   * @param options.transfer what is moved to a thread and not copied
   * @throws LayergraftError as it was thrown there; another error is a bug
   */
  ask<K extends keyof A & string>(
    kind: K,
    input: Parameters<A[K]>[0],
    options: { readonly onEvent?: (event: E) => void; readonly transfer?: readonly Transferable[] } = {},
  ): Promise<Awaited<ReturnType<A[K]>>> {
    if (this.hasEnded) return Promise.reject(new CancelledError("The thread ended."));
    const id = ++this.#last;
    const answer = new Promise<Awaited<ReturnType<A[K]>>>((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, onEvent: options.onEvent });
    });
    this.#answered = Promise.allSettled([this.#answered, answer]).then(() => undefined);
    this.#send({ id, kind, input } satisfies Question, options.transfer);
    return answer;
  }

  /** Asks to stop what is done. Answers to that are then errors of code `cancelled`. */
  cancel(): void {
    this.#send(CANCEL);
  }

  /** Ends it once it has stopped, or after a while: ONNX Runtime aborts the process where a thread ends in the middle. */
  async stop(): Promise<void> {
    this.cancel();
    const timer = setTimeout(() => this.end(), GRACE);
    await this.#answered;
    clearTimeout(timer);
    this.end();
  }

  /** Ends it at once. @param error answers the questions that are open */
  end(error: Error = new CancelledError("The thread ended.")): void {
    this.hasEnded = true;
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
    if ("terminate" in this.#peer) void this.#peer.terminate();
    else this.#peer.kill("SIGKILL");
  }

  #send(message: Question | typeof CANCEL, transfer: readonly Transferable[] = []): void {
    if ("postMessage" in this.#peer) this.#peer.postMessage(message, transfer);
    // Its end is an event of its own.
    else this.#peer.send(message, () => undefined);
  }

  #receive(id: number, reply: Reply<E>): void {
    const pending = this.#pending.get(id);
    if ("event" in reply) pending?.onEvent?.(reply.event);
    else this.#pending.delete(id);
    if ("value" in reply) pending?.resolve(reply.value as never);
    if ("error" in reply) pending?.reject(errorOf(reply.error));
  }
}

/** Called once in a thread or process. @returns what cancels the questions so far, as a message does */
export function answerQuestions(answers: Answers): () => void {
  let controller = new AbortController();
  const cancel = () => {
    controller.abort();
    // Later questions are not meant.
    controller = new AbortController();
  };
  const send = (message: object) => {
    if (parentPort) parentPort.postMessage(message);
    // Whoever asked may be gone.
    else if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
  };
  (parentPort ?? process).on("message", async (message: Question | typeof CANCEL) => {
    if (message === CANCEL) return cancel();
    const { id, kind, input } = message;
    try {
      const controls = { signal: controller.signal, onEvent: (event: unknown) => send({ id, event }) };
      send({ id, value: await answers[kind]?.(input as never, controls as never) });
    } catch (error) {
      send({ id, error: plainError(error) });
    }
  });
  return cancel;
}
