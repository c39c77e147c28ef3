// What training is estimated to take, and the refusal of a run that does not fit.
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder, writeTiny } from "../../test/support/checkpoints.js";
import { writeTinyTokenizer } from "../../test/support/export-fixtures.js";
import { writeItems } from "../../test/support/world.js";
import { openModelSource } from "../engine/index.js";
import { checkRun } from "./run/run-file.js";
import { estimateTraining } from "./train-memory.js";
import { trainRun } from "./train-run.js";

const folder = temporaryFolder();
afterEach(() => vi.unstubAllEnvs());

// The sizes of writeTiny, with 24 tokens: hidden 8, feed-forward 12, 4 query heads and 2 key heads of width 2.
const [V, D, F, LAYERS] = [24, 8, 12, 4];
const MATRICES = [
  [D, D],
  [D, D],
  [D / 2, D],
  [D / 2, D],
  [F, D],
  [F, D],
  [D, F],
] as const;
const LAYER = 2 * D + MATRICES.reduce((sum, [rows, columns]) => sum + rows * columns, 0);

describe("the estimate of training", () => {
  it("has weights, gradients and two moments of what is trained, and weights of the rest", async () => {
    const source = await openModelSource(await writeTiny(join(folder, "full"), { vocabulary: V }));
    const full = estimateTraining(source, { method: "full", texts: 2, tokens: 8 });
    expect(full.optimizer).toBe(16 * (LAYERS * LAYER + D + 2 * V * D));
    const trained = new Set(["lm_head.weight"]);
    const head = estimateTraining(source, { method: "full", trained, texts: 2, tokens: 8 });
    expect([head.optimizer, head.weights]).toEqual([16 * V * D, 4 * (LAYERS * LAYER + D)]);
  });

  it("has factors of each matrix with LoRA", async () => {
    const source = await openModelSource(await writeTiny(join(folder, "lora"), { vocabulary: V }));
    const { optimizer, weights } = estimateTraining(source, { method: "lora", texts: 2, tokens: 8 });
    const factors = MATRICES.reduce((sum, [rows, columns]) => sum + 64 * (rows + columns), 0);
    expect([optimizer, weights]).toEqual([16 * LAYERS * factors, 4 * (LAYERS * LAYER + D + V * D)]);
  });
});

describe("training that does not fit", () => {
  /** What a run is refused with where so much memory is free. */
  async function refusal(method: "full" | "lora", free: number): Promise<unknown> {
    const base = await writeTiny(join(folder, "refused"), { vocabulary: V });
    writeTinyTokenizer(base, V);
    const data = writeItems(join(folder, "data.jsonl"), [{ prompt: "abcd", completion: "abcdefghijklmnop" }]);
    const sizes = { batch: 4, sequence_length: 16 };
    const run = checkRun({ base, out: join(folder, "out"), data, method, ...sizes, optimizer: { lr: 1e-3 } });
    vi.stubEnv("LAYERGRAFT_MEMORY", `${free}`);
    return trainRun({ run, folder }).catch((error: unknown) => error);
  }
  const neededFor = async (method: "full" | "lora", texts: number) => {
    const source = await openModelSource(await writeTiny(join(folder, "sizes"), { vocabulary: V }));
    return estimateTraining(source, { method, texts, tokens: 16 }).total;
  };

  it("is refused before anything is computed, with a smaller batch where that fits", async () => {
    const [needed, least] = [await neededFor("full", 4), await neededFor("full", 1)];
    const error = await refusal("full", least);
    expect(error).toMatchObject({ code: "memory", where: { expected: `${needed}`, actual: `${least}` } });
    expect(String(error)).toMatch(
      /Full training of refused, 4 x 16 tokens at once, needs about .* Use a smaller batch/,
    );
  });

  it("is refused with other ways where one text does not fit", async () => {
    const least = (await neededFor("full", 1)) - 1;
    expect(String(await refusal("full", least))).toMatch(
      /Full training of refused.* LAYERGRAFT_MEMORY=1GB tries it anyway\. \w+/,
    );
    expect(String(await refusal("lora", 1000))).toMatch(
      /LoRA training of refused.* Use a smaller model, or hand it over/,
    );
  });
});
