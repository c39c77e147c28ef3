// @module-tag slow
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { initialWeights, writeInitialModel } from "../../../examples/miniature/world/untrained-model.js";
import { writeByteModel, writeLetters } from "../../../test/support/byte-model.js";
import { encodeValues } from "../../../test/support/checkpoints.js";
import { FAKE_LLAMA } from "../../../test/support/fake-llama.js";
import { writeWordTokenizer } from "../../../test/support/small-world.js";
import { openModelSource } from "../../engine/index.js";
import { planGguf } from "../../export/index.js";
import { writeSharded } from "../../formats/safetensors/index.js";
import { CancelledError } from "../../kit/index.js";
import { commandRunner } from "../execute/slurm-commands.js";
import { openExperiment, previewExperiment } from "../experiment.js";
import { checkMerges } from "./check-merges.js";
import { machineNotes } from "./machine.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-check-"));
afterAll(() => rmSync(root, { recursive: true }));
const file = (name: string) => join(root, name);

beforeAll(async () => {
  await writeInitialModel(file("base"), 1, { layers: 3, width: 16, heads: 2, feedForward: 32 });
  writeFileSync(file("one.jsonl"), '{"text":"asha had 3 bananas .","answer":"3"}\n');
  const task = ["task: one", "data: one.jsonl", 'prompt: "{text}"', "answer: generate", 'gold: "{answer}"'];
  writeFileSync(file("one.yaml"), [...task, "max_new_tokens: 4", "read: number", ""].join("\n"));
  const corpus = [...task.with(0, "task: other-name"), "max_new_tokens: 4", "read: line", "score: [bleu, exact]", ""];
  writeFileSync(file("corpus.yaml"), corpus.join("\n"));
});

const EXPERTS = `base: base
experts:
  math: { role: task, folders: [base] }
  swahili: { role: language, language: sw, folders: [base] }
`;

async function problemsOf(search: string, grid = "[1, 2]", task = "one.yaml"): Promise<string> {
  const plan = `
name: one
${EXPERTS}merges:
  - name: swap
    recipe: { method: swap, task: math, language: swahili, top: 0, bottom_transition: 0, top_transition: 0 }
    grid: { bottom: ${grid} }
evaluate: { tasks: [${task}] }
search: { ${search} }
`;
  writeFileSync(file("plan.yaml"), plan);
  return (await openExperiment(file("plan.yaml"))).world.problems.join("\n");
}

it("a plan for Slurm says that sbatch is missing, and that the engine leaves a GPU idle", async () => {
  const plan = (executor: object, backend = "engine") =>
    ({ executor: { kind: "slurm", ...executor }, evaluate: { backend } }) as Parameters<typeof machineNotes>[0];
  const missing = commandRunner();
  const there = async () => "slurm 24.05";
  const none = vi.spyOn(process, "env", "get").mockReturnValue({ PATH: "" });
  expect(await machineNotes(plan({}), missing)).toEqual([expect.stringMatching(/^sbatch is missing\. Run on a login/)]);
  none.mockRestore();
  const idle = [expect.stringMatching(/ask for a GPU, but backend: engine runs on the CPU/)];
  expect(await machineNotes(plan({ gpus: "gpu:1" }), there)).toEqual(idle);
  expect(await machineNotes(plan({ evaluate: { partition: "gpu-a100" } }), there)).toEqual(idle);
  expect(await machineNotes(plan({ gpus: "gpu:1" }, "serve:vllm serve {model}"), there)).toEqual([]);
  expect(await machineNotes(plan({ partition: "cpu" }), there)).toEqual([]);
});

it("a search needs two items", async () => {
  const message =
    "search.by: one has one item, so none is left to compare on. Add items, choose another task, or set choose_on: test";
  expect(await problemsOf("how: grid")).toContain(message);
  expect(await problemsOf("choose_on: test")).toBe("");
  expect(await problemsOf("how: grid", "[1]")).toBe(""); // nothing to choose
});

