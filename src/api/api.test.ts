// The library's calls on the small models of examples/.
// @module-tag slow
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { writeByteModel, writeLetters } from "../../test/support/byte-model.js";
import { temporaryFolder } from "../../test/support/checkpoints.js";
import { FAKE_LLAMA, logitsAfter } from "../../test/support/fake-llama.js";
import { writeExample } from "../demo/index.js";
import {
  analyze,
  CancelledError,
  diff,
  evaluate,
  explain,
  inspect,
  Model,
  OutputError,
  openModel,
  openPlan,
  type Progress,
  planMerge,
  type RecipeInput,
  serve,
  suggest,
  train,
  verify,
} from "./index.js";
import { loadTokenizer } from "./subpaths/engine.js";

const folder = join(temporaryFolder(), "world");
const at = (name: string) => join(folder, name);
beforeAll(() => writeExample(folder));

const SWAP = { method: "swap", task: "math-expert", language: "swahili-expert" } as const;

describe("planMerge", () => {
  test("takes the fields of a recipe file, in nested recipes too, and gives them back with defaults", async () => {
    const recipe = {
      method: "soup",
      models: [{ model: { ...SWAP, bottom_transition: 2 }, weight: 2 }, "math-expert"],
      shard_size: "1MB",
    } as const;
    const plan = await planMerge(recipe, { folder });
    expect(plan.recipe).toMatchObject({
      shard_size: 1_000_000,
      models: [{ model: { bottom_transition: 2, bottom: 1 } }, {}],
    });
    expect((await planMerge(plan.recipe, { folder })).toJSON()).toEqual(plan.toJSON());
  });

  test.each([
    ["botom", "bottom"],
    ["topTransition", "top_transition"],
  ])("refuses %s, and names %s", async (field, meant) => {
    const wrong = { ...SWAP, [field]: 1 } as RecipeInput;
    await expect(planMerge(wrong, { folder })).rejects.toThrow(new RegExp(`${field}.*${meant}`, "s"));
  });

  test("has plain fields, and writes what verify verifies", async () => {
    const plan = await planMerge(SWAP, { folder });
    const { layers, sources, summary, steps } = plan;
    expect({ layers, sources: sources.map(({ id }) => id), tensors: summary.tensors, steps: steps.length }).toEqual({
      layers: 8,
      sources: ["task", "language"],
      tensors: 75,
      steps: 75,
    });
    const seen: Progress[] = [];
    const result = await plan.write({ out: at("swap"), onProgress: (progress) => seen.push(progress) });
    expect(result).toMatchObject({ out: at("swap"), bytesWritten: summary.bytesToWrite, resumed: false });
    const bytes = summary.bytesToRead + summary.bytesToWrite;
    expect(seen.at(-1)).toMatchObject({ done: bytes, total: bytes, unit: "bytes" });
    expect(await verify({ model: at("swap") })).toMatchObject({
      verified: true,
      tensors: 75,
      deviations: [],
      files: [],
    });
  });

  test("opens a plan that was saved as JSON and rejects other values", async () => {
    const plan = await planMerge(SWAP, { folder });
    await plan.write({ out: at("direct") });
    await (await openPlan(JSON.parse(JSON.stringify(plan)))).write({ out: at("saved") });
    const bytes = (name: string) => readFileSync(join(at(name), "model.safetensors"));
    expect(bytes("saved").equals(bytes("direct"))).toBe(true);
    await expect(openPlan({ ...plan.toJSON(), format: 1 as never })).rejects.toThrow(/format 1.*Plan again/);
  });

  test("reads a recipe file and a mergekit configuration", async () => {
    expect((await planMerge(at("recipe.yaml"))).layers).toBe(8);
    const [here, relative] = [process.cwd(), at("mergekit.yml")];
    process.chdir(folder);
    try {
      expect((await planMerge(relative)).recipe.method).toBe("slerp");
    } finally {
      process.chdir(here);
    }
  });

  test("stops at the signal and writes nothing", async () => {
    const plan = await planMerge(SWAP, { folder });
    await expect(plan.write({ out: at("stopped"), signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
    expect(existsSync(at("stopped"))).toBe(false);
    await expect(planMerge(SWAP, { folder, signal: AbortSignal.abort() })).rejects.toThrow(CancelledError);
  });
});

test("inspect and diff describe checkpoints and their differences", async () => {
  const { layers, parameters, allTensors, architecture } = await inspect({ source: "math-expert" }, { folder });
  expect({ layers, parameters, tensors: allTensors.length, architecture }).toEqual({
    layers: 8,
    parameters: allTensors.reduce((sum, { shape }) => sum + shape.reduce((product, size) => product * size, 1), 0),
    tensors: 75,
    architecture: "Llama",
  });
  expect((await diff({ a: "base", b: "base" }, { folder })).identical).toBe(true);
  const { a, b, identical, tensors } = await diff({ a: "base", b: "math-expert" }, { folder });
  expect([a, b]).toEqual(["base", "math-expert"]);
  const changed = tensors.flatMap(({ tensor, differing }) => (differing > 0 ? [/layers\.(\d)/.exec(tensor)?.[1]] : []));
  expect({ identical, layers: [...new Set(changed)] }).toEqual({ identical: false, layers: ["3", "4", "5", "6", "7"] });
});

test("explain finds a swap again, and takes two models or more", async () => {
  const swap = { ...SWAP, bottom: 2, top: 1, outside: "task" } as const;
  await (await planMerge(swap, { folder })).write({ out: at("swapped") });
  const { tensors, recipe } = await explain("swapped", { from: ["math-expert", "swahili-expert"], folder });
  expect(tensors.filter(({ verdict }) => verdict === "unexplained")).toEqual([]);
  await (await planMerge(recipe as RecipeInput, { folder })).write({ out: at("explained") });
  expect((await diff({ a: "swapped", b: "explained" }, { folder })).identical).toBe(true);
  await expect(explain("swapped", { from: ["base"], folder })).rejects.toThrow("Missing models to explain it by");
});

test("fields override those of a recipe file, and check refuses what write would", async () => {
  const file = at("fields.yaml");
  writeFileSync(file, "method: swap\ntask: math-expert\nlanguage: swahili-expert\nbottom: 2\n");
  const plan = await planMerge(file, { fields: { dtype: "float16" } });
  expect(plan.recipe).toMatchObject({ bottom: 2, dtype: "float16" });
  await expect(plan.check({ out: at("base") })).rejects.toThrow(OutputError);
  await plan.check({ out: at("free") });
  expect(existsSync(at("free"))).toBe(false);
});

test("analyze measures experts, recipes among them; suggest gives recipes that plan", async () => {
  const experts = { math: "math-expert", swap: { ...SWAP, bottom_transition: 1 } };
  const out = join(folder, "analysis");
  const { total, layers } = await analyze({ base: "base", experts, out }, { folder });
  expect(JSON.parse(readFileSync(join(out, "analysis.json"), "utf8"))).toMatchObject({
    layers,
    base: "base",
  });
  await expect(analyze({ base: "base", experts, out: join(folder, "base") }, { folder })).rejects.toThrow(OutputError);
  const [math] = total.experts;
  expect({ layers, experts: total.experts.length }).toEqual({ layers: 8, experts: 2 });
  expect(total.experts.map(({ name }) => name)).toEqual(Object.keys(experts));
  expect(math?.relativeNorm).toBeGreaterThan(0.01);
  expect(math?.relativeNorm).toBeLessThan(0.1);
  const sources = { base: "base", task: "math-expert", language: "swahili-expert" };
  const { suggestions } = await suggest(sources, { folder });
  expect(suggestions.map(({ name }) => name)).toContain("paper-default");
  for (const { recipe } of suggestions) await planMerge(recipe, { folder });
  expect(Object.keys(suggestions[0]?.recipe ?? {})).toContain("bottom_transition");
});

describe("a model", () => {
  let model: Model;
  beforeAll(async () => {
    model = await openModel(await planMerge(SWAP, { folder }));
  });

  const PROBLEM = "Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa?";

  test("of a plan answers as that of the recipe, and streams its text", async () => {
    const told: string[] = [];
    const options = { maxNewTokens: 8, onText: (text: string) => told.push(text) };
    const answer = await model.generate(`${PROBLEM} Solve:`, options);
    expect(told.join("")).toBe(answer.text);
    expect(answer).toMatchObject({ text: " 9 - 7 = 2.", finish: "stop" });
    expect(answer.tokens).toHaveLength(6);
    await using other = await openModel(SWAP, { folder });
    expect(await other.generate(`${PROBLEM} Solve:`, { maxNewTokens: 8 })).toEqual(answer);
  });

  test("streams the parts of an answer, and leaves the model free where the loop is left", async () => {
    const prompt = `${PROBLEM} Solve:`;
    const wanted = await model.generate(prompt, { maxNewTokens: 8 });
    const parts: string[] = [];
    for await (const part of model.stream(prompt, { maxNewTokens: 8 })) parts.push(part);
    expect({ text: parts.join(""), isInParts: parts.length > 1 }).toEqual({ text: wanted.text, isInParts: true });
    for await (const part of model.stream(prompt, { maxNewTokens: 8 })) {
      expect(part).toBe(parts[0]);
      break;
    }
    expect(await model.generate(prompt, { maxNewTokens: 8 })).toEqual(wanted);
    const stopped = model.stream(prompt, { maxNewTokens: 8, signal: AbortSignal.abort() });
    await expect(stopped.next()).rejects.toThrow(CancelledError);
    await expect(model.stream(" ".repeat(20_000)).next()).rejects.toThrow(/tokens, and the context of/);
  });

  test("takes messages through its chat template", async () => {
    const chat = await model.generate([{ role: "user", content: PROBLEM }], { maxNewTokens: 4 });
    const written = await model.generate(`${PROBLEM} Solve:`, { maxNewTokens: 4 });
    expect(chat).toEqual(written);
  });

  test("scores a text after a context: its tokens add up, and the greedy answer is greedy", async () => {
    const context = `${PROBLEM} Solve:`;
    const { text, tokens } = await model.generate(context, { maxNewTokens: 2 });
    const { logprob, tokenLogprobs, greedy } = await model.score(text, { context });
    expect({ count: tokenLogprobs.length, greedy }).toEqual({ count: tokens.length, greedy: true });
    expect(logprob).toBeCloseTo(
      tokenLogprobs.reduce((sum, one) => sum + one, 0),
      10,
    );
  });

  test("scores a text without a context after BOS", async () => {
    const tokenizer = await loadTokenizer(at("base"));
    const bos = tokenizer.tokenOf(tokenizer.bos ?? -1);
    expect(bos).toBe("<bos>");
    const alone = await model.score(PROBLEM);
    expect(alone).toEqual(await model.score(PROBLEM, { context: "<bos>", bos: false }));
    expect(alone.tokenLogprobs).toHaveLength(tokenizer.encode(PROBLEM).length);
    await expect(model.score(PROBLEM, { bos: false })).rejects.toThrow(
      "nothing predicts the first token of the text: bos is false. Pass a context.",
    );
  });

  test("is evaluated and stays open", async () => {
    await expect(evaluate(model, { tasks: "quiz.yaml" as never })).rejects.toThrow(/tasks must be a list/);
    const { scores, samples } = await evaluate(model, { tasks: [at("quiz.yaml")], limit: 4 });
    const [score] = scores;
    expect(score).toMatchObject({ task: "quiz", items: 4 });
    expect(samples.quiz).toHaveLength(4);
    expect((await model.generate("Sums:", { maxNewTokens: 1 })).tokens).toHaveLength(1);
    await model.close();
  });
});

test("train takes the fields of a run file and chooses a learning rate where none is given", async () => {
  const seen: number[] = [];
  const problems = readFileSync(at("problems.jsonl"), "utf8").split("\n");
  writeFileSync(at("few.jsonl"), problems.slice(0, 200).join("\n"));
  const run = { base: "base", out: "trained", data: "few.jsonl", sequence_length: 48, steps: 2 };
  const result = await train(run, { folder, onProgress: ({ done, total }) => seen.push(done / total) });
  expect({ steps: result.steps, seen }).toEqual({ steps: 2, seen: [0.5, 1] });
  expect(result.notes).toEqual([
    expect.stringMatching(/^learning rate [\de.-]+ is the default for full fine-tuning of/),
  ]);
  expect(result.warnings).toEqual([
    expect.stringMatching(/^saving as bfloat16 keeps \d+\.\d% of the changed elements/),
  ]);
  expect((await inspect({ source: result.last })).layers).toBe(8);
  await expect(train({ ...run, sequenceLength: 48 } as typeof run, { folder })).rejects.toThrow(/sequence_length/);
});

test("keeps the user's own names in a run", async () => {
  const source = at("talk.jsonl");
  const turns = [
    { from: "humanTurn", value: "Sums:" },
    { from: "gpt", value: "2." },
  ];
  writeFileSync(source, `${JSON.stringify({ talk: turns })}\n`.repeat(12));
  const map = { messages: "talk", role: "from", content: "value", roles: { humanTurn: "user" } } as const;
  const run = { base: "base", out: "talked", data: { source, map }, sequence_length: 48, steps: 1 };
  expect((await train(run, { folder })).steps).toBe(1);
});

describe("serve", () => {
  test("answers as the model does, chosen by name, until it is closed", async () => {
    const paths: string[] = [];
    const opened: string[] = [];
    const phases = new Set<string>();
    const server = await serve(
      { mixed: SWAP, math: "math-expert" },
      {
        ...{ folder, port: 0, threads: 1 },
        onRequest: ({ path }) => void paths.push(path),
        onOpen: (name, { family }) => void opened.push(`${name} ${family}`),
        onProgress: ({ phase }) => void phases.add(phase),
      },
    );
    expect(opened).toEqual(["mixed Llama", "math Llama"]);
    expect([...phases]).toEqual(["opening mixed", "loading mixed", "opening math", "loading math"]);
    const url = `${server.url}/v1/completions`;
    const ask = async (model: string) => {
      const body = JSON.stringify({ model, prompt: "Sums:", max_tokens: 6, temperature: 0 });
      return (await (await fetch(url, { method: "POST", body })).json()) as { choices: { text: string }[] };
    };
    for (const [name, source] of Object.entries({ mixed: SWAP, math: "math-expert" })) {
      await using model = await openModel(source, { folder });
      const { text } = await model.generate("Sums:", { maxNewTokens: 6 });
      expect((await ask(name)).choices[0]?.text).toBe(text);
    }
    await server.close();
    expect(paths).toEqual(["/v1/completions", "/v1/completions"]);
    await expect(fetch(url)).rejects.toThrow();
    const both = { math: "math-expert", no: "no-such-model" };
    await expect(serve(both, { folder, port: 0, onOpen: (name) => void opened.push(name) })).rejects.toThrow();
    expect(opened).toHaveLength(2);
    const late = new AbortController();
    const stopped = serve(
      { math: "math-expert" },
      { folder, port: 0, signal: late.signal, onOpen: () => late.abort() },
    );
    await expect(stopped).rejects.toThrow(CancelledError);
    await expect(serve({ math: "math-expert" }, { folder, host: "0.0.0.0" })).rejects.toThrow("needs an API key");
    await expect(serve({ no: "no-such-model" }, { folder, port: 70_000 })).rejects.toThrow("port is 70000; it must be");
  });
});

describe("llama.cpp", () => {
  beforeAll(async () => {
    await writeByteModel(at("one"), 1);
    await writeByteModel(at("two"), 2);
    writeLetters(folder);
    vi.stubEnv("NODE_LLAMA_CPP", FAKE_LLAMA);
    vi.stubEnv("LAYERGRAFT_CACHE", at("cache"));
  });
  afterAll(() => void vi.unstubAllEnvs());
  const PROMPT = "Amina ana maembe";
  const SOUP = { method: "soup", models: ["one", "two"] } as const;
  const llama = { folder, backend: "llama", type: "q4_0" } as const;

  /** Greedy tokens of the stand-in, up to an end token. */
  async function answerOf(model: Model, count: number): Promise<number[]> {
    const engine = Model.engineOf(model);
    const ends = await engine.stopIds();
    const prompt = await engine.encode(PROMPT);
    const text = [...prompt];
    while (text.length < prompt.length + count) {
      const logits = logitsAfter(text, model.vocabularySize);
      const next = logits.indexOf(Math.max(...logits));
      if (ends.includes(next)) break;
      text.push(next);
    }
    return text.slice(prompt.length);
  }

  test("runs models, evaluations and servers that ask for it", async () => {
    const phases = new Set<string>();
    await using model = await openModel(SOUP, { ...llama, onProgress: ({ phase }) => phases.add(phase) });
    expect(model.notes.at(-1)).toMatch(/^weights are q4_0 in .*cache.gguf/);
    expect([...phases]).toEqual(["exporting as q4_0 for llama.cpp"]);
    const { text, tokens } = await model.generate(PROMPT, { maxNewTokens: 5 });
    expect(tokens.length).toBeGreaterThan(0);
    expect(tokens).toEqual(await answerOf(model, 5));

    const tasks = [at("letters.yaml")];
    const own = await evaluate(model, { tasks, limit: 3 });
    const named = await evaluate(at("one"), { tasks, limit: 3, backend: "llama", type: "q4_0" });
    for (const { results } of [own, named]) expect(results.backend).toMatchObject({ backend: "llama" });

    await using server = await serve({ mixed: SOUP }, { ...llama, port: 0, context: 300 });
    const body = JSON.stringify({ prompt: PROMPT, max_tokens: 5, temperature: 0 });
    const answer = await fetch(`${server.url}/v1/completions`, { method: "POST", body });
    const { choices } = (await answer.json()) as { choices: { text: string }[] };
    expect(choices[0]?.text.trim()).toBe(text.trim());
    // Each model was exported once.
    expect(readdirSync(at("cache/gguf"))).toHaveLength(2);
  });

  test("is refused where options do not go together", async () => {
    const refused = (source: string, options: object) => expect(openModel(source, { folder, ...options })).rejects;
    await refused("one", { type: "q8_0", backend: "engine" }).toThrow("type needs the backend llama.");
    await refused("one", { ...llama, type: "q3_k" }).toThrow(/type is q3_k; it must be one of f32, .*q4_0$/);
    await refused("one", { backend: "vllm" }).toThrow("backend is vllm; it must be engine or llama");
    await refused("one", { ...llama, providers: ["cuda"] }).toThrow("llama.cpp chooses the GPU itself.");
    await refused("m.gguf", llama).toThrow("m.gguf is a GGUF file, which has its own type.");
    await using model = await openModel("one", { folder });
    await expect(evaluate(model, { tasks: [at("quiz.yaml")], backend: "llama" })).rejects.toThrow("is open already");
  });
});
