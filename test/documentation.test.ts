// README.md and docs/ are true: each command runs as printed, in the folder that `layergraft example` makes; what is shown
// is what files hold and commands print.
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { commandPages, PAGES as GENERATED, renewed, schemas } from "../docs/generate.js";
import { writeExample } from "../src/demo/index.js";
import { jobScript } from "../src/experiment/execute/slurm-text.js";
import { parsePlan } from "../src/experiment/plan/plan-file.js";
import { analyzeExperts } from "../src/merge/analysis/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { layergraft, type Outcome, start } from "./support/command.js";
import { taskFiles } from "./support/data-sets.js";
import { FakeHub } from "./support/fake-hub.js";

const ROOT = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

// The page of commands is the help of the program, whose examples name files of the reader.
const NAMES = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md") && name !== "commands.md");
const PAGES = ["README.md", ...NAMES.map((name) => `docs/${name}`)];

/** Commands of the pages that do not run here, and why. */
const ELSEWHERE: Record<string, string> = {
  "npm run bench -- head-to-head --python PYTHON": "needs a Python with mergekit and fusion_bench",
  "npm ci && npm run demo": "takes a minute; .ci/run runs it",
  "npm ci && npm test": "runs this test; .ci/run runs it",
  "npm ci && npm run build && npm install --global --ignore-scripts .": "installs; .ci/run does it",
  "npm install --ignore-scripts ../layergraft": "links a clone",
  "npm run wheel -- --engine && pip install python/dist/*.whl": "needs Python's registry; test/wheel.test.ts does it",
  "layergraft example && cd example": "makes the folder in which the others run",
  "layergraft demo": "takes a minute; .ci/run runs it",
  "layergraft experiment demo-output/plan.yaml run": "needs the demo's output",
  "layergraft experiment demo-output/plan.yaml report": "needs the demo's output",
  'cp "$(npm root --global)/layergraft/examples/experiments/two-checkpoints.yaml" my-plan.yaml':
    "copies from the installed package; test/examples.test.ts runs the plan",
  "layergraft experiment my-plan.yaml --dry-run": "test/examples.test.ts runs it",
  'cp "$(npm root --global)/layergraft/examples/experiments/paper-mgsm-swahili.yaml" paper.yaml':
    "copies from the installed package; test/examples.test.ts runs the plan",
  "layergraft experiment paper.yaml --dry-run": "test/examples.test.ts runs it",
  "layergraft experiment paper.yaml run --allow-code": "needs GPUs",
  "layergraft experiment cluster.yaml run --allow-code": "needs Slurm and vLLM",
  "docker build --target merge --tag layergraft:merge .": "needs Docker",
  'docker run --rm --volume "$PWD:/models" --user "$(id -u):$(id -g)" layergraft:merge inspect math-expert':
    "needs Docker",
  "npm install --global --ignore-scripts node-llama-cpp": "downloads 700 MB",
  "layergraft chat recipe.yaml --backend llama --type q4_k_m": "needs node-llama-cpp",
  "layergraft eval recipe.yaml --backend llama --tasks problems.yaml": "needs node-llama-cpp",
  "layergraft serve recipe.yaml --backend llama": "needs node-llama-cpp",
  'layergraft generate model.gguf --chat --prompt "Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa?"':
    "needs node-llama-cpp",
  "cd handed-over && accelerate launch --config_file accelerate.yaml train.py": "needs PyTorch and GPUs",
  "layergraft eval math-expert --tasks mgsm_sw,mgsm_en,belebele_swh,flores_eng-swh,mmlu --data data --out results/model":
    "needs the benchmarks' data",
  "layergraft eval recipe.yaml --tasks mgsm_sw --limit 50 --show 2": "reads a data set of the hub",
  "layergraft eval math-expert --tasks mbpp_sw --prompts mbpp-swahili.jsonl --allow-code":
    "needs a translation of MBPP",
  "layergraft eval math-expert --tasks paper_sw --data data --out results/paper --allow-code":
    "needs the benchmarks' data",
};

