// What a step reads, watched: models and data must be those that the experiment identified, from the step's beginning to
// its end. What identifies them is facts-reader.ts's; what a step does with them, run-step.ts's.

import { readdir, readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { canonicalJson, formatSome, LayergraftError, stampOf, writeFileAtomically } from "../../core/index.js";
import { locateSource } from "../../weights/index.js";
import { isModelFile, ReadFacts } from "./facts-reader.js";

/** By identity: the files of the model, each with size, times and number on the disk. */
export type Stamps = Readonly<Record<string, readonly string[]>>;

/** Name of the file in a step's folder with the stamps under which it was begun. */
const INPUTS_FILE = "inputs.json";

/** Stamps of the models of a step. @param folders by identity: absolute, or FOLDER+ADAPTER */
async function stampsOf(folders: Readonly<Record<string, string>>): Promise<Stamps> {
  const stamps: Record<string, readonly string[]> = {};
  for (const [identity, source] of Object.entries(folders)) {
    const { folder, adapter } = await locateSource(source);
    const lines: string[] = [];
    for (const place of adapter === undefined ? [folder] : [folder, adapter]) {
      for (const name of (await readdir(place)).filter(isModelFile).sort()) {
        lines.push(`${name} ${await stampOf(join(place, name))}`);
      }
    }
    stamps[identity] = lines;
  }
  return stamps;
}

/** What a step needs to know of its world to watch it. */
export interface Watched {
  /** By identity: absolute, or FOLDER+ADAPTER. */
  readonly folders: Readonly<Record<string, string>>;
  /** Of a training step: its run, and what identified the run's data. */
  readonly run?: Readonly<Record<string, unknown>>;
  readonly data?: string | undefined;
}

/** The inputs of a step that runs. */
export class StepInputs {
  readonly #watched: Watched;
  readonly #places: { readonly folder: string; readonly cache: string };
  readonly stamps: Stamps;

  private constructor(watched: Watched, places: { folder: string; cache: string }, stamps: Stamps) {
    this.#watched = watched;
    this.#places = places;
    this.stamps = stamps;
  }

  /**
   * Looks at a step's inputs before it begins.
   * @param places `folder`: where relative paths of the plan start; `cache`: where the experiment keeps digests of files,
   *   so that those of large ones are not computed again
   * @throws {LayergraftError} code `changed` if they are not what the experiment identified
   */
  static async open(watched: Watched, places: { folder: string; cache: string }): Promise<StepInputs> {
    const inputs = new StepInputs(watched, places, await stampsOf(watched.folders));
    const others = await inputs.#others();
    if (others.length > 0) {
      throw new LayergraftError(
        "changed",
        `${formatSome(others)} changed since the experiment was started or resumed. Run it again; it reads everything again.`,
      );
    }
    return inputs;
  }

  /** Models whose files were written to since `open`, even if they hold the same as before by now. */
  async touched(): Promise<string[]> {
    const now = await stampsOf(this.#watched.folders).catch(() => ({}) as Stamps); // one is gone: none is as it was
    const { folders } = this.#watched;
    return Object.keys(folders)
      .filter((identity) => canonicalJson(now[identity]) !== canonicalJson(this.stamps[identity]))
      .map((identity) => folders[identity] ?? identity);
  }

  /**
   * @throws {LayergraftError} code `changed` if a model was written to since `open`
   */
  async check(): Promise<void> {
    refuseChanged(await this.touched());
  }

  /**
   * The same by what models and data hold, for steps that take long and read their model once.
   * @throws {LayergraftError} code `changed`
   */
  async checkContents(): Promise<void> {
    refuseChanged(await this.#others());
  }

  /** What holds other bytes than those that were identified. */
  async #others(): Promise<string[]> {
    const { folders, run, data } = this.#watched;
    const facts = new ReadFacts(this.#places);
    const others: string[] = [];
    for (const [identity, folder] of Object.entries(folders)) {
      // What a step made is known by the step; what a test calls a model, by nothing.
      if (!identity.startsWith("sha256:")) continue;
      await facts.readModel(folder, [folder]);
      if (facts.modelIdentity(folder).identity !== identity) others.push(folder);
    }
    if (run && data !== undefined) {
      await facts.readData(run, ["data"]);
      if (facts.dataIdentity(run) !== data) others.push("the training data");
    }
    return others;
  }

  /**
   * Notes in a step's folder what it is begun with. What an earlier try left there that was begun with other files is
   * cleared first: answers to other bytes must not be resumed.
   */
  async begin(folder: string, clear: () => Promise<void>): Promise<void> {
    const path = join(folder, INPUTS_FILE);
    const text = `${canonicalJson(this.stamps)}\n`;
    if ((await readFile(path, "utf8").catch(() => undefined)) === text) return;
    await rm(path, { force: true });
    await clear();
    await writeFileAtomically(path, text);
  }
}

function refuseChanged(changed: readonly string[]): void {
  if (changed.length === 0) return;
  const names = changed.map((path) => basename(path));
  throw new LayergraftError(
    "changed",
    `${formatSome(names)} changed while the step ran, so its result was discarded. Run the experiment again to compute it.`,
    { file: changed[0] as string },
  );
}
