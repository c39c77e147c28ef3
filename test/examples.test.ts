// Every plan and run file of examples/ passes its dry run: against the fake hub with the configurations, headers and sizes of
// the published models, and made rows in the layouts of the data sets. New files are found in their folders.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import promises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { membersOf } from "../src/experiment/plan/expert-names.js";
import { readPlan } from "../src/experiment/plan/plan-file.js";
import type { ExperimentPlan } from "../src/experiment/plan/plan-schema.js";
import { formatBytes } from "../src/kit/printing/index.js";
import { readRun } from "../src/train/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, expectReadable, layergraft, type Outcome, WRONG_USAGE } from "./support/command.js";
import { type Files, taskFiles, taskSets, trainingSets } from "./support/data-sets.js";
import { writeTinyTokenizer } from "./support/export-fixtures.js";
import { FakeHub, fakeFile } from "./support/fake-hub.js";
import { published, publishedFiles, shapesOf } from "./support/published-models.js";

const EXAMPLES = join(import.meta.dirname, "../examples");
const root = temporaryFolder();
const TOKENIZER = join(import.meta.dirname, "fixtures/tokenizers/llama3.json");

const namesIn = (folder: string) => readdirSync(join(EXAMPLES, folder)).filter((name) => name.endsWith(".yaml"));
const PLANS = namesIn("experiments");
const RUNS = namesIn("train");

const numberIn = (text: string) => Number(text.replaceAll(",", ""));

const PAGE = join(EXAMPLES, "../docs/reproduce-the-paper.md");
/** UPDATE_FIGURES=1 writes the figures of the page from the dry runs, instead of comparing them. */
const isUpdate = process.env.UPDATE_FIGURES === "1";

/** The row of a plan in docs/reproduce-the-paper.md, from what its dry run prints. */
function rowOf(plan: string, stdout: string): string {
  const found = (pattern: RegExp) => pattern.exec(stdout)?.[1];
  const steps = [...stdout.matchAll(/^(?:evaluation +0 +| {2}about )([\d,]+)/gm)].map(([, n = ""]) => numberIn(n));
  const [now, runs] = [/^training +0 +(\d+)$/m, /^(\d+) training runs?:/m].map((one) => Number(found(one) ?? 0));
  // Runs with the mask of another expert are among the later steps.
  const evaluations = steps.reduce((sum, n) => sum + n, 0) - ((runs ?? 0) - (now ?? 0));
  const cells = [
    String(runs),
    found(/training runs?: (.*) tokens$/m) ?? "none",
    evaluations.toLocaleString("en-US"),
    found(/^downloads \d+ models? \((.*?)\)/m) ?? "none",
    found(/^(.*) more on disk$/m) ?? "none",
    found(/^GPU hours: about (.*), computed/m) ?? "none",
  ];
  return `| ${[plan, ...cells].join(" | ")} |`;
}

/** The row that the page has. */
function listed(plan: string): string {
  const lines = readFileSync(PAGE, "utf8").split("\n");
  return lines.find((line) => line.startsWith(`| ${plan} |`)) ?? `| ${plan} |`;
}

let hub: FakeHub;
let home: string;
/** The variants of each plan. */
const plans = new Map<string, readonly ExperimentPlan[]>();

/** Names of the models that a plan's variants read, once each. */
const modelsOf = (variants: readonly ExperimentPlan[]) => [
  ...new Set(
    variants.flatMap(({ base, experts }) => [
      base,
      ...Object.values(experts).flatMap(({ folders }) => Object.values(folders ?? {})),
    ]),
  ),
];
const isLocal = (model: string) => model.startsWith("models/");

/** The data of a plan's training runs, as it declares them. */
function dataOf(plan: ExperimentPlan): unknown[] {
  return Object.values(plan.experts).flatMap(({ train }) =>
    (train?.runs ?? []).flatMap(({ fields }) => dataOfRun(fields)),
  );
}
const dataOfRun = ({ data, partition }: { data?: unknown; partition?: unknown }): unknown[] => [
  ...(data === undefined ? [] : [data]),
  ...((partition ?? []) as { data: unknown }[]).map((stream) => stream.data),
];