/** Commands that end with another status than 0. */
const STATUS: Record<string, number> = { diff: 1 };

/** Contents of the fenced blocks of a language. */
function blocks(text: string, language: string): string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map(
    (match) => match[1] ?? "",
  );
}

/** Commands of a page, without their comments. */
const commandsOf = (page: string): string[] =>
  blocks(read(page), "sh").flatMap((block) =>
    block
      .trim()
      .split("\n")
      .map((line) => line.replace(/ +#.*$/, "")),
  );

/** The words of a command line, as a shell takes them: quotes hold words together. */
const argumentsOf = (command: string) =>
  [...command.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? "");

/** Commands of a page that run here. */
const runsHere = (page: string) => commandsOf(page).filter((command) => !(command in ELSEWHERE));

/** Commands of a page with what they print. */
const shownOn = (page: string) => blocks(read(page), "text").filter((block) => block.startsWith("$ "));

const everything = PAGES.flatMap(commandsOf);
const world = join(temporaryFolder(), "example");
const slurm = temporaryFolder();
const clusterPlans = () =>
  blocks(read("docs/run-an-experiment.md"), "yaml").filter((text) => text.startsWith("name: cluster"));
/** A tenth of the example's training data: a command trains on all of it. */
const fewProblems = () =>
  `${readFileSync(join(world, "problems.jsonl"), "utf8").split("\n").slice(0, 200).join("\n")}\n`;
let hub: FakeHub;
beforeAll(async () => {
  await writeExample(world);
  for (const name of ["quantised-model", "other-quantised-model"]) {
    cpSync(join(import.meta.dirname, "fixtures/quantised/fp8-block"), join(world, name), { recursive: true });
  }
  hub = await FakeHub.start();
  // Stand-ins for the models that the guides name, with as many layers as they have, and for those of the reader.
  const models = ["lightonai/Qwen3-8B-EN", "lightonai/Qwen3-8B-SW", "org/one", "org/two"];
  for (const [seed, name] of models.entries()) {
    hub.push(name, await writeTiny(join(temporaryFolder(), "model"), { layers: 36, seed: seed + 1 }));
  }
  const data = temporaryFolder();
  writeFileSync(join(data, "train.jsonl"), fewProblems());
  // What a reader of docs/run-an-experiment.md has on a cluster: the plan, data, and Slurm's commands.
  const [cluster = ""] = clusterPlans();
  writeFileSync(join(world, "cluster.yaml"), cluster);
  for (const [path, content] of taskFiles()) {
    if (!path.startsWith("mgsm/")) continue;
    mkdirSync(join(world, "data/mgsm"), { recursive: true });
    writeFileSync(join(world, "data", path), content);
  }
  for (const name of ["sbatch", "squeue", "scancel", "sacct"]) {
    writeFileSync(join(slurm, name), "#!/bin/sh\nexit 1\n", { mode: 0o755 });
  }
  hub.push("datasets/org/name", data);
});

function run(command: string, cwd: string): Promise<Outcome> {
  const [program, ...args] = argumentsOf(command);
  expect(program).toBe("layergraft");
  if (args[0] === "serve" || args[0] === "studio") return runServer(args, cwd);
  const env = {
    ...{ HF_ENDPOINT: hub.endpoint, HF_HOME: join(world, "../home"), HF_TOKEN: hub.token },
    ...{ HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "", PATH: `${slurm}${delimiter}${process.env.PATH}` },
  };
  // A chat reads its standard input, which this process shares with the test runner.
  return args[0] === "chat" ? start(args, { cwd }).ended : layergraft(args, { cwd, env });
}

/** Runs a server until it is ready, on a free port. */
function runServer(args: readonly string[], cwd: string): Promise<Outcome> {
  const { child, ended } = start([...args, "--port", "0"], { cwd });
  child.stdout?.once("data", () => child.kill("SIGTERM"));
  return ended;
}

// Commands take minutes together, as they train and run experiments.
const SLOW = { tags: ["slow"] };

describe.each(PAGES.filter((page) => runsHere(page).length + shownOn(page).length > 0))("%s", (page) => {
  const folder = join(temporaryFolder(), "example");
  beforeAll(() => {
    cpSync(world, folder, { recursive: true });
    writeFileSync(join(folder, "problems.jsonl"), fewProblems());
  });
  // Pages after the first that runs the example's plan resume it.
  afterAll(() => {
    const [own, shared] = [folder, world].map((at) => join(at, "swaps.experiment")) as [string, string];
    if (existsSync(own) && !existsSync(shared)) cpSync(own, shared, { recursive: true });
  });

  test.each(runsHere(page))("%s", SLOW, async (command) => {
    const { status, stderr } = await run(command, folder);
    const wanted = STATUS[argumentsOf(command)[1] ?? ""] ?? 0;
    expect({ status, stderr: status === wanted ? "" : stderr }).toEqual({ status: wanted, stderr: "" });
  });

  test.each(shownOn(page))("prints as shown: %s", SLOW, async (block) => {
    const [first = "", ...lines] = block.split("\n");
    const untimed = (text: string) => text.replace(/\d+(\.\d+)? (ms|s)\b/g, "TIME");
    const { stdout } = await run(first.slice("$ ".length), folder);
    expect(lines.length).toBeGreaterThan(1);
    expect(untimed(stdout)).toBe(untimed(lines.join("\n")));
  });
});

test("a reader of all pages can run all commands in one folder: no two write to one output", () => {
  const outputs = everything.flatMap((command) =>
    command.includes("--resume") || command in ELSEWHERE ? [] : (/ --out (\S+)/.exec(command)?.[1] ?? []),
  );
  expect(outputs.length).toBeGreaterThan(20);
  expect(outputs.filter((output, i) => outputs.indexOf(output) !== i)).toEqual([]);
});

test("commands that do not run here are on a page, and those of CI in its script", () => {
  expect(Object.keys(ELSEWHERE).filter((command) => !everything.includes(command))).toEqual([]);
  const script = read(".ci/run");
  expect(script).toContain("npm ci && npm run demo -- --force");
  expect(script).toContain("npm ci && npm test");
  expect(script).toContain('npm install --global --ignore-scripts --prefix "$prefix" .');
});

test("the README fits on three screens", () => {
  expect(read("README.md").trim().split("\n").length).toBeLessThanOrEqual(160);
});

test.each([
  ["docs/methods.md", "recipe.yaml"],
  ["docs/merge-from-the-hub.md", "mixture.yml"],
  ["docs/coming-from-peft.md", "adapters.yaml"],
  ["docs/coming-from-mergekit.md", "mergekit.yml"],
  ["docs/train-experts.md", "run.yaml"],
  ["docs/evaluate-and-compare.md", "quiz.yaml"],
  ["docs/evaluate-and-compare.md", "translate.yaml"],
  ["docs/run-an-experiment.md", "plan.yaml"],
  ["docs/run-an-experiment.md", "matrix.yaml"],
])("%s shows the example's %s", (page, file) => {
  expect(blocks(read(page), "yaml")).toContain(readFileSync(join(world, file), "utf8"));
});

/** A plan with what a guide adds to it: lists and mappings are joined, other values replaced. */
function joined(own: unknown, more: unknown, field: string | number = ""): unknown {
  if (Array.isArray(own) && Array.isArray(more) && field !== "tasks") return [...own, ...more];
  if (typeof own !== "object" || typeof more !== "object" || own === null || more === null) return more;
  if (Array.isArray(own) || Array.isArray(more)) return more;
  const before: Record<string, unknown> = { ...own };
  return {
    ...own,
    ...Object.fromEntries(Object.entries(more).map(([key, value]) => [key, joined(before[key], value, key)])),
  };
}

describe("the guide's plan for Slurm", () => {
  test("is ten lines, and asks sbatch for what the guide says", () => {
    const [text = ""] = clusterPlans();
    expect(text.trim().split("\n").length).toBeLessThanOrEqual(10);
    const { executor, evaluate } = parsePlan(text);
    expect(evaluate).toMatchObject({ backend: expect.stringMatching(/^serve:vllm serve \{model\} --port \{port\} /) });
    const { setup } = executor;
    const script = jobScript({ name: "step", folder: "/step", resources: executor, setup, command: ["layergraft"] });
    const lines = script.split("\n");
    for (const option of ["partition=gpu", "gres=gpu:1", "mem=61036M", "account=my-account", "qos=normal"]) {
      expect(lines).toContain(`#SBATCH --${option}`);
    }
    // The environment of vLLM is there before the step starts the server.
    expect(lines.indexOf("source ~/vllm/bin/activate")).toBeGreaterThan(0);
    expect(lines.indexOf("source ~/vllm/bin/activate")).toBeLessThan(
      lines.findIndex((line) => /layergraft/.test(line)),
    );
  });

  test("passes its dry run, with 20 evaluations", async () => {
    const { status, stdout } = await run("layergraft experiment cluster.yaml --dry-run", world);
    expect({ status, evaluations: /^evaluation +0 +(\d+)$/m.exec(stdout)?.[1] }).toEqual({
      status: 0,
      evaluations: "20",
    });
  });
});

describe("what docs/run-an-experiment.md adds to the example's plan", () => {
  const added = blocks(
    /## Evidence in a few lines[\s\S]*?\n## /.exec(read("docs/run-an-experiment.md"))?.[0] ?? "",
    "yaml",
  );
  const runnable = added.filter((text) => !text.includes("mgsm"));
  const whole = () => {
    const plan = runnable
      .map((text) => parse(text))
      .reduce(joined, parse(readFileSync(join(world, "plan.yaml"), "utf8")));
    plan.evaluate.tasks = plan.evaluate.tasks.map((task: string) => ({ task, limit: 20 }));
    writeFileSync(join(world, "evidence.yaml"), stringify({ ...plan, name: "evidence" }));
    return "layergraft experiment evidence.yaml";
  };

  test.each(added.map((text, i) => [i, text] as const))("block %i is few lines of a valid plan", async (_, text) => {
    expect(text.trim().split("\n").length).toBeLessThanOrEqual(5);
    // What comes before it may name what it uses; other tasks stand alone.
    const parts = runnable.includes(text) ? runnable.slice(0, runnable.indexOf(text) + 1) : [text];
    const own = parse(readFileSync(join(world, "plan.yaml"), "utf8"));
    expect(() => parsePlan(stringify(parts.map((part) => parse(part)).reduce(joined, own)))).not.toThrow();
  });

  test("can run together", async () => {
    const { status, stdout, stderr } = await run(`${whole()} --dry-run`, world);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    for (const part of [
      "kept of math",
      "random layers",
      "train",
      "layers",
      "all reported, as lines over lambda",
      "round 2",
    ]) {
      expect(stdout).toContain(part);
    }
  });

  test("runs, and the report has a table or figure of each", { ...SLOW, timeout: 600_000 }, async () => {
    const { status } = await run(`${whole()} run`, world);
    expect(status).toBe(0);
    const report = readFileSync(join(world, "evidence.experiment", "report", "report.md"), "utf8");
    for (const part of [
      "translate",
      "## both",
      "Table 1: means and maxima",
      "Compared in pairs",
      "changed by more than 1.9e-5",
      "kept: quiz by keep share",
      "Checkpoints of trained",
      "sum of layers",
    ]) {
      expect(report).toContain(part);
    }
    for (const part of [
      "Changed rows that math-1 and swahili-1 share",
      "by lambda",
      "random layers",
      "The language of the answers",
    ]) {
      expect(report).toContain(part);
    }
  });
});

test("docs/evaluate-and-compare.md shows rows of the example's quiz", () => {
  const rows = readFileSync(join(world, "rows.jsonl"), "utf8");
  const [shown = ""] = blocks(read("docs/evaluate-and-compare.md"), "json");
  expect(shown.split("\n").length).toBeGreaterThan(3);
  expect(rows.startsWith(shown)).toBe(true);
});

test.each(
  blocks(read("docs/methods.md").split("<!-- generated: methods -->")[0] ?? "", "yaml").map(
    (text, i) => [i, text] as const,
  ),
)("recipe %i of the guide", { tags: ["slow"] }, async (i, text) => {
  writeFileSync(join(world, `guide-${i}.yaml`), text);
  const args = ["merge", `guide-${i}.yaml`, "--out", `guide-${i}`, "--quiet"];
  const { status, stderr } = await layergraft(args, { cwd: world });
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
});

test("the mergekit guide's configuration converts to the recipe that it shows", async () => {
  const { stdout, status } = await layergraft(["convert", "mergekit.yml", "--quiet"], { cwd: world });
  expect({ status, stdout }).toEqual({ status: 0, stdout: blocks(read("docs/coming-from-mergekit.md"), "yaml")[1] });
});

test.each(GENERATED)("the fields that docs/%s lists are those of the schemas (npm run docs)", (name) => {
  const page = read(`docs/${name}`);
  expect(page).toContain("<!-- generated: ");
  expect(page).toBe(renewed(page));
});

test("the page of commands and the manual page have the help of every command (npm run docs)", {
  tags: ["slow"],
}, async () => {
  const [page, manual] = await commandPages(async (args) => (await layergraft(args, { cwd: ROOT })).stdout);
  expect(read("docs/commands.md")).toBe(page?.text);
  expect(read("docs/layergraft.1")).toBe(manual?.text);
  expect([page?.file, manual?.file]).toEqual(["commands.md", "layergraft.1"]);
  expect(page?.text.match(/^## /gm)?.length).toBeGreaterThan(25);
  const { stdout } = await layergraft(["swap", "--help"], { cwd: ROOT });
  expect(page?.text).toContain(`## swap\n\n\`\`\`text\n${stdout}\`\`\``);
  // In a manual page, a dash is written \\-, and no line begins with a dot that is not a request.
  expect(manual?.text.replaceAll("\\-", "-")).toContain(`.SH SWAP\n.nf\n${stdout}.fi`);
  expect(manual?.text.match(/^\.\w*/gm)?.filter((request) => !/^\.(TH|SH|B|I|RI|nf|fi)$/.test(request))).toEqual([]);
});

test("the JSON Schemas in docs/ are those of the schemas (npm run docs)", () => {
  const files = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".schema.json"));
  expect(schemas().map(({ file }) => file)).toEqual(expect.arrayContaining(files));
  for (const { file, text } of schemas()) expect(read(`docs/${file}`)).toBe(text);
});

test("every field of analysis.json is in its guide", async () => {
  const text = read("docs/find-where-they-changed.md");
  const experts = { math: join(world, "math-expert"), swahili: join(world, "swahili-expert") };
  const { analysis } = await analyzeExperts({ base: join(world, "base"), experts });
  const keys = new Set<string>();
  const collect = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (!Array.isArray(value)) keys.add(key);
      collect(inner);
    }
  };
  collect(analysis);
  expect(keys.size).toBeGreaterThan(25);
  expect([...keys].filter((key) => !text.includes(`\`${key}\``))).toEqual([]);
});

test("the library guide's program runs as printed", SLOW, async () => {
  const program = join(ROOT, "examples/library.js");
  expect(blocks(read("docs/use-from-typescript.md"), "ts")).toEqual([readFileSync(program, "utf8")]);
  const { stdout } = await promisify(execFile)(process.execPath, [program], { cwd: world });
  const lines = stdout.trim().split("\n");
  expect(lines[0]).toMatch(/^reading and writing \d+ of \d+$/);
  expect(lines.at(-1)).toMatch(/^true {2}9 - 7 = 2\. 1 0\.0\d+ my-run\/\S+$/);
});

test("docs/api is the reference of what the package exports, all of it described (npm run docs)", {
  tags: "slow",
}, async () => {
  const out = temporaryFolder();
  await promisify(execFile)("npm", ["run", "--workspace", "docs/reference", "build", "--", "--out", out], {
    cwd: ROOT,
  });
  const pages = (folder: string) =>
    Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]));
  expect(pages(join(ROOT, "docs/api"))).toEqual(pages(out));
});
