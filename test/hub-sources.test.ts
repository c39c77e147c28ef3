// Sources on the hub, through the command line and a fake hub.
// @module-tag slow
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openCheckpoint } from "../src/formats/checkpoint/index.js";
import { readJson, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, expectReadable, FAILED, layergraft, type Outcome, sha256 } from "./support/command.js";
import { FakeHub } from "./support/fake-hub.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
let hub: FakeHub;
let commit: string;
let tests = 0;
let home: string;

beforeAll(async () => {
  hub = await FakeHub.start();
  // Wide enough that the values are far more than headers and configurations.
  const big = { layers: 6, vocabulary: 20_000, shardBytes: 200_000 };
  await writeTiny(at("task"), { ...big, seed: 1 });
  await writeTiny(at("language"), { ...big, seed: 2 });
  commit = hub.push("org/task", at("task"));
  hub.push("org/language", at("language"));
  hub.push("org/gated", at("task"), { gated: true });
  hub.push("org/nested", at("task"), { at: "experts/one", revision: "v1.0" });
  mkdirSync(at("pickled"));
  writeFileSync(at("pickled/config.json"), readFileSync(at("task/config.json")));
  writeFileSync(at("pickled/pytorch_model.bin"), "pickle");
  hub.push("org/pickled", at("pickled"));
});
beforeEach(() => {
  hub.requests = [];
  hub.refusals = [];
  hub.cuts = [];
  home = at(`home-${tests++}`);
});

function run(args: readonly string[], env: Record<string, string> = {}): Promise<Outcome> {
  const own = { HF_ENDPOINT: hub.endpoint, HF_HOME: home, HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "", HF_TOKEN: "" };
  return layergraft(args, { cwd: root, env: { ...own, ...env } });
}
const swapOf = (task: string, ...rest: string[]) => ["swap", "--task", task, "--language", "org/language", ...rest];
const bytesOf = (folder: string) =>
  readdirSync(folder).reduce(
    (sum, name) => sum + (name.endsWith(".safetensors") ? statSync(join(folder, name)).size : 0),
    0,
  );
const cacheOf = (name: string) => join(home, "hub", `models--org--${name}`);

