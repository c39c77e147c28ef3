// Merges that stream their sources from a fake hub: bytes moved, broken connections, resuming, moved branches.
// @module-tag slow
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { ReadFacts } from "../src/experiment/check/facts-reader.js";
import { writeSafetensors } from "../src/formats/safetensors/index.js";
import { planRecipe } from "../src/merge/index.js";
import { executePlan } from "../src/merge/output/index.js";
import { withinBudget } from "../src/merge/plan/budget.js";
import { diff, inspect, planMerge, verify } from "../src/verbs/index.js";
import { readJson, seededFloats, seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, FAILED, layergraft, type Outcome, sha256, start } from "./support/command.js";
import { FakeHub } from "./support/fake-hub.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const LAYERS = 8;
let hub: FakeHub;
let home: string;
let tests = 0;

/** A model whose layers have most of its bytes, as in published ones: 270 kB each. */
const writeModel = (folder: string, seed: number, base = 0) =>
  writeTiny(at(folder), {
    layers: LAYERS,
    seed,
    shardBytes: 1_000_000,
    edit: (tensors) =>
      tensors.map((tensor, i) =>
        tensor.name.includes(".mlp.")
          ? seededTensor(tensor.name, [300, 150], seed * 1000 + i, "BF16", base - i)
          : tensor,
      ),
  });

beforeAll(async () => {
  hub = await FakeHub.start();
  for (const [seed, name] of ["base", "task", "language", "later"].entries()) {
    await writeModel(name, seed + 1);
    hub.push(`org/${name}`, at(name));
  }
});
beforeEach(() => {
  Object.assign(hub, { requests: [], refusals: [], cuts: [], slow: undefined, signature: "abc" });
  hub.push("org/task", at("task"));
  home = at(`home-${tests++}`);
});

const environment = () => ({
  ...{ HF_ENDPOINT: hub.endpoint, HF_HOME: home, HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "", HF_TOKEN: "" },
  LAYERGRAFT_CACHE: at("cache"),
});
const run = (...args: string[]): Promise<Outcome> => layergraft(args, { cwd: root, env: environment() });
const swapOf = (task: string, language: string, ...rest: string[]) =>
  ["swap", "--task", task, "--language", language, ...rest] as const;
const SWAP = swapOf("org/task", "org/language");

const weightsOf = (folder: string) => readdirSync(at(folder)).filter((name) => name.endsWith(".safetensors"));
const digests = (folder: string) => weightsOf(folder).map((name) => sha256(at(folder, name)));
const sizeOf = (folder: string) => weightsOf(folder).reduce((sum, name) => sum + statSync(at(folder, name)).size, 0);
/** Bytes of the files before their first tensor. */
const headersOf = (folder: string) =>
  weightsOf(folder).reduce((sum, name) => sum + 8 + Number(readFileSync(at(folder, name)).readBigUInt64LE(0)), 0);
/** Bytes of weights that were sent, without the first part of each file, which has its header. */
const sent = () =>
  hub.requests
    .filter(({ origin, range }) => origin === "storage" && !range?.startsWith("bytes=0-"))
    .reduce((sum, { bytes }) => sum + bytes, 0);
/** Most bytes of the samples that show whether models are related: 1024 elements of 32 matrices of each. */
const MAX_SAMPLES = 2 * 32 * 2048;

async function mergeHere(out: string, ...args: string[]): Promise<string[]> {
  if (!existsSync(at(out))) expect((await run(...args, "--out", out)).status).toBe(DONE);
  return digests(out);
}
const swappedHere = () => mergeHere("local-swap", ...swapOf("task", "language"));

