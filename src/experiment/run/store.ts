// The folder of an experiment:
//   steps/index.txt         what each step does, a line each
//   steps/KEY/step.json     what the step does
//   steps/KEY/attempt.json  how its last attempt went
//   steps/KEY/result.json   its result; exists only if it is complete
//   steps/KEY/job.sh        its job, on Slurm
import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomically } from "../../kit/files/index.js";
import { stringifyWritten } from "../../kit/numbers/index.js";
import { visible } from "../../kit/printing/index.js";
import { keepStart, wallClock } from "../../text/index.js";
import type { Results } from "../expand/facts.js";
import { readResult, type StepResult } from "../steps/result.js";
import { kindOf, type Location, type Step, type StepKind } from "../steps/step.js";
import { STEP_FILES, type StepOrder, type StepSettings } from "../steps/step-state.js";

const INDEX = "index.txt";
const STARTED_FILE = "started.json";

export class Store implements Results {
  readonly folder: string;
  readonly #results = new Map<string, StepResult>();

  constructor(folder: string) {
    this.folder = folder;
  }

  stepFolder(key: string): string {
    return join(this.folder, "steps", key);
  }

  /** When the experiment began: as its folder says, or now. */
  async started(): Promise<string> {
    await mkdir(join(this.folder, "steps"), { recursive: true });
    return wallClock(await keepStart(join(this.folder, "steps", STARTED_FILE), new Date()));
  }

  /** Path of a model: a folder, or FOLDER+ADAPTER. */
  locate(location: Location, others: Readonly<Record<string, Location>>): string {
    if ("folder" in location) return location.folder;
    const own = join(this.stepFolder(location.step), location.path);
    const base = location.adapterOf === undefined ? undefined : others[location.adapterOf];
    return base ? `${this.locate(base, others)}+${own}` : own;
  }

  /** Writes the list of steps: the folder of each, and what it does. */
  async index(steps: readonly Pick<Step, "key" | "label">[]): Promise<void> {
    const lines = steps.map(({ key, label }) => `${key}  ${visible(label.replace(/\s+/g, " "))}\n`);
    await mkdir(join(this.folder, "steps"), { recursive: true });
    await writeFileAtomically(join(this.folder, "steps", INDEX), lines.join(""));
  }

  async prepare(step: Step, settings: StepSettings): Promise<void> {
    const folder = this.stepFolder(step.key);
    await mkdir(folder, { recursive: true });
    const folders = Object.fromEntries(
      Object.entries(step.locations).map(([id, at]) => [id, this.locate(at, step.locations)]),
    );
    const order: StepOrder = { step, folders, settings };
    await rm(join(folder, STEP_FILES.exit), { force: true });
    await writeFileAtomically(join(folder, STEP_FILES.order), `${stringifyWritten(order, 2)}\n`);
  }

  /**
   * Reads the result of a step from the disk and keeps it; undefined if there is none.
   * @throws LayergraftError if the file is not a valid result
   */
  async load(key: string): Promise<StepResult | undefined> {
    const known = this.#results.get(key);
    if (known) return known;
    const result = await readResult(this.stepFolder(key), kindOf(key));
    if (result) this.#results.set(key, result);
    return result;
  }

  /** Number of results that were read. */
  get size(): number {
    return this.#results.size;
  }

  /** Reads the results of the steps in the list, as far as they are there and valid. */
  async loadIndexed(): Promise<void> {
    const text = await readFile(join(this.folder, "steps", INDEX), "utf8").catch(() => "");
    for (const [key] of text.matchAll(/^\w+-\w+(?= )/gm)) await this.load(key).catch(() => undefined);
  }

  result(key: string): StepResult | undefined {
    return this.#results.get(key);
  }

  trained(key: string) {
    return this.#of(key, "train")?.checkpoints;
  }

  suggested(key: string) {
    return this.#of(key, "analyze")?.suggested;
  }

  overlap(key: string) {
    return this.#of(key, "analyze")?.overlap;
  }

  changed(key: string) {
    return this.#of(key, "analyze")?.changed;
  }

  evaluated(key: string) {
    return this.#of(key, "evaluate");
  }

  #of<K extends StepKind>(key: string, kind: K): Extract<StepResult, { kind: K }> | undefined {
    const result = this.#results.get(key);
    return result?.kind === kind ? (result as Extract<StepResult, { kind: K }>) : undefined;
  }
}
