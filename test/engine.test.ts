// The engine as a library: recipes answered without executing them, to the bit what the executed merge answers, with
// nothing written; text, and where it ends.
// @module-tag slow
import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Engine, type EngineSource, openEngine } from "../src/engine/index.js";
import { type TensorData, writeSafetensors } from "../src/formats/safetensors/index.js";
import { planRecipe, type RecipeInput } from "../src/merge/index.js";
import { parseMergekit } from "../src/merge/mergekit/index.js";
import { executePlan } from "../src/merge/output/index.js";
import { openModel } from "../src/verbs/index.js";
import { seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { snapshot } from "./support/command.js";
import { idOf, TOKENS, writeScripted, writeTokenizer } from "./support/engine.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const fixture = (...names: string[]) => join(fileURLToPath(new URL("fixtures", import.meta.url)), ...names);

const opened: Engine[] = [];
afterEach(async () => {
  for (const engine of opened.splice(0)) await engine.close();
});

async function open(source: EngineSource, options: Parameters<typeof openEngine>[1] = {}): Promise<Engine> {
  const engine = await openEngine(source, { threads: 1, folder: root, ...options });
  opened.push(engine);
  return engine;
}

const TEXTS = [[3, 4, 5, 6], [7], [8, 3, 9, 4, 10, 5, 11, 6, 3, 3, 7], [3, 4, 5, 9]];

/** What a model answers and how it scores, in every digit. */
async function behaviour(engine: Engine): Promise<object> {
  const stopIds = await engine.stopIds();
  return {
    stopIds,
    greedy: await engine.generate(TEXTS, { maxNewTokens: 6 }),
    drawn: await engine.generate(TEXTS, { maxNewTokens: 4, temperature: 1.5, topP: 0.9, seed: 3, stopIds: [] }),
    scores: await engine.score(TEXTS),
    next: await engine.topNext(TEXTS, { count: 3 }),
    vocabulary: engine.vocabularySize,
    context: engine.contextLength,
  };
}

/** Everything below the folder, with when it was changed. */
const state = () => {
  const times = readdirSync(root, { recursive: true, encoding: "utf8" }).map((name) => {
    const { mtimeMs, ctimeMs, ino } = statSync(join(root, name));
    return [name, mtimeMs, ctimeMs, ino];
  });
  return [times, statSync(root).mtimeMs, snapshot(root)];
};

it("refuses weights with other layers than the configuration says", async () => {
  await writeTiny(at("fewer"), { layers: 2, config: { num_hidden_layers: 4 } });
  await expect(openEngine("fewer", { folder: root })).rejects.toThrow(
    /fewer\/config\.json says num_hidden_layers 4, but the weights have 2 layers\. Download the missing files, or correct/,
  );
});

it("names a model whose log-probabilities are not numbers", async () => {
  const edit = (tensors: TensorData[]) =>
    tensors.map((one) => (one.name === "model.norm.weight" ? { ...one, data: one.data.fill(0xff, 0, 2) } : one));
  await writeTiny(at("broken"), { layers: 1, edit });
  writeTokenizer(at("broken"));
  await using model = await openModel(at("broken"));
  await expect(model.score("a")).rejects.toThrow(
    "broken computed NaN or infinite scores for the text. Find the broken weights with layergraft analyze.",
  );
});

let count = 0;

const execute = async (recipe: RecipeInput, out: string) =>
  executePlan(await planRecipe(recipe, { folder: root }), { out: at(out) });

/** Writes a recipe to a file, from whose folder its paths start. JSON is YAML. */
function asFile(recipe: RecipeInput): string {
  mkdirSync(at("recipes"), { recursive: true });
  const file = `recipes/${++count}.yaml`;
  writeFileSync(at(file), JSON.stringify(recipe).replace(/"(task|language|third)"(?=[,}\]])/g, '"../$1"'));
  return file;
}