describe("headers", () => {
  it("are all that inspect reads, and give what a folder gives", async () => {
    const outcome = await run(["inspect", "org/task", "--json"]);
    expect(outcome.stderr).toMatch(/^note: \S+ kB of weights are on the hub.*\n$/);
    expect(outcome.status).toBe(DONE);
    const { tensors: _, ...local } = JSON.parse((await run(["inspect", "task", "--json"])).stdout);
    const remote = JSON.parse(outcome.stdout);
    expect(remote).toMatchObject({ layers: 6, digest: local.digest, parameters: local.parameters });
    expect(remote.notes).toEqual([expect.stringMatching(/of weights are on the hub and were not read/)]);
    const weights = hub.requests.filter(({ path }) => path.includes(".safetensors") && !path.includes(".json"));
    expect(weights.every(({ range }) => /^bytes=0-32767$/.test(range ?? "") || range === undefined)).toBe(true);
    expect(hub.bytes).toBeLessThan(bytesOf(at("task")) / 2);
    expect(readdirSync(join(cacheOf("task"), "snapshots", commit)).sort()).toEqual([
      "config.json",
      "model.safetensors.index.json",
    ]);
  });

  it("that are long take a second request", async () => {
    await writeTiny(at("deep"), { layers: 40, seed: 3 });
    hub.push("org/deep", at("deep"));
    const outcome = await run(["inspect", "org/deep", "--json"]);
    const size = statSync(at("deep/model.safetensors")).size;
    expect(JSON.parse(outcome.stdout)).toMatchObject({ layers: 40 });
    const ranges = hub.requests.filter(({ origin }) => origin === "storage").map(({ range }) => range);
    const end = 8 + Number(readFileSync(at("deep/model.safetensors")).readBigUInt64LE(0)) - 1;
    expect(end).toBeGreaterThan(32_768);
    expect(size).toBeGreaterThan(end);
    expect(ranges).toEqual(["bytes=0-32767", `bytes=32768-${end}`]);
  });

  it("are enough for a dry run, which fetches no values", async () => {
    const local = await run(["swap", "--task", "task", "--language", "language", "--dry-run", "--json"]);
    const outcome = await run(swapOf("org/task", "--dry-run", "--json"));
    expect(outcome.status).toBe(DONE);
    const { bytesToFetch, bytesOnHub, ...summary } = JSON.parse(outcome.stdout).summary;
    expect(JSON.parse(local.stdout).summary).toEqual({ ...summary, bytesToFetch: 0, bytesOnHub: 0 });
    expect(bytesOnHub).toBe(bytesOf(at("task")) + bytesOf(at("language")));
    expect(bytesToFetch).toBeLessThan(bytesOnHub);
    expect(JSON.parse(outcome.stdout).plan.sources[0]).toMatchObject({
      name: "org/task",
      folder: join(cacheOf("task"), "snapshots", commit),
    });
    expect(hub.bytes).toBeLessThan(bytesOf(at("task")));
  });

  it("come from revisions and subfolders", async () => {
    const outcome = await run(["inspect", "org/nested/experts/one@v1.0"]);
    expect(outcome.stderr).toMatch(/^note: \S+ kB of weights are on the hub.*\n$/);
    expect(outcome.stdout).toMatch(/^org\/nested\/experts\/one\n/);
    const missing = await run(["inspect", "org/nested/experts/two@v1.0"]);
    expect(missing.status).toBe(FAILED);
    expect(missing.stderr).toMatch(/org\/nested \(v1\.0\) has no folder experts\/two/);
    expect((await run(["inspect", `org/task@${commit}`])).status).toBe(DONE);
    expect((await run(["inspect", "org/task@v9"])).stderr).toMatch(/org\/task has no branch, tag or commit v9 on/);
  });
});

