// Models whose bytes change after their headers were read: nothing is made of a mix, even if size and time are as before.
import { existsSync, openSync, statSync, utimesSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { analyze, extract, planMerge } from "../src/verbs/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";

const root = temporaryFolder();

/** Replaces the last bytes of a model's weights, once, and restores the time. */
function changer(folder: string): () => void {
  let isDone = false;
  const file = join(folder, "model.safetensors");
  const time = 1e9;
  utimesSync(file, time, time);
  return () => {
    if (isDone) return;
    isDone = true;
    writeSync(openSync(file, "r+"), "other", statSync(file).size - 5);
    utimesSync(file, time, time);
  };
}

it.each(["merge", "analyze", "extract"] as const)("%s refuses a model that changed meanwhile", async (what) => {
  const [base, expert, out] = ["base", "expert", "out"].map((name) => join(root, what, name)) as [
    string,
    string,
    string,
  ];
  await writeTiny(base, { seed: 1 });
  await writeTiny(expert, { seed: 2 });
  const onProgress = changer(expert);
  const made = {
    merge: async () => (await planMerge({ method: "soup", models: [base, expert] })).write({ out, onProgress }),
    analyze: () => analyze({ base, experts: { expert }, out }, { onProgress }),
    extract: () => extract({ base, model: expert, rank: 2, out }, { onProgress }),
  };
  await expect(made[what]()).rejects.toThrow(/expert\/model\.safetensors changed since the run began, so /);
  expect(existsSync(out)).toBe(false);
});