it("a score of a whole corpus cannot choose a configuration", async () => {
  const message = "other-name has one score for the whole corpus, but configurations are compared item by item";
  for (const task of ["corpus.yaml", "./corpus.yaml", "{ task: corpus.yaml, limit: 1 }"]) {
    expect(await problemsOf("choose_on: test", "[1, 2]", task), task).toContain(message);
  }
  expect(await problemsOf("how: halving, by: corpus.yaml", "[1, 2]", "one.yaml, corpus.yaml")).toContain(message);
  expect(await problemsOf("choose_on: test, by: one.yaml", "[1, 2]", "one.yaml, corpus.yaml")).toBe("");
});

it("the first configurations that cannot be planned are reported, and the number of others", async () => {
  const problems = (
    await problemsOf("choose_on: test", `[1, ${Array.from({ length: 30 }, (_, i) => 4 + i).join(", ")}]`)
  ).split("\n");
  expect(problems).toHaveLength(9);
  expect(problems[0]).toMatch(/^line 8: merges\[0\]: swap, bottom 4: /);
  expect(problems[8]).toBe("line 8: merges[0]: swap: 22 further configurations cannot be planned either");
});

it("only experts in merges must fit the base, with aligned vocabularies if merges align them", async () => {
  // The base with another vocabulary: a token more.
  const config = JSON.parse(readFileSync(file("base/config.json"), "utf8")) as {
    vocab_size: number;
    hidden_size: number;
  };
  const { vocab_size: size, hidden_size: width } = config;
  await writeInitialModel(file("wide"), 1, { layers: 3, width: 16, heads: 2, feedForward: 32 });
  writeFileSync(file("wide/config.json"), JSON.stringify({ ...config, vocab_size: size + 1 }));
  const wider = initialWeights({ layers: 3, width: 16, heads: 2, feedForward: 32 }, 1).map((tensor) =>
    /embed_tokens|lm_head/.test(tensor.name)
      ? { ...tensor, shape: [size + 1, width], data: Buffer.concat([tensor.data, Buffer.alloc(4 * width)]) }
      : tensor,
  );
  rmSync(file("wide/model.safetensors"));
  await writeSharded(file("wide"), wider);
  const tokenizer = JSON.parse(readFileSync(file("base/tokenizer.json"), "utf8")) as { model: { vocab: object } };
  const vocab = { ...tokenizer.model.vocab, more: size };
  writeFileSync(file("wide/tokenizer.json"), JSON.stringify({ ...tokenizer, model: { ...tokenizer.model, vocab } }));
  const of = async (recipe: string) => {
    const plan = [
      "name: one\nbase: base\nexperts:",
      "  math: { role: task, folders: [base] }",
      "  swahili: { role: language, language: sw, folders: [base] }",
      "  reference: { role: other, folders: [wide] }",
      `merges: [{ name: merge, recipe: ${recipe} }]`,
      "evaluate: { tasks: [one.yaml] }",
    ];
    writeFileSync(file("plan.yaml"), plan.join("\n"));
    return (await openExperiment(file("plan.yaml"))).world.problems.join("\n");
  };
  expect(await of("{ method: soup, models: [math, swahili] }")).toBe("");
  expect(await of("{ method: soup, models: [math, reference] }")).toMatch(/reference.*wide/s);
  expect(await of("{ method: soup, models: [math, reference], vocabulary: union }")).toBe("");
});

