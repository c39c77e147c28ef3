// Evaluations of a project's models: where results are, what is not computed again, and progress over all models.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { writeByteModel, writeLetters } from "../../../test/support/byte-model.js";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { FAKE_LLAMA } from "../../../test/support/fake-llama.js";
import type { Progress } from "../../kit/index.js";
import { CancelledError } from "../../kit/index.js";
import type { JobInput } from "../protocol/index.js";
import { choicesOf, listEvaluations } from "../server/evaluations.js";
import { evaluateModels } from "./evaluate.js";

const project = temporaryFolder();
const at = (...names: string[]) => join(project, ...names);
const ONE = { name: "one 😀", source: "one" };
const TWO = { name: "two", source: "two" };

beforeAll(async () => {
  await writeByteModel(at("one"), 1);
  await writeByteModel(at("two"), 2);
  writeLetters(project);
});
afterAll(() => void vi.unstubAllEnvs());

interface Options {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
  readonly models?: JobInput<"evaluate">["models"];
  readonly tasks?: [string];
  readonly limit?: number;
  readonly data?: string;
  readonly shots?: number;
  readonly backend?: string;
  readonly type?: string;
}
const run = ({ signal = new AbortController().signal, onProgress = () => {}, ...input }: Options) =>
  evaluateModels({ models: [ONE], tasks: ["letters.yaml"], ...input }, { project }, { signal, onProgress });
const read = (folder: string, file: string) => readFileSync(at("evaluations", folder, file), "utf8");

describe("evaluateModels", () => {
  it("keeps answers of a cancelled evaluation, and resumes with them", async () => {
    const controller = new AbortController();
    const onProgress = ({ done }: Progress) => done === 2 && controller.abort();
    await expect(run({ signal: controller.signal, onProgress })).rejects.toThrow(CancelledError);
    expect(await listEvaluations(project)).toEqual([]);
    const [{ folder, isKept } = { folder: "", isKept: true }] = await run({});
    expect([readdirSync(at("evaluations")), isKept]).toEqual([[folder], false]);
    expect(JSON.parse(read(folder, "run.json"))).toMatchObject({ kept: expect.toSatisfy((count) => count >= 2) });
  });

  it("counts items over all models, and does not run what has a result", async () => {
    const seen: number[] = [];
    const onProgress = ({ done, total }: Progress) => {
      if (total === 0) return;
      expect(total).toBe(8);
      seen.push(done);
    };
    const results = await run({ models: [ONE, TWO], onProgress });
    expect(results.map(({ name, isKept }) => [name, isKept])).toEqual([
      [ONE.name, true],
      ["two", false],
    ]);
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.at(-1)).toBe(8);
    const listed = await listEvaluations(project);
    expect(listed.map(({ source, tasks: [task] }) => [source, task?.items]).sort()).toEqual([
      ["one", 4],
      ["two", 4],
    ]);
    expect(new Set(listed.map(({ tasks: [task] }) => task?.prompts)).size).toBe(1);
  });

  it("evaluates the others where a model fails, and names it", async () => {
    writeFileSync(at("broken.yaml"), "method: soup\nmodels: [one, gone]\n");
    const models = [{ name: "recipe broken", source: "broken.yaml" }, TWO];
    await expect(run({ models, limit: 3 })).rejects.toThrow(/^recipe broken: .*gone.*\nThe results of two are kept\.$/);
    const [kept] = await run({ models: [TWO], limit: 3 });
    expect(kept?.isKept).toBe(true);
  });

  it("keeps the result of a model that gets another name", async () => {
    const [first] = await run({});
    const [renamed] = await run({ models: [{ ...ONE, name: "other name" }] });
    expect(renamed).toEqual({ name: "other name", folder: first?.folder, isKept: true });
  });

  it("has another folder for other questions, models and limits", async () => {
    const folders = new Set<string>();
    const add = async (options: Options) => {
      const [result] = await run(options);
      expect(result?.isKept).toBe(false);
      folders.add(result?.folder ?? "");
    };
    await add({ limit: 2 });
    await add({ shots: 0, limit: 1 });
    writeFileSync(at("swap.yaml"), "method: soup\nmodels: [one, two]\n");
    await add({ models: [{ name: "recipe", source: "swap.yaml" }] });
    const versions = async () => (await listEvaluations(project)).filter(({ source }) => source === "swap.yaml");
    expect((await versions()).map(({ isEarlier }) => isEarlier)).toEqual([false]);
    writeFileSync(at("swap.yaml"), "method: soup\nmodels: [{ model: one, weight: 2 }, two]\n");
    expect((await versions()).map(({ isEarlier }) => isEarlier)).toEqual([true]);
    await add({ models: [{ name: "recipe", source: "swap.yaml" }] });
    expect((await versions()).map(({ isEarlier }) => isEarlier).sort()).toEqual([false, true]);
    expect((await versions()).find(({ isEarlier }) => !isEarlier)?.name).toBe([...folders].at(-1));
    writeFileSync(at("letters.jsonl"), '{"text":"xy","answer":"xy"}\n');
    await add({});
    writeLetters(project);
    expect(folders.size).toBe(5);
  });

  it("runs models in llama.cpp, where it is installed", async () => {
    vi.stubEnv("NODE_LLAMA_CPP", FAKE_LLAMA);
    vi.stubEnv("LAYERGRAFT_CACHE", at("cache"));
    const [{ folder } = { folder: "" }] = await run({ backend: "llama", type: "q4_0" });
    expect(JSON.parse(read(folder, "results.json"))).toMatchObject({ source: "one", backend: { backend: "llama" } });
  });

  it("says in a sentence why it cannot", async () => {
    for (const [options, message] of [
      [{ tasks: ["none.yaml"] }, /none\.yaml/],
      [{ tasks: ["letter"] }, /unknown task letter/],
      [{ tasks: ["mbpp"], data: "." }, /mbpp/],
      [{ tasks: ["gsm8k"], data: "." }, /no data for/],
      [{ models: [{ name: "gone", source: "gone" }] }, /gone/],
    ] satisfies [Options, RegExp][]) {
      await expect(run(options)).rejects.toThrow(message);
    }
  });
});