/** A recipe, and the same in other forms, must behave as the merge of it. */
async function expectSame(recipe: RecipeInput, ...others: EngineSource[]): Promise<void> {
  const before = state();
  const found: object[] = [];
  for (const form of [recipe, ...others]) {
    found.push(await behaviour(await open(form)));
  }
  expect(state()).toEqual(before);
  const out = `out-${++count}`;
  await execute(recipe, out);
  const wanted = await behaviour(await open(out));
  for (const one of found) expect(one).toEqual(wanted);
  // The models are not all alike, or nothing would be shown.
  expect(wanted).not.toEqual(lead);
}

let lead: object;

beforeAll(async () => {
  for (const [i, name] of ["task", "language", "third", "base"].entries()) {
    await writeTiny(at(name), { seed: i + 1, ...(name === "language" ? { shardBytes: 1500 } : {}) });
    writeTokenizer(at(name));
  }
  lead = await behaviour(await open("task"));
});

describe("a recipe that nothing has executed answers as the merge of it, and writes nothing:", () => {
  it("a swap, from a file, too", async () => {
    const recipe: RecipeInput = { method: "swap", task: "task", language: "language", bottom: 1, top: 1 };
    await expectSame(recipe, asFile(recipe));
  });

  it("a swap with transitions, into float32", () =>
    expectSame({
      method: "swap",
      task: "task",
      language: "language",
      bottom: 1,
      top: 1,
      bottom_transition: 1,
      top_transition: 1,
      weights: [0.3, 0.7],
      dtype: "float32",
    }));

  it("a soup, as a mergekit configuration and as a plan, too", async () => {
    const recipe: RecipeInput = { method: "soup", models: ["task", { model: "language", weight: 2 }, "third"] };
    const models = Object.entries({ task: 1, language: 2, third: 1 }).map(
      ([name, weight]) => `  - { model: ${at(name)}, parameters: { weight: ${weight} } }\n`,
    );
    writeFileSync(at("soup.yml"), `merge_method: linear\ndtype: bfloat16\nmodels:\n${models.join("")}`);
    await expectSame(recipe, "soup.yml", await planRecipe(recipe, { folder: root }));
  });

  it("TIES over a base", () =>
    expectSame({ method: "ties", base: "base", models: ["task", "language"], density: 0.4 }));

  it("a soup inside a swap, into float16, from a file, too", async () => {
    const task = { method: "soup", models: ["task", "third"] };
    const recipe: RecipeInput = { method: "swap", task, language: "language", bottom: 1, top: 2, dtype: "float16" };
    await expectSame(recipe, asFile(recipe));
  });

  it("layers of two models stacked, some twice", async () => {
    const slices = [["task", 0, 3] as const, ["language", 1, 4] as const].map(
      ([name, from, to]) => `  - sources: [{ model: ${at(name)}, layer_range: [${from}, ${to}] }]\n`,
    );
    const text = `merge_method: passthrough\ndtype: bfloat16\nslices:\n${slices.join("")}`;
    writeFileSync(at("stack.yml"), text);
    await execute((await parseMergekit(text))?.recipe as RecipeInput, "stacked");
    expect(await behaviour(await open("stack.yml"))).toEqual(await behaviour(await open("stacked")));
  });

  it("an adapter on its base, alone and in a swap", async () => {
    const [base, adapted] = [fixture("lora", "base"), `${fixture("lora", "base")}+${fixture("lora", "adapter")}`];
    const recipe: RecipeInput = { method: "swap", task: adapted, language: base, bottom: 1, top: 1 };
    const swapped = await behaviour(await open(recipe));
    const alone = await behaviour(await open(adapted));
    await execute(recipe, "adapted-swap");
    expect(swapped).toEqual(await behaviour(await open("adapted-swap")));
    await execute({ method: "soup", models: [adapted] }, "adapted");
    expect(alone).toEqual(await behaviour(await open("adapted")));
    const plain = await behaviour(await open(base));
    expect(new Set([swapped, alone, plain].map((one) => JSON.stringify(one))).size).toBe(3);
  });

  it("vocabularies brought together: the tokens that are added, too", async () => {
    for (const [name, added] of [
      ["letters", ["<pad>"]],
      ["more", ["<end>", "<pad>"]],
    ] as const) {
      await writeTiny(at(name), { seed: added.length, layers: 2, vocabulary: 3 + added.length });
      const tokens = added.map((content, i) => ({ id: 3 + i, content, special: true }));
      const model = { type: "BPE", vocab: { a: 0, b: 1, c: 2 }, merges: [] };
      writeFileSync(at(name, "tokenizer.json"), JSON.stringify({ version: "1.0", added_tokens: tokens, model }));
    }
    const recipe: RecipeInput = { method: "soup", models: ["letters", "more"], vocabulary: "union" };
    await execute(recipe, "united");
    const [planned, executed] = [await open(recipe), await open("united")];
    expect(planned.vocabularySize).toBe(5);
    const text = "ab<end>c<pad>";
    const ids = (await executed.tokenizer()).encode(text);
    expect(ids).toEqual([0, 1, 4, 2, 3]);
    expect((await planned.tokenizer()).encode(text)).toEqual(ids);
    expect(await planned.score([ids])).toEqual(await executed.score([ids]));
    expect(await planned.generate([ids], { maxNewTokens: 5 })).toEqual(
      await executed.generate([ids], { maxNewTokens: 5 }),
    );
  });
});

