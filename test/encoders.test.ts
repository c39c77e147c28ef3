// Encoders and embedding models are swapped, merged and analysed as decoders are. Names and shapes are those that transformers
// writes (test/fixtures/architectures); transformers opens what comes out.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { analyze, planMerge } from "../src/index.js";
import { seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { expectExactly, mean, readFolders } from "./support/merging.js";

interface Fixture {
  readonly config: Record<string, unknown>;
  readonly tensors: Record<string, number[]>;
}

describe.each(["bert", "xlm-roberta", "xlm-roberta-embedding", "modernbert"])("%s", (name) => {
  const root = temporaryFolder();
  const file = join(import.meta.dirname, `fixtures/architectures/${name}.json`);
  const { config, tensors } = JSON.parse(readFileSync(file, "utf8")) as Fixture;
  const write = (folder: string, seed: number) =>
    writeTiny(join(root, folder), {
      config,
      edit: () =>
        Object.entries(tensors).map(([tensor, shape], i) => seededTensor(tensor, shape, 100 * seed + i, "F32", -1 - i)),
    });

  it("is swapped layer by layer, and its changes are measured", async () => {
    const [base, task, language] = [await write("base", 1), await write("task", 2), await write("language", 3)];
    const layers = { language: "0,2" };
    const plan = await planMerge({ method: "swap", task, language, layers, outside: "average" });
    const merged = join(root, "merged");
    await plan.write({ out: merged });
    const [found = new Map(), ...sources] = await readFolders([merged, task, language]);
    expectExactly(found, sources, (tensor) => {
      const layer = /layers?\.(\d)\./.exec(tensor)?.[1];
      return (...values) => (layer === undefined ? mean(...values) : (values[layer === "1" ? 0 : 1] as number));
    });
    const analysis = await analyze({ base, experts: { task, merged } });
    expect(analysis.layers).toBe(3);
  });
});