describe("choicesOf", () => {
  it("lists task files with their problems, and no other YAML", async () => {
    writeFileSync(at("wrong.yml"), "task: wrong\nanswer: generate\nprompt: x\n");
    writeFileSync(at("plan.yaml"), "evaluate: { tasks: [letters.yaml] }\n");
    writeFileSync(at("huge.yaml"), "task: huge\nanswer: generate\n");
    truncateSync(at("huge.yaml"), 5e9);
    execFileSync("mkfifo", [at("pipe.yaml")]);
    mkdirSync(at("folder.yaml"));
    const { files, families } = await choicesOf(project);
    expect(files.map(({ file, problem }) => [file, problem !== null])).toEqual([
      ["letters.yaml", false],
      ["wrong.yml", true],
    ]);
    // MBPP executes what models write.
    expect(families.map(({ name }) => name)).toEqual(expect.arrayContaining(["mgsm", "belebele", "mmlu"]));
    expect(families.map(({ name }) => name)).not.toContain("mbpp");
  });

  it("results that are none are not listed", async () => {
    const before = await listEvaluations(project);
    const [{ name: latest } = { name: "" }] = before;
    const odd = readFileSync(at("evaluations", latest, "results.json"), "utf8").replace(/"items": ?\d+/, '"items":-1');
    for (const text of ["{", "[]", "{}", '{"format":1}', odd]) {
      const [{ name } = { name: "" }] = before;
      const file = at("evaluations", name, "results.json");
      expect(existsSync(file)).toBe(true);
      const kept = readFileSync(file);
      writeFileSync(file, text);
      expect(await listEvaluations(project)).toHaveLength(before.length - 1);
      writeFileSync(file, kept);
    }
  });
});