it("an expert in another element type than the base's merges where the recipe has a dtype", async () => {
  await writeInitialModel(file("half"), 1, { layers: 3, width: 16, heads: 2, feedForward: 32 });
  rmSync(file("half/model.safetensors"));
  const rounded = initialWeights({ layers: 3, width: 16, heads: 2, feedForward: 32 }, 1).map((tensor) => {
    const values = new Float32Array(new Uint8Array(tensor.data).buffer);
    return { ...tensor, dtype: "BF16" as const, data: encodeValues(values, "BF16") };
  });
  await writeSharded(file("half"), rounded);
  const of = async (recipe: string) => {
    const plan = [
      "name: one\nbase: half\nexperts:",
      "  grpo: { role: task, folders: [base] }",
      "  swahili: { role: language, language: sw, folders: [half] }",
      `merges: [{ name: merge, recipe: ${recipe} }]`,
      "evaluate: { tasks: [one.yaml] }",
    ];
    writeFileSync(file("plan.yaml"), plan.join("\n"));
    return (await openExperiment(file("plan.yaml"))).world.problems.join("\n");
  };
  expect(await of("{ method: soup, models: [grpo, swahili], dtype: float32 }")).toBe("");
  expect(await of("{ method: soup, models: [grpo, swahili] }")).toMatch(
    /^line 6: merges\[0\]: merge: .*differ in dtype/s,
  );
});

it("variables are those that the base's chat template reads", async () => {
  const openWith = (variables: string) => {
    writeFileSync(
      file("plan.yaml"),
      `name: one\nbase: base\nevaluate: { tasks: [one.yaml], chat_template_kwargs: ${variables} }\n`,
    );
    return openExperiment(file("plan.yaml"));
  };
  expect((await openWith("{ mesage: false }")).world.problems).toEqual([
    expect.stringMatching(
      /evaluate\.chat_template_kwargs: mesage is not read by the chat template.*did you mean message\?$/,
    ),
  ]);
  expect((await openWith("{ bos_token: x }")).world.problems).toEqual([]);
});

it("tasks with a chat protocol are asked as chats where the base has a template, unless they name a protocol", async () => {
  const openWith = async (base: string) => {
    const tasks =
      "[mgsm_sw, { task: mgsm_en, protocol: mgsm-native-cot, temperature: 0.6, top_p: 0.9, repeats: 4 }, one.yaml]";
    const data = join(import.meta.dirname, "../../../test/fixtures/evaluation");
    writeFileSync(file("plan.yaml"), `name: one\nbase: ${base}\nevaluate: { tasks: ${tasks}, data: ${data} }\n`);
    return openExperiment(file("plan.yaml"));
  };
  const protocols = (world: Awaited<ReturnType<typeof openWith>>["world"]) =>
    [...world.facts.tasks.values()].map(({ protocol }) => protocol);
  const english = "layergraft/mgsm-native-cot@5, 8-shot, temperature 0.6, top-p 0.9, 4 repeats";
  cpSync(file("base"), file("plain"), { recursive: true });
  const settings = JSON.parse(readFileSync(file("base/tokenizer_config.json"), "utf8")) as object;
  writeFileSync(file("plain/tokenizer_config.json"), JSON.stringify({ ...settings, chat_template: undefined }));
  const text = await openWith("plain");
  expect(protocols(text.world)).toEqual(["layergraft/mgsm-native-cot@5, 8-shot", english, "custom/one@1, 0-shot"]);
  expect(text.world.notes).toEqual([]);
  const { world, plan } = await openWith("base");
  expect(protocols(world)).toEqual(["layergraft/mgsm-chat@5, 0-shot", english, "custom/one@1, 0-shot"]);
  expect(plan.evaluate.tasks[0]).toMatchObject({ task: "mgsm_sw", protocol: "layergraft/mgsm-chat" });
  expect(world.notes).toEqual([
    "mgsm_sw is asked as a chat (layergraft/mgsm-chat), as the base has a chat template; set protocol to ask otherwise",
  ]);
  const wrong = await openExperiment({
    name: "one",
    out: file("out"),
    base: file("base"),
    evaluate: { tasks: [{ task: file("one.yaml"), repeats: 2 }] },
  });
  expect(wrong.world.problems.join()).toMatch(/repeats need a temperature above 0/);
});

