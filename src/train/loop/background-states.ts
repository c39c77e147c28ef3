// Writes states in a thread while training goes on. ONNX Runtime blocks the thread that it is called from.
import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { Answerer } from "../../kit/index.js";
import { freeMemory } from "../../kit/memory/index.js";
import { type StateToWrite, writeState } from "./state.js";
import type { StateAnswers } from "./state-thread.js";

/** Bytes that a copy may take: half of what is free, or what LAYERGRAFT_MEMORY leaves of the whole process. */
function roomForCopy(): number {
  const { bytes, limit } = freeMemory();
  return limit === "setting" ? bytes - process.memoryUsage.rss() : bytes / 2;
}

/** One state at a time, as each is a copy of weights and moments: 12 bytes for each number that is trained. */
export class BackgroundStates {
  readonly #states: string;
  #thread: Answerer<StateAnswers> | undefined;
  #writing: Promise<void> | undefined;
  /** Seconds that the latest state took. */
  seconds = 0;

  /** @param states the folder of states */
  constructor(states: string) {
    this.#states = states;
  }

  get isWriting(): boolean {
    return this.#writing !== undefined;
  }

  /**
   * Copies a state and starts to write it. Where memory is too short for a copy, it is written before this returns.
   * @param onProblem called if it cannot be written
   */
  async write(state: StateToWrite, onProblem: (problem: unknown) => void): Promise<void> {
    await this.finish();
    const begin = performance.now();
    const done = () => {
      this.seconds = (performance.now() - begin) / 1000;
    };
    const parameters = [...state.parameters];
    const bytes = parameters.reduce((sum, { weights }) => sum + 3 * weights.byteLength, 0);
    if (bytes > roomForCopy()) {
      await writeState(this.#states, { ...state, parameters });
      return done();
    }
    const copies = parameters.map(({ name, shape, steps, weights, first, second }) => {
      return { name, shape, steps, weights: weights.slice(), first: first.slice(), second: second.slice() };
    });
    const buffers = copies.flatMap((copy) => [copy.weights.buffer, copy.first.buffer, copy.second.buffer]);
    if (!this.#thread || this.#thread.hasEnded)
      this.#thread = new Answerer(new Worker(createRequire(import.meta.url).resolve("#state-thread")));
    this.#writing = this.#thread
      .ask("write", { states: this.#states, state: { ...state, parameters: copies } }, { transfer: buffers })
      .then(done)
      .catch(onProblem)
      .finally(() => {
        this.#writing = undefined;
      });
  }

  /** Waits for what is being written. */
  async finish(): Promise<void> {
    await this.#writing;
  }

  /** Waits for what is being written, and ends the thread. */
  async close(): Promise<void> {
    await this.finish();
    this.#thread?.end();
  }
}