describe("a merge of models on the hub", () => {
  it.each([
    ["swap", [...SWAP], swapOf("task", "language")],
    [
      "soup",
      ["soup", "--model", "org/task", "--model", "org/language"],
      ["soup", "--model", "task", "--model", "language"],
    ],
  ])("fetches what a %s reads, and what its dry run says, and nothing else", async (method, remote, local) => {
    const dry = JSON.parse((await run(...remote, "--dry-run", "--json")).stdout);
    const { bytesToFetch, bytesOnHub } = dry.summary;
    // Each step names the models that it reads.
    const read = dry.plan.steps.reduce(
      (sum: number, { origin, shape }: { origin: string[]; shape: number[] }) =>
        sum + origin.length * 2 * shape.reduce((product, extent) => product * extent, 1),
      0,
    );
    expect(bytesToFetch).toBe(read);
    expect(bytesOnHub).toBe(sizeOf("task") + sizeOf("language"));
    if (method === "swap") expect(bytesToFetch / bytesOnHub).toBeLessThan(0.52);
    else expect(bytesToFetch).toBe(bytesOnHub - headersOf("task") - headersOf("language"));
    const samples = sent();
    expect(samples).toBeLessThanOrEqual(MAX_SAMPLES);

    hub.requests = [];
    const out = `remote-${method}`;
    const outcome = await run(...remote, "--out", out, "--json");
    expect(outcome.status).toBe(DONE);
    expect(JSON.parse(outcome.stdout)).toMatchObject({ bytesFetched: bytesToFetch });
    expect(sent()).toBe(bytesToFetch + samples);
    expect(digests(out)).toEqual(await mergeHere(`local-${method}`, ...local));
    const kept = readdirSync(home, { recursive: true }).filter((name) => String(name).endsWith(".safetensors"));
    expect(kept).toEqual([]);
  });

  it("fetches of experts within a budget the blocks that changed most, and the base once", async () => {
    const analysis = await run("analyze", "--base", "org/base", "--expert", "a=org/task", "--expert", "b=org/language");
    expect(analysis.status).toBe(DONE);
    const recipe = { method: "task_arithmetic", models: ["org/task", "org/language"], base: "org/base" } as const;
    writeFileSync(at("budget.json"), JSON.stringify(recipe));
    const args = ["merge", "budget.json", "--budget", "0.5", "--json"];
    const { plan, summary } = JSON.parse((await run(...args, "--dry-run")).stdout);
    expect(summary.bytesToFetch / summary.bytesOnHub).toBeLessThan(2 / 3);
    const outcome = await run(...args, "--out", "budget");
    expect(JSON.parse(outcome.stdout)).toMatchObject({ bytesFetched: summary.bytesToFetch });

    const folders = { ...recipe, models: [at("task"), at("language")], base: at("base") };
    const whole = await planRecipe(folders);
    const sources = withinBudget(whole.sources, plan.blocks);
    await executePlan({ plan: whole.plan, sources }, { out: at("local-budget") });
    expect(digests("budget")).toEqual(digests("local-budget"));
  });

  it("prints what it fetches", async () => {
    const outcome = await run(...SWAP, "--dry-run");
    expect(outcome.stdout).toMatch(/\nfetch 2\.16 MB from the hub, 49\.8% of the 4\.34 MB of a whole download\n/);
    const written = await run(...SWAP, "--out", "printed");
    expect(written.stdout).toMatch(/^Wrote printed: .*, 2\.16 MB fetched, /);
  });

  it("measures, analyzes and compares as with folders", async () => {
    for (const [i, options] of [
      ["--weights", "magnitude"],
      ["--threads", "3", "--memory", "8MB"],
    ].entries()) {
      const args = (prefix: string) => [
        ...swapOf(`${prefix}task`, `${prefix}language`, "--base", `${prefix}base`, "--bottom-transition", "2"),
        ...options,
      ];
      const here = await mergeHere(`local-measured-${i}`, ...args(""));
      expect((await run(...args("org/"), "--out", `measured-${i}`)).status).toBe(DONE);
      expect(digests(`measured-${i}`)).toEqual(here);
    }
    const analyze = (prefix: string) =>
      run("analyze", "--base", `${prefix}base`, "--expert", `task=${prefix}task`, "--json");
    const { tensors, total } = JSON.parse((await analyze("org/")).stdout);
    expect({ tensors, total }).toEqual(
      (({ tensors, total }) => ({ tensors, total }))(JSON.parse((await analyze("")).stdout)),
    );
    const [diff, same] = [await run("diff", "org/base", "org/task", "--json"), await run("diff", "org/task", "task")];
    expect(JSON.parse(diff.stdout).tensors).toEqual(
      JSON.parse((await run("diff", "base", "task", "--json")).stdout).tensors,
    );
    expect(same.status).toBe(DONE);
    expect(
      (await run("suggest", "--base", "org/base", "--task", "org/task", "--language", "org/language")).status,
    ).toBe(DONE);
  });
});

