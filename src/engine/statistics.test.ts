// Statistics of tiny decoders against PyTorch's, and what measuring refuses.
// @module-tag slow
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { type ReadTensor, temporaryFolder } from "../../test/support/checkpoints.js";
import { readTensors } from "../../test/support/decoder-fixtures.js";
import { readFolder, toNumbers } from "../../test/support/numbers.js";
import { openCheckpoint } from "../formats/checkpoint/index.js";
import { CancelledError, type LayergraftError, OutputError, RecipeError } from "../kit/index.js";
import { STATISTICS } from "../merge/index.js";
import { measureStatistics, type StatisticsOptions } from "./statistics.js";

const FIXTURES = join(import.meta.dirname, "../../test/fixtures");
const TEXTS = JSON.parse(readFileSync(join(FIXTURES, "statistics/texts.json"), "utf8")) as number[][];
const folder = temporaryFolder();

/** A decoder with a token for each word t0 to t19. */
function modelOf(name: string): string {
  const model = join(folder, name);
  if (existsSync(model)) return model;
  cpSync(join(FIXTURES, "decoders", name), model, { recursive: true });
  const vocab = Object.fromEntries(Array.from({ length: 20 }, (_, id) => [`t${id}`, id]));
  const tokenizer = {
    model: { type: "WordLevel", vocab, unk_token: "t0" },
    pre_tokenizer: { type: "WhitespaceSplit" },
  };
  writeFileSync(join(model, "tokenizer.json"), JSON.stringify({ version: "1.0", added_tokens: [], ...tokenizer }));
  return model;
}

const texts = TEXTS.map((ids) => ids.map((id) => `t${id}`).join(" "));
const out = join(folder, "statistics");
const measure = (model: string, options: Partial<StatisticsOptions> = {}) =>
  measureStatistics(model, { kind: "inputs", texts, out, force: true, ...options });

// Tied, and fused; then those whose frequencies depend on the length of each text, which is short and long.
it.each(STATISTICS)("%s of decoders are those of PyTorch", async (kind) => {
  for (const name of ["qwen2", "phi3", "phi3-longrope", "llama-dynamic"]) {
    const model = modelOf(name);
    const summary = await measure(model, { kind });
    expect(summary).toMatchObject({ kind, texts: 3, tokens: TEXTS.flat().length });
    const wanted = [...readTensors(join(FIXTURES, "statistics", `${name}.safetensors`))].filter(([path]) =>
      path.startsWith(`${kind}.`),
    );
    const found = await readFolder(out);
    expect([...found.keys()].sort()).toEqual(wanted.map(([path]) => path.slice(kind.length + 1)).sort());
    for (const [path, { shape, values }] of wanted) {
      const own = found.get(path.slice(kind.length + 1)) as ReadTensor;
      expect(own.shape).toEqual(shape);
      const distance = Math.hypot(...toNumbers(own).map((x, i) => x - (values[i] as number)));
      expect(distance, path).toBeLessThan(2e-5 * Math.hypot(...values));
    }
    const { files } = await openCheckpoint(out);
    expect(files[0]?.metadata).toMatchObject({ statistics: kind, model: name, texts: "3" });
  }
});

it("draws texts by seed, shortens them, and gives the same bytes each time", async () => {
  const model = modelOf("phi3");
  const bytes = () => readFileSync(join(out, "model.safetensors"));
  const run = async (options: Partial<StatisticsOptions>) => ({ ...(await measure(model, options)), bytes: bytes() });
  const [first, again] = [await run({ kind: "fisher", threads: 1 }), await run({ kind: "fisher", threads: 1 })];
  expect(Buffer.compare(first.bytes, again.bytes)).toBe(0);
  const draws = new Set<number>();
  for (let seed = 0; seed < 12; seed++) draws.add((await measure(model, { samples: 1, seed })).tokens);
  expect(draws).toEqual(new Set([2, 7, 10]));
  expect(await measure(model, { length: 4 })).toMatchObject({ texts: 3, tokens: 10 });
});

it.each(STATISTICS)("refuses %s where memory does not suffice", async (kind) => {
  vi.stubEnv("LAYERGRAFT_MEMORY", "1kB");
  const measuring = measure(modelOf("phi3"), { kind });
  await expect(measuring).rejects.toMatchObject({ code: "memory" });
  await expect(measuring).rejects.toThrow(new RegExp(`^Measuring ${kind} of phi3 needs about .* of memory`));
  await expect(measuring).rejects.toThrow("Use a smaller model, or a machine with more memory.");
  vi.unstubAllEnvs();
});

it("advises kinds that fit in the place of fisher", async () => {
  const model = modelOf("phi3");
  vi.stubEnv("LAYERGRAFT_MEMORY", "1kB");
  const error = await measure(model, { kind: "fisher" }).catch((thrown: LayergraftError) => thrown);
  vi.stubEnv("LAYERGRAFT_MEMORY", `${Number((error as LayergraftError).where.expected) - 1}`);
  await expect(measure(model, { kind: "fisher" })).rejects.toThrow(
    "Measure inputs or gram instead, one layer at a time.",
  );
  await measure(model, { kind: "gram" });
  vi.unstubAllEnvs();
});

it("reads many texts together as one by one", async () => {
  const model = modelOf("phi3");
  const values = async () => [...(await readFolder(out)).values()].flatMap(toNumbers);
  await measure(model, { kind: "gram" });
  const once = await values();
  // 200 copies are two packs, each longer than the first tables of positions.
  await measure(model, { kind: "gram", texts: Array.from({ length: 200 }, () => texts).flat(), samples: 600 });
  const distance = Math.hypot(...(await values()).map((x, i) => x - (once[i] as number)));
  expect(distance).toBeLessThan(1e-5 * Math.hypot(...once));
});

it("refuses what it cannot measure, and leaves nothing behind", async () => {
  const model = modelOf("phi3");
  await expect(measure(model, { texts: ["t1", ""] })).rejects.toThrow(RecipeError);
  await expect(measure(model, { out: model })).rejects.toThrow(OutputError);
  await measure(model);
  await expect(measure(model, { force: false })).rejects.toThrow(/already exists/);
  const before = readdirSync(folder).sort();
  const cut = join(folder, "cut");
  const signal = AbortSignal.abort();
  await expect(measure(model, { out: cut, signal })).rejects.toThrow(CancelledError);
  expect(readdirSync(folder).sort()).toEqual(before);
});

it.each(["gram", "inputs", "activations"] as const)(
  "%s of a mixture of experts are refused before weights are read",
  async (kind) => {
    const model = modelOf("qwen3_moe");
    const onProgress = vi.fn();
    const message = `qwen3_moe is a mixture of experts; ${kind} can only be measured on dense models.`;
    await expect(measure(model, { kind, onProgress })).rejects.toThrow(message);
    expect(onProgress).not.toHaveBeenCalled();
  },
);