it("merges of experts that are here print what they will note in a dry run", async () => {
  writeFileSync(file("text.jsonl"), '{"text":"asha had 3 bananas ."}\n'.repeat(4));
  const plan = [
    "name: noted\nbase: base\nexperts:",
    "  here: { role: task, folders: [base] }",
    "  later: { role: other, train: { seeds: [1], run: { data: text.jsonl, samples: 4 } } }",
    "merges:",
    "  - { name: same, recipe: { method: soup, models: [here, here] } }",
    "  - { name: unknown, recipe: { method: soup, models: [here, later] } }",
    "evaluate: { tasks: [one.yaml] }",
  ];
  writeFileSync(file("plan.yaml"), plan.join("\n"));
  const { merges } = await previewExperiment(await openExperiment(file("plan.yaml")));
  expect(merges).toEqual({
    notes: [{ name: "same", note: "models[0] and models[1] are the same model" }],
    later: 1,
  });
});

it("merges that make the same model are named before anything is trained", async () => {
  writeFileSync(file("text.jsonl"), '{"text":"asha had 3 bananas ."}\n'.repeat(4));
  const run = (more = "") => `{ seeds: [1], run: { data: text.jsonl, samples: 4${more} } }`;
  const notesOf = async (merges: readonly string[]) => {
    const plan = [
      "name: one\nbase: base\nexperts:",
      `  math: { role: task, train: ${run()} }`,
      `  math-reverted: { role: other, train: ${run(", revert: layers 0")} }`,
      `  target: { role: other, train: ${run(", optimizer: { lr: 1.0e-3 }")} }`,
      `  target-reverted: { role: other, train: ${run(", optimizer: { lr: 1.0e-3 }, revert: layers 1-2")} }`,
      "merges:",
      ...merges.map((recipe, i) => `  - { name: merge ${i}, recipe: ${recipe} }`),
      "evaluate: { tasks: [one.yaml] }",
    ];
    writeFileSync(file("plan.yaml"), plan.join("\n"));
    const { world } = await openExperiment(file("plan.yaml"));
    expect(world.problems).toEqual([]);
    return world.notes;
  };
  const layers = "layers: { language: [0] }";
  expect(
    await notesOf([
      `{ method: swap, task: math, language: target, ${layers} }`,
      `{ method: swap, task: math-reverted, language: target-reverted, ${layers} }`,
      `{ method: swap, task: target, language: math, ${layers} }`,
      "{ method: soup, models: [math, target] }",
      "{ method: soup, models: [math-reverted, target-reverted] }",
      `{ method: swap, task: math, language: target, layers: { language: [1] } }`,
      // As training with revert, in a recipe.
      `{ method: swap, task: { method: revert, expert: math, base: base, layers: 0 }, language: target, ${layers} }`,
    ]),
  ).toEqual([
    "merge 1 and merge 0 make the same model, tensor by tensor. Remove one, and what only it needs",
    "merge 6 and merge 0 make the same model, tensor by tensor. Remove one, and what only it needs",
  ]);
});

it("llama.cpp is missing, or does not run the models", async () => {
  await writeByteModel(file("bytes"), 1);
  writeLetters(root);
  const worldOf = async (base: string, library: string) => {
    const backend = "backend: llama, type: q4_0";
    writeFileSync(file("llama.yaml"), `name: l\nbase: ${base}\nevaluate: { tasks: [letters.yaml], ${backend} }\n`);
    vi.stubEnv("NODE_LLAMA_CPP", library);
    vi.stubEnv("LAYERGRAFT_CACHE", file("cache"));
    const { world } = await openExperiment(file("llama.yaml"));
    vi.unstubAllEnvs();
    return world;
  };
  const { problems, gguf } = await worldOf("bytes", FAKE_LLAMA);
  expect(problems).toEqual([]);
  const plan = await planGguf(await openModelSource(file("bytes")), { type: "q4_0" });
  expect(gguf).toEqual({ bytes: plan.layout.bytes, folder: file("cache/gguf"), mostBytes: 50e9 });
  expect((await worldOf("bytes", file("nothing.js"))).problems).toEqual([
    "line 3: evaluate.backend: llama.cpp is not installed (add it with: npm install --ignore-scripts node-llama-cpp). The embedded engine (backend engine) needs no installation.",
  ]);
  cpSync(file("base"), file("words"), { recursive: true });
  writeWordTokenizer(file("words"));
  expect((await worldOf("words", FAKE_LLAMA)).problems).toEqual([
    expect.stringMatching(
      /^line 3: evaluate\.backend: .*words cannot be exported as GGUF: its tokenizer is a WordLevel/,
    ),
  ]);
});