describe("--download", () => {
  it("fetches files in folders of the model, and what a merge copies from a subfolder", async () => {
    await writeTiny(at("pooled/model"), { seed: 5 });
    const files = {
      ...{ "modules.json": "[]", "1_Pooling/config.json": "{}", "additional_chat_templates/tool.jinja": "tool" },
      ...{
        "tokenizer.json": "{}",
        "preprocessor_config.json": "{}",
        "onnx/model.onnx": "0",
        "big.txt": "0".repeat(1_000_001),
      },
    };
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(at("pooled/model", path)), { recursive: true });
      writeFileSync(at("pooled/model", path), text);
    }
    hub.push("org/pooled", at("pooled"));
    const args = ["soup", "--model", "org/pooled/model", "--out", "pooled-merged", "--download"];
    expect((await run(args)).status).toBe(DONE);
    const copied = Object.keys(files).filter((path) => existsSync(at("pooled-merged", path)));
    expect(copied).toEqual(Object.keys(files).slice(0, 5));
  });

  it("fills the cache of huggingface_hub, from which every command then reads offline", async () => {
    const local = await run(["swap", "--task", "task", "--language", "language", "--out", "local", "--force"]);
    expect(local.status).toBe(DONE);
    const outcome = await run(swapOf("org/task", "--out", "merged", "--force", "--download"));
    expect(outcome.stderr).toMatch(/downloading/);
    expect(outcome.status).toBe(DONE);
    const weights = readdirSync(at("local")).filter((name) => name.endsWith(".safetensors"));
    expect(weights.map((name) => sha256(at("merged", name)))).toEqual(weights.map((name) => sha256(at("local", name))));
    const snapshot = join(cacheOf("task"), "snapshots", commit);
    expect(readFileSync(join(cacheOf("task"), "refs/main"), "utf8")).toBe(commit);
    expect(readdirSync(snapshot).sort()).toEqual(readdirSync(at("task")).sort());
    for (const name of readdirSync(snapshot)) expect(sha256(join(snapshot, name))).toBe(sha256(at("task", name)));
    const text = JSON.stringify(readJson(at("merged"), "layergraft.json").sources);
    expect(text).toContain(`"revision":"main","name":"org/task"`);
    expect(text).toContain(`"folder":"org/task@${commit}"`);
    expect(text).not.toContain("snapshots");

    hub.requests = [];
    expect((await run(["inspect", "org/task"])).status).toBe(DONE);
    expect((await run(["diff", "org/task", "task"], { HF_HUB_OFFLINE: "1" })).status).toBe(DONE);
    expect((await run(["verify", "merged"])).status).toBe(DONE);
    expect(hub.requests).toEqual([]);
  });

  it("waits for another process that downloads the same model, and fetches nothing twice", async () => {
    hub.requests = [];
    const outcomes = await Promise.all([1, 2, 3].map(() => run(["inspect", "org/task", "--download"])));
    expect(outcomes.map(({ status }) => status)).toEqual([DONE, DONE, DONE]);
    const snapshot = join(cacheOf("task"), "snapshots", commit);
    for (const name of readdirSync(at("task"))) expect(sha256(join(snapshot, name))).toBe(sha256(at("task", name)));
    const fetched = hub.requests
      .filter(({ origin }) => origin === "storage")
      .reduce((sum, { bytes }) => sum + bytes, 0);
    const sizes = readdirSync(at("task")).map((name) => statSync(at("task", name)).size);
    // Headers may be read before.
    expect(fetched).toBeLessThan(1.5 * sizes.reduce((sum, size) => sum + size, 0));
  });

  it("resumes after cut connections", async () => {
    hub.cuts = [100, 1e9, 1e9, 1e9, 5000, 70_000, 9000];
    expect((await run(["inspect", "org/task", "--download"])).stdout).not.toMatch(/were not read/);
    const snapshot = join(cacheOf("task"), "snapshots", commit);
    for (const name of readdirSync(at("task"))) expect(sha256(join(snapshot, name))).toBe(sha256(at("task", name)));
    expect(hub.cuts).toEqual([]);
    expect(readdirSync(join(cacheOf("task"), "blobs")).filter((name) => name.endsWith("incomplete"))).toEqual([]);
  });

  it("reads a folder of that name first, and says so when the cache has the model too", async () => {
    await run(["inspect", "org/task"]);
    mkdirSync(at("org"));
    renameSync(at("language"), at("org/task"));
    hub.requests = [];
    const outcome = await run(["inspect", "org/task"]);
    expect(outcome.stderr).toMatch(
      /^note: org\/task is read from the folder of that name; write hub:org\/task for the/,
    );
    expect(hub.requests).toEqual([]);
    expect((await run(["inspect", "hub:org/task"])).stdout).toMatch(/^org\/task\n/);
    expect(hub.requests.length).toBeGreaterThan(0);
    renameSync(at("org/task"), at("language"));
    rmSync(at("org"), { recursive: true });
  });
});

describe("the token", () => {
  it("opens gated models, is never printed or stored, and never reaches another origin", async () => {
    const refused = await run(["inspect", "org/gated"]);
    expect(refused.stderr).toMatch(
      /org\/gated \(main\) is gated\. Accept its terms at http.*\/org\/gated\. Set HF_TOKEN to a token/,
    );
    const wrong = await run(["inspect", "org/gated"], { HF_TOKEN: "hf_wrong_wrong_wrong" });
    expect(wrong.stderr).toMatch(/HF_TOKEN is not enough/);
    hub.requests = [];
    const env = { HF_TOKEN: hub.token };
    const outcomes = [
      await run(["inspect", "org/gated", "--json"], env),
      await run(swapOf("org/gated", "--dry-run"), env),
      await run(swapOf("org/gated", "--out", "gated", "--force", "--download"), env),
    ];
    hub.refusals = [{ status: 403 }];
    outcomes.push(await run(["inspect", "org/gated@other"], env));
    expect(outcomes.map(({ status }) => status)).toEqual([DONE, DONE, DONE, FAILED]);
    const printed = outcomes.map(({ stdout, stderr }) => stdout + stderr).join("\n");
    const storage = hub.requests.filter(({ origin }) => origin === "storage");
    expect(storage.length).toBeGreaterThan(4);
    expect(
      hub.requests.filter(({ origin }) => origin === "hub").every(({ headers }) => headers.includes(hub.token)),
    ).toBe(true);
    const stored = [home, at("gated")].flatMap((folder) =>
      readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1")),
    );
    for (const text of [printed, ...storage.map((request) => JSON.stringify(request)), ...stored]) {
      expect(text).not.toContain(hub.token);
    }
  });
});

