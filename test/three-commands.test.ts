// From two names on the hub to a merged, compared, quantised and pushed model, as README has it, on a fake hub.
// @module-tag slow
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { openSafetensors, readTensor, writeSafetensors } from "../src/formats/safetensors/index.js";
import { merge, openModel } from "../src/verbs/index.js";
import { temporaryFolder } from "./support/checkpoints.js";
import { DONE, FAILED, layergraft, type Outcome, WRONG_USAGE } from "./support/command.js";
import { copyDecoder } from "./support/export-fixtures.js";
import { FakeHub } from "./support/fake-hub.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const FAMILIES = ["llama", "qwen3", "gemma"];
const CHOICES = ["a", "b", "c", "d"];
let hub: FakeHub;

beforeAll(async () => {
  hub = await FakeHub.start();
  for (const family of FAMILIES) {
    mkdirSync(at(`${family}-task`));
    const task = await copyDecoder(at(`${family}-task`), family);
    mkdirSync(at(`${family}-language`));
    const language = await copyDecoder(at(`${family}-language`), family);
    await scale(join(language, "model.safetensors"), "layers.0.", 3);
    hub.push(`org/${family}-task`, task);
    hub.push(`org/${family}-language`, language);
    await writeTask(family, "task", task);
    await writeTask(family, "language", language);
  }
});

/** Multiplies the matrices of a layer. */
async function scale(path: string, layer: string, factor: number): Promise<void> {
  const file = await openSafetensors(path);
  const tensors = await Promise.all(
    file.tensors.map(async ({ name, dtype, shape, ...place }) => {
      const data = await readTensor(file, { name, dtype, shape, ...place });
      const by = name.includes(layer) && shape.length > 1 ? factor : 1;
      const values = new Float32Array(data.slice().buffer).map((value) => by * value);
      return { name, dtype, shape, data: new Uint8Array(values.buffer) };
    }),
  );
  await writeSafetensors(path, tensors);
}

/** A task whose right answers are those of one expert. */
async function writeTask(family: string, expert: string, folder: string): Promise<void> {
  await using model = await openModel(folder);
  const rows: string[] = [];
  for (let i = 0; i < 24; i++) {
    const question = String.fromCharCode(...[7, 3, 11, 5].map((step) => 97 + ((i * step + step) % 20)));
    const scores = await Promise.all(CHOICES.map((choice) => model.score(choice, { context: question })));
    const best = scores.reduce((one, { logprob }, j) => (logprob > (scores[one]?.logprob ?? 0) ? j : one), 0);
    rows.push(JSON.stringify({ question, options: CHOICES, answer: best }));
  }
  writeFileSync(at(`${family}-${expert}.jsonl`), rows.join("\n"));
  writeFileSync(
    at(`${family}-${expert}.yaml`),
    `task: ${family}_${expert}\ndata: ${family}-${expert}.jsonl\nanswer: choose\nprompt: "{question}"\nseparator: ""\nchoices: options\ncorrect: "{answer}"\n`,
  );
}

function run(...args: string[]): Promise<Outcome> {
  const none = { HF_HUB_CACHE: "", HF_HUB_OFFLINE: "0" };
  const env = { ...none, HF_ENDPOINT: hub.endpoint, HF_HOME: at("home"), HF_TOKEN: hub.token };
  return layergraft(args, { cwd: root, env });
}
const swap = (family: string, out: string, ...rest: string[]) =>
  run("swap", "--task", `org/${family}-task`, "--language", `org/${family}-language`, "--out", out, ...rest);

