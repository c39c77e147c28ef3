// The picture of a merge in the cards of the models that were written from its recipe.
import { join, resolve } from "node:path";
import { z } from "zod";
import { isFile } from "../../kit/files/index.js";
import { pictureInCard } from "../../merge/output/index.js";
import { readJobs } from "../jobs/jobs.js";
import { fingerprintsOf } from "../models/fingerprints.js";
import { PRIVATE_FOLDER } from "../project/project.js";
import { haveChanged } from "../protocol/index.js";

const written = z.object({ recipe: z.string(), out: z.string() });

/** Models that the project wrote from a recipe as it is now. */
async function writtenFrom(project: string, name: string): Promise<string[]> {
  const latest = new Map<string, boolean>();
  for (const { kind, state, input, fingerprints = {} } of await readJobs(join(project, PRIVATE_FOLDER, "jobs"))) {
    const { data } = written.safeParse(kind === "merge" && state === "done" ? input : undefined);
    if (!data) continue;
    const isSame = !haveChanged(fingerprints, await fingerprintsOf(Object.keys(fingerprints), project));
    latest.set(resolve(project, data.out), data.recipe === name && isSame);
  }
  return [...latest].flatMap(([folder, isOf]) => (isOf ? [folder] : []));
}

/** Puts the picture into the card of each; a card that is no longer there has none. */
export async function pictureInCards(project: string, name: string, png: Buffer): Promise<void> {
  for (const folder of await writtenFrom(project, name)) {
    if (await isFile(join(folder, "README.md")).catch(() => false)) {
      await pictureInCard(folder, png, `Whose each layer of ${name} is, and what it scores`);
    }
  }
}