it("warns of choices that the base's tokenizer cannot tell apart", async () => {
  writeFileSync(file("quiz.jsonl"), '{"text":"asha","choices":["qqq","zzz"],"right":1}\n');
  const task = ["task: quiz", "data: quiz.jsonl", 'prompt: "{text}"', "answer: choose", "choices: choices"];
  writeFileSync(file("quiz.yaml"), [...task, 'correct: "{right}"', ""].join("\n"));
  writeFileSync(file("choices.yaml"), "name: choices\nbase: words\nevaluate: { tasks: [quiz.yaml] }\n");
  const { notes, problems } = (await openExperiment(file("choices.yaml"))).world;
  expect(problems).toEqual([]);
  expect(notes.slice(0, 1)).toEqual([
    'quiz: choices with the same tokens in 1 of 1 items, such as "qqq" and "zzz" of item 1; the model cannot tell them apart',
  ]);
});

it("experts that look unrelated to the base are refused, unless the plan allows them", async () => {
  await writeInitialModel(file("stranger"), 2, { layers: 3, width: 16, heads: 2, feedForward: 32 });
  const problemsWith = async (allowed: string) => {
    const plan = `
name: strangers
base: base
${allowed}
experts:
  math: { role: task, folders: [stranger] }
merges:
  - { name: soup, recipe: { method: soup, models: [math, base] } }
evaluate: { tasks: [one.yaml] }
`;
    writeFileSync(file("strangers.yaml"), plan);
    return (await openExperiment(file("strangers.yaml"))).world.problems.join("\n");
  };
  expect(await problemsWith("")).toMatch(
    /^line 6: experts\.math\.folders\[0\]: the weights of models\[1\] \(stranger\) and models\[0\] \(base\) look unrelated: .*\. Check the folder, or set allow_unrelated: true$/,
  );
  expect(await problemsWith("allow_unrelated: true")).toBe("");
});

const gridPlan = `
name: numbers
${EXPERTS}merges:
  - name: swap
    recipe: { method: swap, task: math, language: swahili, bottom_transition: 0, top_transition: 0 }
    grid: { bottom: [1, 2, 3], top: [1, 2] }
  - name: della
    recipe: { method: della, base: base, models: [math, swahili] }
    grid: { density: [0.5, 0.6, 0.95], epsilon: [0.04, 0.2] }
  - name: soup
    recipe: { method: soup, models: [{ model: math, weight: 0.5 }, { model: swahili, weight: 0.5 }] }
    grid: { models.0.weight: [0.25, -0.5] }
evaluate: { tasks: [one.yaml] }
search: { choose_on: test }
`;

it("finds the wrong numbers of a grid, whose recipes are planned once", async () => {
  writeFileSync(file("plan.yaml"), gridPlan);
  const { problems } = (await openExperiment(file("plan.yaml"))).world;
  expect(problems.map((one) => /: (\w+, [^:]+):/.exec(one)?.[1])).toEqual([
    "swap, bottom 2, top 2",
    "swap, bottom 3, top 1",
    "swap, bottom 3, top 2",
    "della, density 0.95, epsilon 0.2",
    "soup, models.0.weight -0.5",
  ]);
});

it("stops between two combinations", async () => {
  writeFileSync(file("plan.yaml"), gridPlan);
  const { plan, world } = await openExperiment(file("plan.yaml"));
  const controller = new AbortController();
  const checked = checkMerges(plan, world.facts, root, () => false, controller.signal);
  controller.abort();
  await expect(checked).rejects.toThrow(CancelledError);
});
