// results.json is written last, so a folder with it is complete.
import { mkdir, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  exists,
  isFile,
  LOCK_FILE,
  type Lock,
  readBounded,
  takeLock,
  writeFileAtomically,
} from "../../kit/files/index.js";
import { differencesOf, isSystemError, OutputError } from "../../kit/index.js";
import { formatSome, shorten } from "../../kit/printing/index.js";
import { AnswerCache } from "../backends/answer-cache.js";
import type { Results, RunRecord, Sample } from "./result-types.js";

const SETTINGS_FILE = "settings.json";
export const ANSWERS_FILE = "answers.jsonl";
const RESULTS_FILE = "results.json";
const RUN_FILE = "run.json";
/** Of settings, which are a few kB. */
const MAX_SETTINGS_BYTES = 10_000_000;
const SHARED_FILE = "shared-prompts.json";
/** The output of the user's server. */
export const SERVER_LOG = "server.log";

/** The settings of a run that was killed while it wrote them. */
const LEFT_OVER = new RegExp(`^${SETTINGS_FILE}\\.[0-9a-f]+\\.tmp$`);

export function samplesFile(task: string): string {
  return `samples-${task.replace(/[^\w.-]/g, "_")}.jsonl`;
}

/** JSON has no NaN; all files of the folder have null instead. */
function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

export class ResultFolder {
  readonly path: string;
  readonly cache: AnswerCache;

  readonly #lock: Lock;

  private constructor(path: string, cache: AnswerCache, lock: Lock) {
    this.path = path;
    this.cache = cache;
    this.#lock = lock;
  }

  /**
   * Checks that an evaluation may write here, before anything is computed.
   * @throws OutputError when something else is there, or results and `resume` is not set
   */
  static async check(path: string, resume: boolean): Promise<void> {
    let names: string[];
    try {
      names = await readdir(path);
    } catch (error) {
      if (isSystemError(error, "ENOENT")) return;
      if (isSystemError(error, "ENOTDIR")) throw new OutputError(`${path} is a file; choose a folder`, { file: path });
      throw error;
    }
    const others = names.filter((name) => name !== SERVER_LOG && !name.startsWith(LOCK_FILE) && !LEFT_OVER.test(name));
    if (others.length === 0) return;
    if (!names.includes(SETTINGS_FILE)) {
      const message = `${path} is not empty and not an evaluation (it has ${formatSome(names)}); choose another folder`;
      throw new OutputError(message, { file: path });
    }
    if (!resume) {
      throw new OutputError(`${path} already has an evaluation`, { file: path, option: "resume" });
    }
  }

  /**
   * Opens the folder for one evaluation, makes it where it is not there, and locks it.
   * @param settings everything that answers and scores depend on; an earlier run's must be equal
   * @throws OutputError when its settings are others
   * @throws LayergraftError code "locked" when another run holds it
   */
  static async open(path: string, settings: object, resume: boolean): Promise<ResultFolder> {
    const folder = resolve(path);
    await ResultFolder.check(folder, resume);
    await mkdir(folder, { recursive: true });
    const lock = await takeLock(folder);
    try {
      const file = join(folder, SETTINGS_FILE);
      const wanted = toJson(settings);
      if (await exists(file)) checkSettings(folder, await readText(file), wanted);
      else await writeFileAtomically(file, wanted);
      return new ResultFolder(folder, await AnswerCache.open(join(folder, ANSWERS_FILE)), lock);
    } catch (error) {
      await lock.release();
      throw error;
    }
  }

  async writeSamples(task: string, samples: readonly Sample[]): Promise<void> {
    const lines = samples.map((sample) => `${JSON.stringify(sample)}\n`);
    await writeFileAtomically(join(this.path, samplesFile(task)), lines.join(""));
  }

  /** Writes what ends an evaluation. @param shared beginnings of prompts by their digest */
  async writeResults(results: Results, shared: Readonly<Record<string, unknown>>, run: RunRecord): Promise<void> {
    // Sorted, as answers come in any order.
    const sorted = Object.fromEntries(Object.entries(shared).sort(([a], [b]) => (a < b ? -1 : 1)));
    await writeFileAtomically(join(this.path, SHARED_FILE), toJson(sorted));
    await writeFileAtomically(join(this.path, RUN_FILE), toJson(run));
    await writeFileAtomically(join(this.path, RESULTS_FILE), toJson(results));
  }

  /** Unlocks the folder. @throws OutputError if answers could not be stored */
  async close(): Promise<void> {
    try {
      await this.cache.close();
    } finally {
      await this.#lock.release();
    }
  }
}

/** The text of a regular file; empty for a pipe or a device, which could be read without end. */
async function readText(file: string): Promise<string> {
  if (!(await isFile(file))) return "";
  return readBounded(file, MAX_SETTINGS_BYTES, () => new OutputError(`${file} is too large`, { file })).then(String);
}

/** Settings of the earlier run and of this one must be the same to the letter; says what differs. */
function checkSettings(folder: string, before: string, now: string): void {
  if (before === now) return;
  let differing: string[] = [];
  try {
    differing = differencesOf(JSON.parse(before), JSON.parse(now)).map(
      ({ field, saved, current }) => `${field} was ${shown(saved)}, now ${shown(current)}`,
    );
  } catch {
    differing = [`its ${SETTINGS_FILE} is not JSON`];
  }
  throw new OutputError(
    `${folder} has an evaluation with other settings, which cannot be resumed: ${formatSome(differing, 4)}. Choose another folder`,
    { file: folder, field: "settings" },
  );
}

function shown(value: unknown): string {
  if (value === undefined) return "not there";
  return shorten(JSON.stringify(value).replace(/[0-9a-f]{64}/g, (digest) => `${digest.slice(0, 8)}...`));
}
