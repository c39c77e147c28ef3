import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { writeTinyTokenizer } from "../../../test/support/export-fixtures.js";
import { openEngine } from "../engine.js";
import { readSpec } from "../model/read-spec.js";
import { openModelSource } from "../model-source.js";
import { measureStatistics } from "../statistics.js";
import { estimateEngine, estimateFisher, fitsIn, requireRoom } from "./estimate.js";

const folder = temporaryFolder();
afterEach(() => vi.unstubAllEnvs());

// The sizes of writeTiny, with 24 tokens: hidden 8, feed-forward 12, 4 query heads and 2 key heads of width 2.
const [V, D, F, LAYERS] = [24, 8, 12, 4];
const LAYER = 2 * D + 2 * D * D + 2 * (D / 2) * D + 3 * F * D;

describe("the estimate of the engine", () => {
  it("has weights as float32, and the table of an untied embedding in its file", async () => {
    const source = await openModelSource(await writeTiny(join(folder, "untied"), { vocabulary: V }));
    const { weights, mapped } = estimateEngine(source);
    expect(weights).toBe(4 * (LAYERS * LAYER + D + V * D));
    expect(mapped).toBe(2 * V * D);
    // Of shared weights, all are in memory.
    const shared = estimateEngine(source, { shared: true });
    expect([shared.weights, shared.mapped]).toEqual([4 * (LAYERS * LAYER + D) + 4 * V * D + 2 * V * D, 0]);
  });

  it("has the embedding once where it is the head, too", async () => {
    const source = await openModelSource(await writeTiny(join(folder, "tied"), { vocabulary: V, tied: true }));
    const { weights, mapped } = estimateEngine(source);
    expect([weights, mapped]).toEqual([4 * (LAYERS * LAYER + D + V * D), 0]);
  });

  it("has a copy of the largest matrix, which is packed, as far as that is more than texts take", async () => {
    const large = 40_000;
    const source = await openModelSource(await writeTiny(join(folder, "packed"), { vocabulary: large }));
    const { weights, cache, logits, activations } = estimateEngine(source, { tokens: 8 });
    const floats = 4 * (LAYERS * LAYER + D + large * D);
    expect(weights + cache + logits + activations).toBe(floats + 4 * large * D);
  });

  it("has keys and values of every layer for all tokens of all texts", async () => {
    const source = await openModelSource(await writeTiny(join(folder, "cached"), { vocabulary: V }));
    const { cache, total, ...parts } = estimateEngine(source, { texts: 3, tokens: 50 });
    expect(cache).toBe(3 * 50 * LAYERS * 2 * (D / 2) * 4);
    const { weights, logits, activations, program } = parts;
    expect(total).toBe(weights + cache + logits + activations + program);
  });

  it("has the logits of every token where all are scored", async () => {
    const source = await openModelSource(await writeTiny(join(folder, "scored"), { vocabulary: V }));
    const of = (scored: boolean) => estimateEngine(source, { texts: 2, tokens: 40, scored }).logits;
    expect(of(true) / of(false)).toBe(40);
  });
});

describe("a model that does not fit", () => {
  it("is refused before anything is computed, with sizes and the way out", async () => {
    const model = await writeTiny(join(folder, "large"), { vocabulary: V });
    const { total } = estimateEngine(await openModelSource(model));
    vi.stubEnv("LAYERGRAFT_MEMORY", `${total - 1}`);
    const refused = await openEngine(model, { threads: 1 }).catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "memory",
      where: { expected: `${total}`, actual: `${total - 1}` },
    });
    expect(String(refused)).toMatch(
      /large in float32 needs about .* of memory \(activations .*, program .*\), but LAYERGRAFT_MEMORY is .*\. LAYERGRAFT_MEMORY=1GB tries it anyway\. Use the backend llama, .*\.$/,
    );
  });

  it("is opened where LAYERGRAFT_MEMORY allows it, and texts that do not fit are refused then", async () => {
    const model = await writeTiny(join(folder, "allowed"), { vocabulary: V });
    const source = await openModelSource(model);
    const estimate = estimateEngine(source);
    vi.stubEnv("LAYERGRAFT_MEMORY", `${estimate.total}`);
    expect(fitsIn(estimate, { bytes: estimate.total, limit: "setting" })).toBe(true);
    const engine = await openEngine(model, { threads: 1 });
    try {
      const short = await engine.generate([[1, 2]], { maxNewTokens: 2 });
      expect(short[0]?.ids.length).toBeLessThanOrEqual(2);
      vi.stubEnv("LAYERGRAFT_MEMORY", "1000");
      const long = engine.generate([[1], [2]], { maxNewTokens: 20 });
      await expect(long).rejects.toThrow(
        /^Computing 2 texts at once of 21 tokens needs about .* but LAYERGRAFT_MEMORY is 1\.00 kB\. .* Use a smaller batch/,
      );
      expect(() => requireRoom(readSpec(source.config, source.tensors.keys()), { tokens: 21 })).toThrow(
        /^Computing a text of 21 tokens .* Use shorter texts or answers\./,
      );
    } finally {
      await engine.close();
    }
  });

  it("is refused before its Fisher information is measured, and its inputs are not", async () => {
    const model = await writeTiny(join(folder, "measured"), { vocabulary: V });
    writeTinyTokenizer(model, V);
    const estimate = estimateFisher(await openModelSource(model), { together: 2 ** 28, tokens: 4 });
    const least = estimate.total - 1;
    vi.stubEnv("LAYERGRAFT_MEMORY", `${least}`);
    const measure = (kind: "fisher" | "inputs") =>
      measureStatistics(model, { kind, texts: ["abcd"], out: join(folder, kind), threads: 1 });
    const refused = await measure("fisher").catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: "memory", where: { expected: `${least + 1}`, actual: `${least}` } });
    expect(String(refused)).toMatch(/Measuring fisher of measured needs about .* Measure inputs or gram instead/);
    await expect(measure("inputs")).resolves.toMatchObject({ tokens: 4 });
  });
});