function write(folder: string, files: Files): void {
  for (const [path, content] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

function pushSet(name: string, files: Files): void {
  hub.create(`datasets/${name}`, { gated: false, private: false });
  const contents = [...files].map(([path, content]) => [path, fakeFile(path, Buffer.from(content))] as const);
  hub.commit(`datasets/${name}`, "main", new Map(contents));
}

const { statfs } = promises;
/** What plans need of the disk they say; the disk of this machine does not matter. */
function setRoom(space: typeof statfs): void {
  Object.assign(promises, { statfs: space });
  syncBuiltinESMExports();
}
afterAll(() => setRoom(statfs));

function run(args: readonly string[], cwd: string, env: Record<string, string> = {}): Promise<Outcome> {
  const own = { HF_ENDPOINT: hub.endpoint, HF_HOME: home, HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "", HF_TOKEN: "" };
  return layergraft(args, { cwd, env: { ...own, ...env } });
}

beforeAll(async () => {
  setRoom((async () => ({ bavail: 1e15, bsize: 1 })) as never);
  hub = await FakeHub.start();
  hub.pageFiles = 1000;
  home = join(root, "hub-home");
  for (const folder of ["experiments", "train"])
    cpSync(join(EXAMPLES, folder), join(root, folder), { recursive: true });
  for (const name of PLANS) {
    const { variants } = await readPlan(join(EXAMPLES, "experiments", name));
    plans.set(
      name,
      variants.map(({ plan }) => plan),
    );
  }
  const runs = await Promise.all(RUNS.map(async (name) => (await readRun(join(EXAMPLES, "train", name), {})).run));

  const tokenizer = await promises.readFile(TOKENIZER);
  const models = new Set([...[...plans.values()].flatMap(modelsOf), ...runs.map(({ base }) => base)]);
  for (const [i, model] of [...models].entries()) {
    if (isLocal(model)) {
      await writeTiny(join(root, "experiments", model), { layers: 16, seed: i });
      continue;
    }
    hub.create(model, { gated: false, private: false });
    hub.commit(model, "main", publishedFiles(model, tokenizer));
  }
  const trained = trainingSets([...plans.values()].flat().flatMap(dataOf));
  const alone = trainingSets(runs.flatMap(dataOfRun));
  for (const [name, files] of new Map([...taskSets(), ...alone.sets, ...trained.sets])) pushSet(name, files);
  write(join(root, "experiments"), trained.files);
  write(join(root, "experiments/data"), taskFiles());
  write(join(root, "train"), alone.files);
});

describe("a published model of the fake hub", { tags: ["slow"] }, () => {
  const names = [
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.2-1B",
    "Qwen/Qwen3-8B-Base",
    "Qwen/Qwen2.5-7B-Instruct",
  ];
  it.each([...names, "CohereForAI/aya-expanse-8b", "tiiuae/Falcon3-7B-Instruct"])(
    "%s has its published size",
    (name) => {
      const { config, bytes } = published(name);
      const sum = shapesOf(config).reduce((all, [, shape]) => all + shape.reduce((one, extent) => one * extent, 2), 0);
      expect(sum).toBe(bytes);
    },
  );
});

describe.each(PLANS)("examples/experiments/%s", { tags: ["slow"] }, (name) => {
  const variants = () => plans.get(name) as readonly ExperimentPlan[];

  it("passes its dry run, which names steps, downloads and disk space, and fetches no weights", async () => {
    hub.requests = [];
    const { status, stdout, stderr } = await run(["experiment", name, "--dry-run"], join(root, "experiments"));
    // This machine is no login node.
    expect(stderr.replace(/^warning: sbatch is missing\. .*\n/m, "")).toBe("");
    expect(status).toBe(DONE);
    expectReadable(stdout);
    const onHub = modelsOf(variants()).filter((model) => !isLocal(model));
    const bytes = onHub.reduce((sum, model) => sum + published(model).bytes, 0);
    const models = `${onHub.length} model${onHub.length === 1 ? "" : "s"}`;
    if (onHub.length > 0) expect(stdout).toContain(`downloads ${models} (${formatBytes(bytes)})`);
    for (const plan of variants()) {
      for (const { expertFamily } of membersOf(plan)) {
        if (expertFamily !== undefined && !plan.experts[expertFamily]?.train)
          expect(stdout).toMatch(new RegExp(`^ *${expertFamily} `, "m"));
      }
    }
    expect(stdout).toMatch(/^evaluation +0 +[1-9]\d*$/m);
    expect(stdout).toMatch(/^time left: unknown until a step of each kind is done/m);
    // Variants share runs with the same settings.
    const runs = variants().flatMap((plan) =>
      Object.values(plan.experts).flatMap(({ train }) =>
        (train?.runs ?? []).map(({ fields }) => JSON.stringify([fields, train?.trl, plan.base, "mask" in fields])),
      ),
    );
    // What a mask is measured on comes first.
    const count = new Set(runs.filter((run) => !run.endsWith("true]"))).size;
    expect(stdout).toMatch(new RegExp(`^training +0 +${count}$`, "m"));
    if (runs.length > 0) expect(stdout).toMatch(/^[\d.]+ [GT]B more on disk$/m);
    const plan = name.replace(".yaml", "");
    const row = rowOf(plan, stdout);
    if (isUpdate) writeFileSync(PAGE, readFileSync(PAGE, "utf8").replace(listed(plan), row));
    expect(listed(plan)).toBe(row);
    const read = hub.requests.filter(({ origin, path }) => origin === "storage" && !path.includes("datasets"));
    expect(read.every(({ bytes: own }) => own <= 200_000)).toBe(true);
    expect(readdirSync(home, { recursive: true }).filter((file) => String(file).endsWith(".safetensors"))).toEqual([]);
  });

  it("assumes what its bases are", () => {
    for (const { base, assume } of variants()) {
      if (isLocal(base)) return expect(assume).toBeUndefined();
      const { config, bytes } = published(base);
      expect(assume?.layers).toBe(config.num_hidden_layers);
      expect(assume?.parameters).toBeCloseTo(bytes / 2, -7.7);
      expect(assume?.bytes).toBeCloseTo(bytes, -8);
    }
  });
});

describe("a dry run", { tags: ["slow"] }, () => {
  it("names models, data sets and files that are missing", async () => {
    const [model, set] = ["meta-llama/Llama-3.1-8B", "datasets/lelapa/Inkuba-instruct"].map((one) => [
      one,
      hub.repositories.get(one),
    ]) as [string, never][];
    for (const [one] of [model, set] as [string, never][]) hub.repositories.delete(one);
    const cwd = join(root, "elsewhere");
    mkdirSync(cwd);
    cpSync(join(EXAMPLES, "experiments/paper-mgsm-swahili.yaml"), join(cwd, "plan.yaml"));
    const outcome = await run(["experiment", "plan.yaml", "--dry-run"], cwd, { HF_HOME: join(root, "other-home") });
    for (const [one, repository] of [model, set] as [string, never][]) hub.repositories.set(one, repository);
    expect(outcome.status).toBe(WRONG_USAGE);
    expect(outcome.stderr).toMatch(
      /line \d+: base: meta-llama\/Llama-3\.1-8B \(main\) cannot be read: it does not exist, is private, or/,
    );
    expect(outcome.stderr).toMatch(
      /line \d+: experts\.swahili\.train\.run\.data: lelapa\/Inkuba-instruct \(main\) cannot be read/,
    );
    expect(outcome.stderr).toMatch(/data\/nllb\/eng_Latn-swh_Latn\.gz does not exist/);
    expect(outcome.stderr).toMatch(/data does not exist; .*mgsm_sw/);
  });
});

/** Lines of the data that the scripts of plans with word problems write. */
function writeProblems(folder: string, languages: readonly string[]): void {
  const answer = "2 + 3 = 5";
  const options = [answer, "2 - 3 = -1", "2 * 3 = 6", "2 / 3 = 0"];
  const item = { question: "2 and 3?", options, answer: 0, operation: "+", result: "5" };
  const rows: Record<string, object> = {
    "english.jsonl": item,
    "problems.jsonl": { prompt: "Question: 2 and 3?\nAnswer:", response: ` ${answer}` },
    ...Object.fromEntries(languages.map((name) => [`${name}-problems.jsonl`, item])),
    ...Object.fromEntries(languages.map((name) => [`${name}.jsonl`, { text: "Texto en español." }])),
  };
  for (const [name, row] of Object.entries(rows)) {
    writeFileSync(join(folder, name), `${JSON.stringify(row)}\n`.repeat(3000));
  }
}

/** The environment of a script where `layergraft` only prints the steps of a plan. */
function withDryRuns(): NodeJS.ProcessEnv {
  const bin = join(root, "bin");
  mkdirSync(bin, { recursive: true });
  const main = join(import.meta.dirname, "../dist/cli/main.js");
  writeFileSync(join(bin, "layergraft"), `#!/bin/sh\nexec "${process.execPath}" "${main}" "$@" --dry-run\n`, {
    mode: 0o755,
  });
  return { ...process.env, PATH: `${bin}:${process.env.PATH}` };
}

describe("examples/experiments/gemma", { tags: ["slow"] }, () => {
  it("passes its dry run on rows as its data.js writes them, as does its script for a GPU", async () => {
    const cwd = join(root, "experiments/gemma");
    await writeTiny(join(cwd, "gemma"), { layers: 18, seed: 1 });
    writeProblems(cwd, ["swahili", "spanish"]);
    const { status, stdout, stderr } = await run(["experiment", "plan.yaml", "--dry-run"], cwd);
    expect(stderr).toBe("");
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/^training +0 +15$/m);
    const gpu = await promisify(execFile)("bash", ["gpu.sh", "try"], { cwd, env: withDryRuns() });
    expect(gpu.stdout).toMatch(/^training +0 +5$/m);
    const tried = readFileSync(join(cwd, "gpu-try.yaml"), "utf8");
    expect(tried).toContain("engine: trl");
    expect(tried).not.toMatch(/limit: (?!8 )/);
  });
});

describe("examples/experiments/smollm2", { tags: ["slow"] }, () => {
  it("passes its dry run on rows as its data.js writes them", async () => {
    const cwd = join(root, "experiments/smollm2");
    await writeTiny(join(cwd, "smollm2"), { layers: 30, seed: 1 });
    writeProblems(cwd, ["spanish"]);
    const { status, stdout, stderr } = await run(["experiment", "plan.yaml", "--dry-run"], cwd);
    expect(stderr).toBe("");
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/^training +0 +2$/m);
    for (const plan of [[], ["try"]]) {
      const gpu = await promisify(execFile)("bash", ["gpu.sh", ...plan], { cwd, env: withDryRuns() });
      expect(gpu.stdout).toMatch(/^training +0 +12$/m);
    }
    const tried = readFileSync(join(cwd, "gpu-try.yaml"), "utf8");
    expect(tried.match(/steps: 2\b/g)).toHaveLength(2);
    expect(tried).toContain("{ task: spanish.yaml, limit: 8 }");
  });

  it("says what its merges do, and judges what chooses among them", async () => {
    const cwd = join(root, "label-free");
    mkdirSync(cwd);
    for (const [seed, name] of ["base", "math", "spanish"].entries()) {
      await writeTiny(join(cwd, name), { layers: 30, seed });
      writeTinyTokenizer(join(cwd, name));
    }
    const item = (n: number) => ({
      ...{ english: `${n} and 3?`, spanish: `${n} y 3?`, answer: n % 4 },
      options: ["+", "-", "*", "/"].map((sign) => `${n} ${sign} 3`),
    });
    const write = (name: string, rows: readonly object[]) =>
      writeFileSync(join(cwd, name), rows.map((row) => JSON.stringify(row)).join("\n"));
    write(
      "spanish-problems.jsonl",
      Array.from({ length: 248 }, (_, n) => item(n)),
    );
    write("spanish.jsonl", Array(16).fill({ text: "abc" }));
    const node = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd });
    const scripts = join(import.meta.dirname, "../examples");
    await node(join(scripts, "experiments/smollm2/label-free.js"), "base", "math", "spanish", "seed 1.jsonl");
    cpSync(join(cwd, "seed 1.jsonl"), join(cwd, "seed 2.jsonl"));
    const { stdout } = await node(join(scripts, "miniature/judge.js"), "seed 1.jsonl", "seed 2.jsonl");
    expect(stdout).toMatch(/^44 merges, \d+ work$/m);
    const [, losses = "", , , , aucs = ""] = stdout.split("\n\n");
    expect(losses).toMatch(/^\| chosen by \| seed 1 \| seed 2 \| mean \|/);
    expect(losses).not.toContain("NaN");
    expect(losses).toMatch(/^\| the default \| -?\d+\.\d: 5 2 \| /m);
    expect(aucs).toMatch(/^\| AUC \| seed 1 \| seed 2 \|/);
  });
});

describe.each(RUNS)("examples/train/%s", { tags: ["slow"] }, (name) => {
  it("passes its dry run, which fetches no weights", async () => {
    const { status, stdout, stderr } = await run(["train", name, "--dry-run"], join(root, "train"), {
      LAYERGRAFT_MEMORY: "1TB",
    });
    expect(stderr).toBe("");
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/trained parameters, in layers \d/);
    expect(stdout).toMatch(/^[\d,]+ steps? of \d+ sequences of at most \d+ tokens/m);
    expect(readdirSync(home, { recursive: true }).filter((file) => String(file).endsWith(".safetensors"))).toEqual([]);
  });
});