describe("without the command line", () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it("the library streams models, compares and describes them", async () => {
    for (const [name, value] of Object.entries(environment())) vi.stubEnv(name, value);
    const plan = await planMerge({ method: "swap", task: "org/task", language: "org/language" });
    await plan.write({ out: at("library-swap") });
    expect(digests("library-swap")).toEqual(await swappedHere());
    expect((await verify({ model: at("library-swap") })).verified).toBe(true);
    expect((await diff({ a: "org/task", b: at("task") })).identical).toBe(true);
    expect((await inspect({ source: "org/task" })).layers).toBe(LAYERS);
    const kept = readdirSync(home, { recursive: true }).filter((name) => String(name).endsWith(".safetensors"));
    expect(kept).toEqual([]);
  });

  it("an experiment downloads models, and a check reads their headers", async () => {
    for (const [name, value] of Object.entries(environment())) vi.stubEnv(name, value);
    const facts = async (source: string, readsBytes: boolean) => {
      const reader = new ReadFacts({ folder: root, readsBytes });
      await reader.readModel(source, ["base"]);
      expect(reader.problems).toEqual([]);
      return reader.models.get(source);
    };
    expect(await facts("org/base", false)).toMatchObject({ layers: LAYERS });
    expect(sent()).toBe(0);
    const [there, here] = [await facts("org/base", true), await facts("base", true)];
    expect(there?.identity).toBe(here?.identity);
    expect(there?.folder).toContain(home);
  });
});