describe("what is computed", () => {
  const soup = (...models: string[]): RecipeInput => ({ method: "soup", models });

  it("stops where the signal fires, and tells how far it is", async () => {
    const controller = new AbortController();
    const seen: [number, number][] = [];
    const opening = openEngine(soup("task", "third"), {
      folder: root,
      signal: controller.signal,
      onProgress: ({ done, total }) => {
        seen.push([done, total]);
        controller.abort();
      },
    });
    await expect(opening).rejects.toMatchObject({ code: "cancelled" });
    expect(seen).toEqual([[0, expect.any(Number)]]);
    expect(seen[0]?.[1]).toBeGreaterThan(0);
  });
});

describe("text", () => {
  // A walk that comes to every piece of "éSTOPx ab!", and ends.
  const WALK = ["c", "byte C3", "byte A9", "ST", "OP", "x", " ", "ab", "!"] as const;
  const FULL = "éSTOPx ab!";
  const [start, ...rest] = WALK.map(idOf);
  let folder = "";
  beforeAll(async () => {
    const next = Object.fromEntries(WALK.slice(0, -1).map((token, i) => [token, WALK[i + 1] as string]));
    folder = await writeScripted(at("scripted"), next as Parameters<typeof writeScripted>[1]);
  });

  async function answer(engine: Engine, stop: readonly string[], maxNewTokens = 20) {
    const pieces: string[] = [];
    const onText = (text: string) => pieces.push(text);
    const [found] = await engine.generate([[start as number]], { maxNewTokens, stop, onText });
    return { ...found, pieces };
  }

  it("comes in whole characters, and ends at the model's own mark", async () => {
    const { ids, text, finish, pieces } = await answer(await open(folder), []);
    expect({ ids, text, finish }).toEqual({ ids: rest, text: FULL, finish: "stop" });
    expect(pieces).toEqual(["é", "ST", "OP", "x", " ", "ab", "!"]);
  });

  it("that is cut within a character ends with what stands for half of one", async () => {
    expect(await answer(await open(folder), [], 1)).toMatchObject({
      text: "\ufffd",
      finish: "length",
      pieces: ["\ufffd"],
    });
  });

  it("ends before a stop text, wherever that lies across tokens; what may begin one is held back", async () => {
    const engine = await open(folder);
    expect(await answer(engine, ["TO"])).toEqual({
      ids: rest.slice(0, 4),
      text: "éS",
      finish: "stop",
      pieces: ["é", "S"],
    });
    expect(await answer(engine, ["STOPPED", "x a"])).toEqual({
      ids: rest.slice(0, 7),
      text: "éSTOP",
      finish: "stop",
      pieces: ["é", "STOP"],
    });
    // The end comes before it is sure that nothing follows.
    expect(await answer(engine, ["b!!"])).toMatchObject({ text: FULL, finish: "stop" });
    // The first that comes, and of those that come at once the first in the text.
    expect(await answer(engine, ["OP", "é", "P"])).toMatchObject({ text: "", finish: "stop", pieces: [] });
    expect(await answer(engine, ["P", "OP"])).toMatchObject({ text: "éST", finish: "stop" });
    expect(await answer(engine, ["!"])).toMatchObject({ text: FULL.slice(0, -1), finish: "stop", ids: rest });
  });

  it("is cut where the first stop text appears, and comes in pieces that are never taken back", async () => {
    const engine = await open(folder);
    const prefixes = ["", "é", "éST", "éSTOP", "éSTOPx", "éSTOPx ", "éSTOPx ab", FULL];
    const part = fc
      .tuple(fc.nat(FULL.length - 1), fc.integer({ min: 1, max: 5 }))
      .map(([from, length]) => FULL.slice(from, from + length));
    const stops = fc.array(
      fc.oneof(
        part,
        part.map((text) => `${text}?`),
      ),
      { minLength: 1, maxLength: 3 },
    );
    await fc.assert(
      fc.asyncProperty(stops, async (stop) => {
        const appears = prefixes.find((text) => stop.some((one) => text.includes(one)));
        const places = stop.map((one) => appears?.indexOf(one) ?? -1).filter((place) => place >= 0);
        const wanted = appears === undefined ? FULL : appears.slice(0, Math.min(...places));
        const { text, pieces, finish } = await answer(engine, stop);
        expect({ text, finish }).toEqual({ text: wanted, finish: "stop" });
        expect(pieces.join("")).toBe(wanted);
        expect(pieces).not.toContain("");
      }),
      { numRuns: 40 },
    );
  });

  it("of many prompts comes with its number", async () => {
    const engine = await open(folder);
    const told = ["", "", ""];
    const prompts = [[start as number], [idOf("x")], [idOf("ST")]];
    const done: number[] = [];
    const found = await engine.generate(prompts, {
      maxNewTokens: 20,
      stop: ["!"],
      onText: (text, prompt) => {
        told[prompt] += text;
      },
      onDone: (prompt) => done.push(prompt),
    });
    expect(found.map(({ text }) => text)).toEqual(["éSTOPx ab", " ab", "OPx ab"]);
    expect(told).toEqual(found.map(({ text }) => text));
    expect(done).toEqual([1, 2, 0]);
  });

  it("of a conversation is as the model's template writes it", async () => {
    const engine = await open(folder);
    const template = await engine.chatTemplate();
    const text = template?.render([{ role: "user", content: "hi" }], { addGenerationPrompt: true }) ?? "";
    expect(text).toBe("<s>user:hi\nbot:");
    const ids = (await engine.tokenizer()).encode(text);
    expect(ids.map((id) => TOKENS[id])).toEqual(["<s>", "user", ":", "hi", "\n", "bot", ":"]);
  });
});