describe("refusals", () => {
  const open = (source = "org/task", retryDelay = 1) =>
    openCheckpoint(source, { hub: { fetch: "headers", retryDelay } });
  beforeEach(() => {
    const own = { HF_ENDPOINT: hub.endpoint, HF_HOME: home, HF_HUB_CACHE: "", HF_HUB_OFFLINE: "0", HF_TOKEN: "" };
    for (const [name, value] of Object.entries(own)) vi.stubEnv(name, value);
  });
  afterAll(() => {
    vi.unstubAllEnvs();
  });

  it.each([
    [429, /limits how often it answers and refused org\/task \(main\)\. Wait some minutes, then run again/],
    [503, /org\/task \(main\) is not a folder here, and could not be downloaded from http:\/\/127\.0\.0\.1:\d+: /],
  ])("of status %i are retried, then explained", async (status, message) => {
    hub.refusals = Array(4).fill({ status });
    expect((await open()).layers).toBe(6);
    hub.requests = [];
    hub.refusals = Array(9).fill({ status });
    await expect(open()).rejects.toThrow(message);
    expect(hub.requests).toHaveLength(5);
  });

  it("that ask for a long enough pause are reported", async () => {
    hub.refusals = [{ status: 429, retryAfter: "2" }];
    const outcome = await run(["inspect", "org/task"]);
    expect(outcome.status).toBe(DONE);
    expect(outcome.stderr).toMatch(/^waiting 2.0 s for the hub\nnote: \S+ kB of weights .*\n$/);
  });

  it("that ask for a pause get it, unless it is long", async () => {
    hub.refusals = [{ status: 429, retryAfter: "1" }];
    const start = performance.now();
    expect((await open()).layers).toBe(6);
    expect(performance.now() - start).toBeGreaterThanOrEqual(990);
    hub.requests = [];
    hub.refusals = [{ status: 429, retryAfter: "3600" }];
    await expect(open()).rejects.toThrow(/Wait 1 h 00 min, then run again/);
    hub.refusals = Array(9).fill({ status: 429, retryAfter: "9".repeat(300) });
    await expect(open()).rejects.toThrow(/Wait some minutes, then run again/);
    hub.refusals = [{ status: 429, rateLimit: '"api";r=0;t=120' }];
    await expect(open()).rejects.toThrow(/Wait 2 min 00 s, then run again/);
    expect(hub.requests).toHaveLength(1 + 5 + 1);
  });

  it("name models that do not exist, hold only pickles, or may not be fetched", async () => {
    await expect(open("org/nothing")).rejects.toThrow(
      /org\/nothing \(main\) cannot be read: it does not exist, is private/,
    );
    await expect(open("org/pickled")).rejects.toThrow(
      /^org\/pickled has pickled weights \(pytorch_model\.bin\)\. .*from_pretrained\("org\/pickled"\)/,
    );
    const outcome = await run(["inspect", "org/task"], { HF_HUB_OFFLINE: "1" });
    expect(outcome.stderr).toMatch(/org\/task is neither a folder nor complete in the cache .*HF_HUB_OFFLINE is set/);
    expectReadable(outcome.stderr);
  });
});