describe("sources", () => {
  const adapters = async () => {
    for (const [seed, name] of ["lora-a", "lora-b"].entries()) {
      const tensors = Array.from({ length: LAYERS }, (_, layer) => {
        const module = `base_model.model.model.layers.${layer}.mlp.up_proj`;
        return [
          seededTensor(`${module}.lora_A.weight`, [2, 150], 100 * seed + layer),
          seededTensor(`${module}.lora_B.weight`, [300, 2], 100 * seed + layer + 50),
        ];
      });
      mkdirSync(at(name), { recursive: true });
      await writeSafetensors(at(name, "adapter_model.safetensors"), tensors.flat());
      writeFileSync(at(name, "adapter_config.json"), JSON.stringify({ peft_type: "LORA", r: 2, lora_alpha: 4 }));
      hub.push(`org/${name}`, at(name));
    }
  };

  it("are adapters, which are fetched whole, as a merge or as one adapter", async () => {
    await adapters();
    for (const form of ["model", "adapter"]) {
      home = at(`home-of-${form}`);
      const args = (prefix: string) => [
        ...swapOf(`${prefix}base+${prefix}lora-a`, `${prefix}base+${prefix}lora-b`),
        ...["--as", form],
      ];
      const here = await mergeHere(`local-${form}`, ...args(""));
      const { summary } = JSON.parse((await run(...args("org/"), "--dry-run", "--json")).stdout);
      hub.requests = [];
      const outcome = await run(...args("org/"), "--out", `lora-${form}`);
      expect(outcome.status).toBe(DONE);
      expect(digests(`lora-${form}`)).toEqual(here);
      const whole = sizeOf("lora-a") + sizeOf("lora-b");
      expect(summary.bytesOnHub).toBe(whole + sizeOf("base"));
      if (form === "adapter") expect(summary.bytesToFetch).toBe(whole);
      const fetched = hub.requests.filter(({ origin, bytes }) => origin === "storage" && bytes === sizeOf("lora-a"));
      expect(fetched).toHaveLength(2);
      const verified = await run("verify", `lora-${form}`);
      expect(verified.stdout).toMatch(/^Verified lora-/);
    }
    expect(readJson(at("lora-adapter"), "adapter_config.json").base_model_name_or_path).toBe("org/base");
  });

  it("are adapters with DoRA, whose lengths are fetched with the factors", async () => {
    const tensors = Array.from({ length: LAYERS }, (_, layer) => {
      const module = `base_model.model.model.layers.${layer}.mlp.up_proj`;
      return [
        seededTensor(`${module}.lora_A.weight`, [2, 150], layer),
        seededTensor(`${module}.lora_B.weight`, [300, 2], layer + 50),
        seededTensor(`${module}.lora_magnitude_vector`, [300], layer + 90),
      ];
    });
    mkdirSync(at("dora"), { recursive: true });
    await writeSafetensors(at("dora", "adapter_model.safetensors"), tensors.flat());
    const config = { peft_type: "LORA", r: 2, lora_alpha: 4, use_dora: true };
    writeFileSync(at("dora", "adapter_config.json"), JSON.stringify(config));
    hub.push("org/dora", at("dora"));
    home = at("home-of-dora");
    const here = await mergeHere("local-dora", ...swapOf("base+dora", "base"));
    const outcome = await run(...swapOf("org/base+org/dora", "org/base"), "--out", "dora-merged");
    expect(outcome.status).toBe(DONE);
    expect(digests("dora-merged")).toEqual(here);
  });

  it("are those of a mergekit configuration, a subfolder, or a renamed model", async () => {
    hub.push("org/nested", at("language"), { at: "experts/one", revision: "v1" });
    hub.renamed.set("org/former", "org/task");
    const models = ["org/former", "org/nested/experts/one@v1"].map((model) => `  - model: ${model}\n`);
    writeFileSync(
      at("kit.yaml"),
      `merge_method: linear\nmodels:\n${models.join("")}parameters:\n  weight: 1\ndtype: bfloat16\n`,
    );
    const outcome = await run("merge", "kit.yaml", "--out", "kit");
    expect(outcome.status).toBe(DONE);
    expect(digests("kit")).toEqual(await mergeHere("local-soup", "soup", "--model", "task", "--model", "language"));
    expect((await run("verify", "kit")).status).toBe(DONE);
  });
});

describe("connections", () => {
  it("that are cut at 50 random places are resumed there, to the same bytes", { tags: "slow" }, async () => {
    hub.cuts = [...seededFloats(50, 7)].map((random) => 1 + Math.floor(Math.abs(random) * 60_000));
    const outcome = await run(...SWAP, "--out", "cut", "--json");
    expect(outcome.status).toBe(DONE);
    expect(hub.cuts).toEqual([]);
    expect(digests("cut")).toEqual(await swappedHere());
    // What came is not fetched again.
    const dry = JSON.parse((await run(...SWAP, "--dry-run", "--json")).stdout);
    expect(JSON.parse(outcome.stdout).bytesFetched).toBe(dry.summary.bytesToFetch);
  });

  it("that are slow, refused for a while, or whose addresses expire, give the same bytes", {
    tags: "slow",
  }, async () => {
    hub.slow = { bytes: 40_000, ms: 2 };
    hub.refusals = [{ status: 429, retryAfter: "1" }, { status: 503 }];
    const merging = run(...SWAP, "--out", "slow");
    // Less often than a busy machine takes to ask for the new one.
    const timer = setInterval(() => {
      hub.signature += "d";
    }, 1000);
    const { status, stderr } = await merging.finally(() => clearInterval(timer));
    expect(status, stderr).toBe(DONE);
    expect(digests("slow")).toEqual(await swappedHere());
  });

  it("that change a byte of a file that is read as a whole are an error, and leave nothing", async () => {
    const [file = ""] = weightsOf("language");
    const content = readFileSync(at("language", file));
    const hash = sha256(at("language", file));
    const changed = Buffer.from(content);
    changed.writeUInt8(changed.readUInt8(content.length - 5) ^ 1, content.length - 5);
    hub.objects.set(hash, changed);
    const outcome = await run("soup", "--model", "org/task", "--model", "org/language", "--out", "changed");
    hub.objects.set(hash, content);
    expect(outcome.status).toBe(FAILED);
    expect(outcome.stderr).toMatch(
      new RegExp(`${file} was received with the SHA-256 \\w{64}, but the hub lists ${hash}`),
    );
    expect(existsSync(at("changed"))).toBe(false);
    expect(existsSync(at("changed.partial"))).toBe(false);
  });

  it("that break again and again are an error, after which a run resumes", async () => {
    for (const [name, value] of Object.entries(environment())) vi.stubEnv(name, value);
    const recipe = { method: "swap", task: "org/task", language: "org/language" } as const;
    const plan = () => planRecipe(recipe, { folder: root, hub: { fetch: "stream", retryDelay: 1 } });
    const opened = await plan();
    hub.cuts = [1e9, 1e9, ...Array<number>(200).fill(0)];
    await expect(executePlan(opened, { out: at("broken") })).rejects.toThrow(
      /^model-\S+ of org\/\w+ ended after \d+ of \d+ bytes, 5 times in a row\. Check/,
    );
    expect(existsSync(at("broken"))).toBe(false);
    hub.cuts = [];
    // The addresses expire, and the new ones lead nowhere.
    const { storage } = hub;
    Object.assign(hub, { signature: "new", storage: "http://127.0.0.1:9" });
    await expect(executePlan(opened, { out: at("broken") })).rejects.toThrow(
      /^org\/\w+ \(main\) is not a folder here, and could not be downloaded from .*: fetch failed/,
    );
    Object.assign(hub, { storage });
    await executePlan(await plan(), { out: at("broken"), resume: true });
    expect(digests("broken")).toEqual(await swappedHere());
    vi.unstubAllEnvs();
  });
});

