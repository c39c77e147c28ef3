import { readFile, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { canonicalJson, formatSome, LayergraftError, stampOf, writeFileAtomically } from "../../core/index.js";
import { locateSource } from "../../weights/index.js";
import { ReadFacts } from "./facts-reader.js";
import { modelFiles } from "./file-digests.js";

/** By identity of a model: its files, each with size, times and inode. */
export type Stamps = Readonly<Record<string, readonly string[]>>;

/** In a step's folder: the stamps with which it began. */
const INPUTS_FILE = "inputs.json";

/** @param folders by identity: absolute, or FOLDER+ADAPTER */
async function stampsOf(folders: Readonly<Record<string, string>>): Promise<Stamps> {
  const stamps: Record<string, readonly string[]> = {};
  for (const [identity, source] of Object.entries(folders)) {
    const { folder, adapter } = await locateSource(source);
    const lines: string[] = [];
    for (const place of adapter === undefined ? [folder] : [folder, adapter]) {
      const { folder, names } = await modelFiles(place);
      for (const name of names.sort()) {
        lines.push(`${name} ${await stampOf(join(folder, name))}`);
      }
    }
    stamps[identity] = lines;
  }
  return stamps;
}

export interface Watched {
  /** By identity: absolute, or FOLDER+ADAPTER. */
  readonly folders: Readonly<Record<string, string>>;
  /** Of a training step: its run, and the identity of the run's data. */
  readonly run?: Readonly<Record<string, unknown>>;
  readonly data?: string | undefined;
}

/** Folder that the plan's relative paths start from, and folder of the cache of digests. */
interface Places {
  readonly folder: string;
  readonly cache: string;
}

export class StepInputs {
  readonly #watched: Watched;
  readonly #places: Places;
  readonly stamps: Stamps;

  private constructor(watched: Watched, places: Places, stamps: Stamps) {
    this.#watched = watched;
    this.#places = places;
    this.stamps = stamps;
  }

  /** @throws LayergraftError code `changed` if the inputs are not those that the experiment identified */
  static async open(watched: Watched, places: Places): Promise<StepInputs> {
    const inputs = new StepInputs(watched, places, await stampsOf(watched.folders));
    const others = await inputs.#others();
    if (others.length === 0) return inputs;
    throw new LayergraftError(
      "changed",
      `${formatSome(others)} changed since the experiment was started or resumed. Run it again; it reads everything again.`,
    );
  }

  /** @throws LayergraftError code `changed` if a model's files were written to, even with the same contents */
  async check(): Promise<void> {
    const now = await stampsOf(this.#watched.folders).catch(() => ({}) as Stamps); // a model is gone
    const written = Object.entries(this.#watched.folders).filter(
      ([identity]) => canonicalJson(now[identity]) !== canonicalJson(this.stamps[identity]),
    );
    refuseChanged(written.map(([, folder]) => folder));
  }

  /** @throws LayergraftError code `changed` if the contents of a model or of the data changed */
  async checkContents(): Promise<void> {
    refuseChanged(await this.#others());
  }

  /** Models and data with other contents than those that were identified. */
  async #others(): Promise<string[]> {
    const { folders, run, data } = this.#watched;
    const facts = new ReadFacts(this.#places);
    const others: string[] = [];
    for (const [identity, folder] of Object.entries(folders)) {
      // Output of a step has the step's key as its identity.
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

  /** Saves the stamps with which a step begins. Output of an attempt with other stamps is cleared first. */
  async begin(folder: string, clear: () => Promise<void>): Promise<void> {
    const path = join(folder, INPUTS_FILE);
    const text = `${canonicalJson(this.stamps)}\n`;
    if ((await readFile(path, "utf8").catch(() => undefined)) === text) return;
    await rm(path, { force: true });
    await clear();
    await writeFileAtomically(path, text);
  }
}

function refuseChanged([first, ...others]: readonly string[]): void {
  if (first === undefined) return;
  const names = [first, ...others].map((path) => basename(path));
  throw new LayergraftError(
    "changed",
    `${formatSome(names)} changed while the step ran, so its result was discarded. Run the experiment again to compute it.`,
    { file: first },
  );
}
