// results.json is written last, so a folder with it is complete.
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import {
  changesOf,
  exists,
  filesOfRun,
  isFile,
  LockedFolder,
  readBounded,
  requireOwnFiles,
  writeFileAtomically,
} from "../../kit/files/index.js";
import { OutputError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { keepStart } from "../../text/index.js";
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

/** What an evaluation writes, by its path in the folder, with what other commands add to it. */
const OWN =
  /^(settings|results|run|shared-prompts)\.json$|^(answers|samples-[\w.-]+)\.jsonl$|^server\.log$|^\.eval_results\/|\.tmp$/;

/** The settings of a run that was killed while it wrote them. */
const LEFT_OVER = new RegExp(`^${SETTINGS_FILE}\\.[0-9a-f]+\\.tmp$`);

export function samplesFile(task: string): string {
  return `samples-${task.replace(/[^\w.-]/g, "_")}.jsonl`;
}

/** JSON has no NaN; all files of the folder have null instead. */
function toJson(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

export class ResultFolder extends LockedFolder {
  #cache: AnswerCache | undefined;
  #started: Date | undefined;

  /** Answers so far. */
  get cache(): AnswerCache {
    if (!this.#cache) throw new Error(`${this.path} is not open`);
    return this.#cache;
  }

  /** When the first attempt began, which chat templates may write. */
  get started(): Date {
    if (!this.#started) throw new Error(`${this.path} is not open`);
    return this.#started;
  }

  /**
   * Checks that an evaluation may write here, before anything is computed.
   * @throws OutputError when something else is there, or results and `resume` is not set
   */
  static async check(path: string, resume: boolean): Promise<void> {
    const isFree = (name: string) => name === SERVER_LOG || LEFT_OVER.test(name);
    const names = await filesOfRun(path, "evaluation", (all) => all.includes(SETTINGS_FILE) || all.every(isFree));
    if (!resume && !names.every(isFree)) {
      throw new OutputError(`${path} already has an evaluation`, { file: path, option: "resume" });
    }
  }

  /**
   * Removes an earlier evaluation.
   * @throws OutputError if a person put other files there
   */
  static async remove(path: string): Promise<void> {
    await requireOwnFiles(path, (name) => OWN.test(name));
    await rm(path, { recursive: true, force: true });
  }

  /**
   * Opens the folder for one evaluation, makes it where it is not there, and locks it.
   * @param settings everything that answers and scores depend on; an earlier run's must be equal
   * @param now its start, if there was no earlier attempt
   * @throws OutputError when its settings are others
   * @throws LayergraftError code "locked" when another run holds it
   */
  static async open(path: string, settings: object, resume: boolean, now = new Date()): Promise<ResultFolder> {
    const folder = new ResultFolder(resolve(path));
    await ResultFolder.check(folder.path, resume);
    await folder.lock();
    try {
      const file = join(folder.path, SETTINGS_FILE);
      const wanted = toJson(settings);
      if (await exists(file)) checkSettings(folder.path, await readText(file), wanted);
      else await writeFileAtomically(file, wanted);
      folder.#started = await keepStart(join(folder.path, RUN_FILE), now);
      folder.#cache = await AnswerCache.open(join(folder.path, ANSWERS_FILE));
      return folder;
    } catch (error) {
      await folder.close();
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
  override async close(): Promise<void> {
    try {
      await this.#cache?.close();
    } finally {
      await super.close();
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
    differing = changesOf(JSON.parse(before), JSON.parse(now)).map(({ text }) => text);
  } catch {
    differing = [`its ${SETTINGS_FILE} is not JSON`];
  }
  throw new OutputError(
    `${folder} has an evaluation with other settings, which cannot be resumed: ${formatSome(differing, 4)}. Choose another folder`,
    { file: folder, field: "settings" },
  );
}