describe.each(FAMILIES)("%s", (family) => {
  const stages = ["--eval", `${family}-task.yaml`, "--export", "q8_0", "--push", `org/${family}-merged`];

  it("in three commands", async () => {
    const plan = await swap(family, family, ...stages, "--dry-run");
    expect(plan).toMatchObject({ status: DONE });
    expect(plan.stdout).toContain(
      `then evaluate merge, task, language on ${family}_task (24 items) into ${family}.eval\n`,
    );
    expect(plan.stdout).toMatch(/^evaluating downloads the models on the hub, at most [\d.]+ kB$/m);
    expect(plan.stdout).toMatch(new RegExp(`^then export q8_0 to ${family}.gguf: [\\d.]+ kB$`, "m"));
    expect(existsSync(at(family))).toBe(false);

    // The task's answers are those of an expert, so no merge scores higher: it is pushed as it is told.
    const whole = await swap(family, family, ...stages, "--push-anyway");
    expect(whole).toMatchObject({ status: DONE });
    expect(whole.stdout).toMatch(/^task +100\.0$/m);
    expect(whole.stdout).toMatch(new RegExp(`^Wrote ${family}: `, "m"));
    expect(readFileSync(at(`${family}.gguf`)).toString("latin1", 0, 4)).toBe("GGUF");
    expect(hub.repositories.has(`org/${family}-merged`)).toBe(true);

    const verified = await run("verify", family);
    expect(verified).toMatchObject({ status: DONE });
  });
});