describe("what cannot be run", () => {
  const edited = (name: string, edit: (tensors: TensorData[]) => TensorData[], config: Record<string, unknown> = {}) =>
    writeTiny(at(name), { layers: 2, edit, config });
  const refusal = (source: EngineSource) =>
    openEngine(source, { folder: root }).catch((error: unknown) => error as Error);

  it("weights of other shapes: all of them are told", async () => {
    await edited("narrow", (tensors) => tensors, { intermediate_size: 10 });
    const error = await refusal("narrow");
    expect(error).toMatchObject({ code: "mismatch" });
    expect((error as Error).message).toMatch(/^the weights of narrow do not match its configuration:/);
    expect((error as Error).message).toContain(
      `model.layers.0.mlp.gate_proj.weight is [12, 8]; ${at("narrow", "config.json")} describes [10, 8]`,
    );
    expect((error as Error).message.match(/ describes /g)?.length).toBe(6);
  });

  it("weights of integers", async () => {
    await edited("integers", (tensors) =>
      tensors.map((tensor) =>
        tensor.name.includes("layers.1.mlp.up_proj")
          ? { ...tensor, dtype: "I8" as const, data: new Uint8Array(tensor.data.byteLength / 2) }
          : tensor,
      ),
    );
    expect((await refusal("integers")) as Error).toMatchObject({
      code: "mismatch",
      message: expect.stringContaining("model.layers.1.mlp.up_proj.weight is I8; the engine computes with bfloat16"),
    });
  });

  it("weights that are missing, and notes weights that are left over", async () => {
    const gone = "model.layers.1.mlp.up_proj.weight";
    await edited("lacking", (tensors) => tensors.filter(({ name }) => name !== gone));
    expect((await refusal("lacking")) as Error).toMatchObject({
      code: "checkpoint",
      message: expect.stringContaining(gone),
    });
    const extra = seededTensor("model.layers.0.self_attn.q_proj.bias", [8], 5);
    await edited("biased", (tensors) => [...tensors, extra]);
    const { notes } = await open("biased");
    expect(notes).toEqual([
      "1 tensor is not used by a Llama decoder with this config.json: model.layers.0.self_attn.q_proj.bias",
    ]);
    expect((await open("task")).notes).toEqual([]);
  });

  it("a family that is not known, though it can be merged", async () => {
    await writeTiny(at("strange"), { modelType: "starling" });
    const error = await refusal("strange");
    expect(error).toMatchObject({ code: "checkpoint" });
    expect((error as Error).message).toMatch(
      /"starling".*supported are .*llama.*qwen3.*Merging and analysis work for it/,
    );
    await execute({ method: "soup", models: ["strange", "strange"] }, "strange-soup");
  });

  it("a recipe with problems: with its lines, also those that only the models show", async () => {
    writeFileSync(at("invalid.yaml"), "method: swap\ntask: task\nlangauge: language\nbottom: -1\n");
    const invalid = await refusal("invalid.yaml");
    expect(invalid).toMatchObject({ code: "recipe" });
    expect((invalid as Error).message).toMatch(/line 3.*langauge/);
    expect((invalid as Error).message).toMatch(/line 4.*bottom/);
    writeFileSync(at("deep.yaml"), "method: swap\ntask: task\nlanguage: language\nbottom: 3\ntop: 3\n");
    expect(((await refusal("deep.yaml")) as Error).message).toMatch(/deep\.yaml, line \d: /);
    expect(((await refusal("nowhere.yaml")) as Error).message).toMatch(/nowhere\.yaml/);
  });

  it("element types that the runtime does not know are computed into ones that it does", async () => {
    const double = ({ name, shape, data }: TensorData): TensorData => {
      const values = Float64Array.from(new Float32Array(data.slice().buffer));
      return { name, dtype: "F64", shape, data: new Uint8Array(values.buffer) };
    };
    await writeTiny(at("single"), { dtype: "F32" });
    await writeTiny(at("double"), { dtype: "F32", edit: (tensors) => tensors.map(double) });
    expect(await behaviour(await open("double"))).toEqual(await behaviour(await open("single")));
    await writeTiny(at("whole"), {
      edit: (tensors) =>
        tensors.map((tensor, i) => (i === 2 ? { ...tensor, dtype: "I16" as TensorData["dtype"] } : tensor)),
    });
    expect(await refusal("whole")).toMatchObject({ message: expect.stringMatching(/I16/) });
  });

  it("weights that lie at odd places in their file are read all the same", async () => {
    const tensors: TensorData[] = [];
    await writeTiny(at("plain"), {
      dtype: "F32",
      edit: (list) => {
        tensors.push(...list);
        return list;
      },
    });
    await writeTiny(at("odd"), { dtype: "F32" });
    // One byte before all others.
    await writeSafetensors(at("odd", "model.safetensors"), [
      { name: "a", dtype: "U8", shape: [1], data: Uint8Array.of(7) },
      ...tensors,
    ]);
    expect(await behaviour(await open("odd"))).toEqual(await behaviour(await open("plain")));
  });
});
