// The shipped models: they differ where they say, and only their swap solves the problem of the guides.
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EngineSource, openEngine } from "../engine/index.js";
import { openCheckpoint } from "../formats/checkpoint/index.js";
import { openSafetensors, readTensor } from "../formats/safetensors/index.js";
import { MINIATURE_MODELS, writeMiniature } from "./miniature.js";

const ASSETS = join(import.meta.dirname, "../../assets/miniature");
const FILES = ["config.json", "tokenizer.json", "tokenizer_config.json"] as const;
const MODELS = Object.values(MINIATURE_MODELS);
const root = mkdtempSync(join(tmpdir(), "layergraft-miniature-"));
const at = (...names: string[]) => join(root, ...names);
beforeAll(() => writeMiniature(root));
afterAll(() => rmSync(root, { recursive: true }));

/** The bytes of each tensor of a model. */
async function bytesOf(name: string): Promise<Map<string, Buffer>> {
  const file = await openSafetensors(at(name, "model.safetensors"));
  const read = file.tensors.map(async (one) => [one.name, Buffer.from(await readTensor(file, one))] as const);
  return new Map(await Promise.all(read));
}

describe("the assets", () => {
  it("take at most 1.8 MB", () => {
    const sizes = readdirSync(ASSETS, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => statSync(join(parentPath, name)).size);
    expect(sizes.length).toBeGreaterThanOrEqual(7);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(1_800_000);
  });
});

describe("the models", () => {
  it("open, with the files of the base", async () => {
    for (const name of MODELS) {
      const { layers, tensors } = await openCheckpoint(at(name));
      expect({ layers, tensors: tensors.size }).toEqual({ layers: 8, tensors: 8 * 9 + 3 });
      for (const { dtype } of tensors.values()) expect(dtype).toBe("BF16");
      expect(readdirSync(at(name)).sort()).toEqual([...FILES, "model.safetensors"].sort());
      for (const file of FILES) expect(readFileSync(at(name, file))).toEqual(readFileSync(join(ASSETS, "base", file)));
    }
  });

  it.each([
    [MINIATURE_MODELS.math, [3, 4, 5, 6, 7], [] as string[]],
    [MINIATURE_MODELS.language, [0, 1, 2], ["model.embed_tokens.weight"]],
  ])("%s differs from the base in every tensor that was trained, and in no other", async (name, layers, others) => {
    const [base, expert] = [await bytesOf("base"), await bytesOf(name)];
    expect([...expert.keys()].sort()).toEqual([...base.keys()].sort());
    const differing = [...base].flatMap(([tensor, bytes]) => (expert.get(tensor)?.equals(bytes) ? [] : [tensor]));
    const isTrained = (tensor: string) =>
      others.includes(tensor) || layers.some((layer) => tensor.startsWith(`model.layers.${layer}.`));
    const trained = [...base.keys()].filter(isTrained);
    expect(trained).toHaveLength(9 * layers.length + others.length);
    expect(differing).toEqual(trained);
  });

  it("are the same when they are written again", async () => {
    const read = () => MODELS.map((name) => readFileSync(at(name, "model.safetensors")));
    const first = read();
    await writeMiniature(root);
    expect(read().map((bytes, i) => first[i]?.equals(bytes))).toEqual([true, true, true]);
  });
});

describe("their default swap", () => {
  const TEXT = "Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa?";
  const SWAP = { method: "swap", task: MINIATURE_MODELS.math, language: MINIATURE_MODELS.language } as const;
  /** Answers to the text and to a message with it. */
  const answersOf = async (source: EngineSource) => {
    const engine = await openEngine(source, { folder: root, threads: 1 });
    const prompts = [await engine.encode(`${TEXT} Solve:`), await engine.encode([{ role: "user", content: TEXT }])];
    const answers = await engine.generate(prompts, { maxNewTokens: 12 });
    await engine.close();
    return answers.map(({ text, finish }) => ({ text, finish }));
  };

  it("solves the problem of the guides, as a text and as a message", async () => {
    const answer = { text: " 9 - 7 = 2.", finish: "stop" };
    expect(await answersOf(SWAP)).toEqual([answer, answer]);
  });

  it.each(MODELS)("solves what %s does not", async (name) => {
    for (const { text } of await answersOf(name)) expect(text).not.toMatch(/= 2\./);
  });
});