describe("a revision", () => {
  it("is pinned: verify reads the same commit, and reports that the branch moved", async () => {
    expect((await run(...SWAP, "--out", "pinned")).status).toBe(DONE);
    const [task] = readJson(at("pinned"), "layergraft.json").sources as Record<string, unknown>[];
    const [, commit = ""] = /^org\/task@(\w{10})\w{30}$/.exec(String(task?.folder)) ?? [];
    expect(task).toMatchObject({ name: "org/task", revision: "main" });
    home = at("another-home");
    const verified = await run("verify", "pinned");
    expect(verified.stdout).toMatch(/^Verified pinned/);
    expect(verified.stderr).not.toMatch(/note:/);
    hub.push("org/task", at("later"));
    const again = await run("verify", "pinned");
    expect(again.stdout).toMatch(/^Verified pinned/);
    expect(again.stderr).toMatch(new RegExp(`note: org/task \\(main\\) has moved from ${commit} to \\w{10}; using`));
    expect((await run("verify", "pinned", "--source", "task=later")).status).toBe(FAILED);
  });

  it("of an interrupted run is resumed, and only what is missing is fetched", async () => {
    const args = [...SWAP, "--out", "stopped", "--threads", "1", "--memory", "4MB"];
    hub.slow = { bytes: 20_000, ms: 40 };
    const { child, ended } = start(args, { cwd: root, env: environment() });
    const state = at("stopped.partial/.layergraft-run.json");
    const isBegun = () => existsSync(state) && /"done":"\w*[B-Za-z0-9+/]/.test(readFileSync(state, "utf8"));
    while (!isBegun() && child.exitCode === null) await new Promise((resolve) => setTimeout(resolve, 20));
    child.kill("SIGKILL");
    await ended;
    hub.slow = undefined;
    hub.push("org/task", at("later"));
    const outcome = await run(...args, "--resume", "--json");
    expect(outcome.status).toBe(DONE);
    const { bytesFetched, resumed, summary } = JSON.parse(outcome.stdout);
    expect(resumed).toBe(true);
    expect(bytesFetched).toBeLessThan(summary.bytesToFetch);
    expect(outcome.stderr).toMatch(/note: task: org\/task \(main\) has moved from \w{10} to \w{10}; using/);
    expect(digests("stopped")).toEqual(await swappedHere());
  }, 60_000);
});
