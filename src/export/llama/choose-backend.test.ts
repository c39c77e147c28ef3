import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { writeTinyTokenizer, writeWide } from "../../../test/support/export-fixtures.js";
import { fakeLlama } from "../../../test/support/fake-llama.js";
import { openModelSource } from "../../engine/index.js";
import { estimateEngine } from "../../engine/memory/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { planGguf } from "../gguf/plan-gguf.js";
import { writeGguf } from "../gguf/write-gguf.js";
import { type ChoiceOptions, chooseBackend } from "./choose-backend.js";
import { estimateExport } from "./llama-memory.js";

const folder = temporaryFolder();
const model = join(folder, "wide");
beforeAll(async () => {
  // Large beside the programs.
  await writeWide(model, 1, 2 ** 15);
  writeTinyTokenizer(model, 5000);
});
afterEach(() => vi.unstubAllEnvs());

const load = () => fakeLlama().load();
const missing = () => Promise.reject(Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" }));
const choose = async (options: ChoiceOptions = {}, source: Parameters<typeof chooseBackend>[0] = model) =>
  (await chooseBackend(source, { load, ...options })).choice;

/** Sets the memory that is free, in bytes. */
const setFree = (bytes: number) => vi.stubEnv("LAYERGRAFT_MEMORY", `${bytes}`);
async function sizes() {
  const source = await openModelSource(model);
  const engine = estimateEngine(source);
  const llama = estimateExport(await planGguf(source, { type: "q8_0" }));
  return { engine: engine.total, llama: llama.total };
}

describe("the backend of a model", () => {
  it("is the engine, unless speed is preferred and llama.cpp is there", async () => {
    setFree(1e9);
    expect(await choose()).toEqual({ name: "engine", reason: "the default" });
    expect(await choose({ prefer: "speed" })).toEqual({
      ...{ name: "llama", type: "q8_0" },
      reason: "q8_0, for speed; the backend engine computes in float32",
    });
    expect(await choose({ prefer: "speed", load: missing })).toEqual({ name: "engine", reason: "the default" });
  });

  it("is the engine for a recipe, which would be exported for each change of it", async () => {
    setFree(1e9);
    const recipe = { method: "soup" as const, models: [model, model] };
    expect(await choose({ prefer: "speed" }, recipe)).toMatchObject({ name: "engine" });
  });

  it("is what options and files say", async () => {
    expect(await choose({ backend: "engine", prefer: "speed" })).toEqual({
      name: "engine",
      reason: "as given",
    });
    expect(await choose({ type: "bf16" })).toMatchObject({ name: "llama", type: "bf16", reason: "for its type" });
    expect(await choose({ providers: ["cpu"], prefer: "speed" })).toMatchObject({ name: "engine" });
    expect(await choose({}, "model.gguf")).toMatchObject({ name: "llama", reason: "a GGUF file" });
    expect(await choose({ load: missing, backend: "llama" }, "model.gguf")).toMatchObject({ reason: "as given" });
    await expect(choose({ backend: "engine", type: "q8_0" })).rejects.toThrow("type needs the backend llama.");
  });

  it("is the engine for a GGUF file where llama.cpp is not installed", async () => {
    setFree(1e9);
    const plan = await planGguf(await openModelSource(model), { type: "q8_0" });
    const file = join(folder, "lone.gguf");
    await writeGguf(plan, { out: file });
    expect(await choose({ load: missing }, file)).toEqual({
      name: "engine",
      reason: "in float32, as llama.cpp is not installed; to add it: npm install --ignore-scripts node-llama-cpp",
    });
    expect(await choose({}, file)).toMatchObject({ name: "llama", reason: "a GGUF file" });
  });

  it("is llama.cpp where float32 does not fit", async () => {
    const { engine, llama } = await sizes();
    expect(llama).toBeLessThan(engine);
    setFree(engine);
    expect(await choose()).toMatchObject({ name: "engine" });
    setFree(engine - 1);
    const { reason, ...choice } = await choose();
    expect(choice).toEqual({ name: "llama", type: "q8_0" });
    expect(reason).toMatch(/^q8_0, as float32 needs .*, and LAYERGRAFT_MEMORY is .*$/);
    await expect(choose({ load: missing })).rejects.toThrow(
      /^wide in float32 needs about .*\. llama\.cpp needs about .* as q8_0\. llama\.cpp is not installed \(add it with: npm install --ignore-scripts node-llama-cpp\)\.$/,
    );
    setFree(llama);
    await expect(choose({ load: missing })).rejects.toThrow(
      `llama.cpp needs about ${formatBytes(llama)} as q8_0. llama.cpp is not installed`,
    );
  });

  it("is refused where the engine is named, with the type that fits", async () => {
    const { engine } = await sizes();
    setFree(engine - 1);
    for (const named of [{ backend: "engine" }, { providers: ["cpu"] }] as const) {
      const refused = await choose(named).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: "memory", where: { option: "llamaType", value: "q8_0" } });
      expect(String(refused)).toMatch(/llama\.cpp needs about .* as q8_0\.$/);
      await expect(choose({ ...named, load: missing })).rejects.toThrow(/llama\.cpp is not installed \(add it with/);
    }
    setFree(engine);
    expect(await choose({ backend: "engine" })).toEqual({ name: "engine", reason: "as given" });
  });

  it("is none where nothing fits", async () => {
    setFree(1000);
    await expect(choose()).rejects.toMatchObject({ code: "memory" });
    await expect(choose()).rejects.toThrow(/llama\.cpp needs about .*, which is too much, too\./);
    // Without a tokenizer, it cannot be exported.
    const plain = await writeTiny(join(folder, "plain"));
    await expect(choose({}, plain)).rejects.toThrow(/plain cannot be exported|tokenizer/);
  });
});
