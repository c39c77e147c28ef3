import { basename } from "node:path";
import { formatSome, LayergraftError } from "../../core/index.js";
import { ReadFacts } from "./facts-reader.js";

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

/**
 * Checks that models and data have the contents that the experiment identified. Files whose size and times are the same are
 * not read again.
 * @throws LayergraftError code `changed` if they have others
 */
export async function checkInputs(watched: Watched, places: Places, when: "before" | "after"): Promise<void> {
  const others = await otherInputs(watched, places);
  const [first] = others;
  if (first === undefined) return;
  const names = formatSome(others.map((path) => basename(path)));
  throw new LayergraftError(
    "changed",
    when === "before"
      ? `${names} changed since the experiment was started or resumed. Run it again; it reads everything again.`
      : `${names} changed while the step ran, so its result was discarded. Run the experiment again to compute it.`,
    { file: first },
  );
}

/** Models and data with other contents than those that were identified. */
async function otherInputs({ folders, run, data }: Watched, places: Places): Promise<string[]> {
  const facts = new ReadFacts(places);
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
