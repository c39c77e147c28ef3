// The ledger of an experiment: what happened to each step, one JSON line per event, only ever added to.
// Not the results themselves, which stand in each step's own folder (store.ts).
import { type FileHandle, open, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { isSystemError, LayergraftError } from "../core/errors.js";
import { syncFolder } from "../core/files.js";

export const LEDGER_FILE = "ledger.jsonl";

/** Who runs a step: a process of a machine, or a job of a cluster. */
const runnerSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("local"), host: z.string(), pid: z.int() }),
  z.object({ kind: z.literal("slurm"), job: z.string() }),
]);
export type StepRunnerId = z.output<typeof runnerSchema>;

const eventSchema = z.discriminatedUnion("event", [
  z.object({ event: z.literal("started"), at: z.string(), key: z.string(), label: z.string(), runner: runnerSchema }),
  z.object({
    event: z.literal("done"),
    at: z.string(),
    key: z.string(),
    /** Wall-clock seconds of the step. */
    seconds: z.number(),
    /** Bytes that the step left in its folder. */
    bytes: z.number().optional(),
  }),
  z.object({ event: z.literal("failed"), at: z.string(), key: z.string(), reason: z.string(), seconds: z.number() }),
  /** It was stopped, or what ran it went away: it may be tried again, and that counts as no failure. */
  z.object({ event: z.literal("stopped"), at: z.string(), key: z.string(), reason: z.string() }),
]);

export type LedgerEvent = z.output<typeof eventSchema>;
type WithoutTime<E> = E extends unknown ? Omit<E, "at"> : never;

/** What the ledger says of a step; one of which it says nothing is pending. */
export type StepState =
  | { readonly state: "pending"; readonly attempts: number; readonly reason?: string }
  | { readonly state: "running"; readonly attempts: number; readonly since: string; readonly runner: StepRunnerId }
  | { readonly state: "done"; readonly attempts: number; readonly seconds: number; readonly bytes?: number }
  | { readonly state: "failed"; readonly attempts: number; readonly reason: string; readonly seconds: number };

const PENDING: StepState = { state: "pending", attempts: 0 };

/**
 * An open ledger. Each event is on the disk before `add` returns; a line that a crash cut short is dropped when the
 * ledger is opened next, and what it would have said is found out again.
 */
export class Ledger {
  readonly path: string;
  readonly #handle: FileHandle | undefined;
  readonly #states: Map<string, StepState>;
  #adding: Promise<void> = Promise.resolve();

  private constructor(path: string, handle: FileHandle | undefined, states: Map<string, StepState>) {
    this.path = path;
    this.#handle = handle;
    this.#states = states;
  }

  /**
   * Opens the ledger of a folder to add to it; creates it if there is none. Whoever does so must hold the folder's lock.
   * @throws {LayergraftError} if a line other than the last is damaged
   */
  static async open(folder: string): Promise<Ledger> {
    const path = join(folder, LEDGER_FILE);
    const { states, sound } = await readEvents(path);
    const isNew = sound === undefined;
    const handle = await open(path, "a");
    if (isNew) await syncFolder(dirname(path));
    else if ((await handle.stat()).size > sound) await handle.truncate(sound);
    return new Ledger(path, handle, states);
  }

  /** Reads the ledger of a folder, for `status` and reports; another process may be adding to it. */
  static async read(folder: string): Promise<Ledger> {
    const path = join(folder, LEDGER_FILE);
    return new Ledger(path, undefined, (await readEvents(path)).states);
  }

  /** What is known of a step. */
  stateOf(key: string): StepState {
    return this.#states.get(key) ?? PENDING;
  }

  /** Every step that the ledger names. */
  get steps(): ReadonlyMap<string, StepState> {
    return this.#states;
  }

  /** Adds an event, durably. Events of one process are kept in the order of the calls. */
  add(event: WithoutTime<LedgerEvent>): Promise<void> {
    const handle = this.#handle;
    if (!handle) throw new TypeError("this ledger was opened for reading");
    const stamped = { ...event, at: new Date().toISOString() } as LedgerEvent;
    apply(this.#states, stamped);
    // One write per line, so that a crash can tear only the last one.
    this.#adding = this.#adding.then(async () => {
      await handle.appendFile(`${JSON.stringify(stamped)}\n`);
      await handle.datasync();
    });
    return this.#adding;
  }

  async close(): Promise<void> {
    await this.#adding;
    await this.#handle?.close();
  }
}

/** States by step, and how many bytes of the file are whole lines; nothing of a file that is not there. */
async function readEvents(path: string): Promise<{ states: Map<string, StepState>; sound?: number }> {
  const states = new Map<string, StepState>();
  let content: Buffer;
  try {
    content = await readFile(path);
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return { states };
    throw error;
  }
  const sound = content.lastIndexOf(0x0a) + 1;
  const lines = content.subarray(0, sound).toString("utf8").split("\n").slice(0, -1);
  for (const [i, line] of lines.entries()) {
    const event = parseEvent(line);
    if (event) {
      apply(states, event);
    } else if (i < lines.length - 1) {
      throw new LayergraftError(
        "ledger",
        `${path}, line ${i + 1}: this is not an event of a ledger; restore the file from a copy, or delete that line, whose step will then run again`,
        { file: path },
      );
    } else {
      // A last line that ends but says nothing: blocks of a crashed write that never reached the disk.
      return { states, sound: sound - Buffer.byteLength(line) - 1 };
    }
  }
  return { states, sound };
}

function parseEvent(line: string): LedgerEvent | undefined {
  try {
    return eventSchema.parse(JSON.parse(line));
  } catch {
    return undefined;
  }
}

function apply(states: Map<string, StepState>, event: LedgerEvent): void {
  const { attempts } = states.get(event.key) ?? PENDING;
  states.set(event.key, next(event, attempts));
}

function next(event: LedgerEvent, attempts: number): StepState {
  switch (event.event) {
    case "started":
      return { state: "running", attempts: attempts + 1, since: event.at, runner: event.runner };
    case "done":
      return {
        state: "done",
        attempts,
        seconds: event.seconds,
        ...(event.bytes === undefined ? {} : { bytes: event.bytes }),
      };
    case "failed":
      return { state: "failed", attempts, reason: event.reason, seconds: event.seconds };
    case "stopped":
      return { state: "pending", attempts: attempts - 1, reason: event.reason };
  }
}