/** Every decoder that is kept as a case, by transformers' names; those with settings that llama.cpp lacks are refused. */
const OTHERS = readdirSync(join(import.meta.dirname, "fixtures/decoders"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !FAMILIES.includes(entry.name))
  .map(({ name }) => name);

const REFUSED = [
  ...["cohere", "deepseek_v3", "deepseek_v3-plain", "exaone4", "falcon_h1", "falcon_h1-plain", "glm", "gpt_oss"],
  ...["granitemoehybrid", "granitemoehybrid-rope", "lfm2_moe", "lfm2_moe-plain", "nemotron_h", "nemotron_h-latent"],
  ...["qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_moe-window", "qwen3_next", "qwen3_next-experts"],
];

it.each(OTHERS)("%s is merged, scored, exported and pushed, or refused before the merge", async (family) => {
  for (const expert of ["task", "language"]) {
    mkdirSync(at(`${family}-${expert}`));
    hub.push(`org/${family}-${expert}`, await copyDecoder(at(`${family}-${expert}`), family));
  }
  const stages = ["--eval", "llama-task.yaml", "--limit", "4", "--push", `org/${family}-merged`, "--push-anyway"];
  const outcome = await swap(family, family, ...stages, "--export", "q8_0");
  if (REFUSED.includes(family)) {
    expect(outcome).toMatchObject({ status: FAILED });
    expect(outcome.stderr).toMatch(/llama\.cpp does not run this .* model: .*\. Without an export, layergraft and /);
    expect([existsSync(at(family)), hub.repositories.has(`org/${family}-merged`)]).toEqual([false, false]);
    expect(await swap(family, family, ...stages)).toMatchObject({ status: DONE });
  } else {
    expect(outcome).toMatchObject({ status: DONE });
    expect(readFileSync(at(`${family}.gguf`)).toString("latin1", 0, 4)).toBe("GGUF");
  }
  expect(hub.repositories.has(`org/${family}-merged`)).toBe(true);
});

const scoreOf = (stdout: string, model: string) =>
  Number(new RegExp(`^${model} +([\\d.]+)$`, "m").exec(stdout)?.[1] ?? Number.NaN);

describe("a push", () => {
  it("is held back where the merge scores lower than an expert, and says so", async () => {
    // The task expert's layers alone, scored by the answers of the other.
    const outcome = await swap(
      "llama",
      "held",
      "--bottom",
      "0",
      "--top",
      "0",
      "--eval",
      "llama-language.yaml",
      "--push",
      "org/held",
    );
    const [merge, language] = ["merge", "language"].map((model) => scoreOf(outcome.stdout, model));
    expect(language).toBe(100);
    expect(merge).toBeLessThan(100);
    expect(outcome.status).toBe(FAILED);
    expect(outcome.stderr).toMatch(
      /^warning: not pushed: the merge's average is [\d.]+%, below that of language, 100(?:\.0)?%\. Set --push-anyway to push it$/m,
    );
    expect(hub.repositories.has("org/held")).toBe(false);
    expect(existsSync(at("held/model.safetensors"))).toBe(true);
  });

  it("goes through where it does not", async () => {
    const models = ["--model", "org/llama-task", "--model", "org/llama-task=2"];
    const stages = ["--eval", "llama-task.yaml", "--push", "org/same"];
    const outcome = await run("soup", ...models, "--out", "same", ...stages);
    expect(outcome).toMatchObject({ status: DONE });
    expect(scoreOf(outcome.stdout, "merge")).toBe(100);
    expect(hub.repositories.has("org/same")).toBe(true);
  });
});

describe("before the merge is written", () => {
  it.each([
    [["--eval", "nowhere.yaml"], /nowhere\.yaml/],
    [["--eval", "mbpp"], /mbpp executes programs that the models write/],
    [["--eval", "llama-task.yaml", "--export", "q9"], /type q9 is not a type of gguf/],
    [["--export", "q8_0", "--as", "adapter"], /adapter/],
  ])("%j is refused", async (flags, message) => {
    const outcome = await swap("llama", "refused", ...flags);
    expect([FAILED, WRONG_USAGE]).toContain(outcome.status);
    expect(outcome.stderr).toMatch(message);
    expect(existsSync(at("refused"))).toBe(false);
    expect(existsSync(at("refused.partial"))).toBe(false);
  });
});

describe("the same command again", () => {
  const options = { folder: root, eval: ["llama-task.yaml"], export: "q8_0" };
  const recipe = { method: "swap", task: "llama-task/llama", language: "llama-language/llama" } as const;

  it("goes through the stages that are missing, to the same results", async () => {
    const first = await merge(recipe, { ...options, out: "again" });
    const weights = statSync(at("again/model.safetensors")).mtimeMs;
    const file = readFileSync(at("again.gguf"));
    renameSync(at("again.gguf"), at("kept.gguf"));
    rmSync(at("again.eval/language"), { recursive: true });
    const again = await merge(recipe, { ...options, out: "again" });
    expect(again).toMatchObject({ alreadyComplete: true, exported: first.exported });
    expect(again.evaluation?.models).toEqual(first.evaluation?.models);
    expect(statSync(at("again/model.safetensors")).mtimeMs).toBe(weights);
    expect(readFileSync(at("again.gguf")).equals(file)).toBe(true);
    const done = statSync(at("again.gguf")).mtimeMs;
    await merge(recipe, { ...options, out: "again" });
    expect(statSync(at("again.gguf")).mtimeMs).toBe(done);
  });

  it("resumes where an interrupt stopped it between two stages", async () => {
    const stop = new AbortController();
    const onProgress = ({ phase }: { readonly phase: string }) => {
      if (phase.startsWith("task: ")) stop.abort();
    };
    const stopped = merge(recipe, { ...options, out: "stopped", signal: stop.signal, onProgress });
    await expect(stopped).rejects.toMatchObject({ name: "CancelledError" });
    expect(existsSync(at("stopped/model.safetensors"))).toBe(true);
    expect(existsSync(at("stopped.eval/merge/results.json"))).toBe(true);
    expect(existsSync(at("stopped.gguf"))).toBe(false);
    const { evaluation } = await merge(recipe, { ...options, out: "stopped" });
    expect(evaluation?.models.map(({ id }) => id)).toEqual(["merge", "task", "language"]);
    expect(existsSync(at("stopped.gguf"))).toBe(true);
    const card = readFileSync(at("stopped/README.md"), "utf8");
    const [verdict = ""] = evaluation?.verdicts ?? [];
    expect(verdict).toMatch(
      /^The merge scores [\d.]+%, [\d.]+ points below the task expert, the best single model \(100\.0%; 95% interval/,
    );
    expect(card.match(/^## .+$/gm)).toEqual(["## Evaluation", "## Use"]);
    expect(card).toContain(`; custom/llama\\_task@1. ${verdict}\n`);
    expect(card).toMatch(/^\| task \| 100\.0 \|/m);
  });
});
