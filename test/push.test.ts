// Pushing to the hub, through the command line, the library and a fake hub.
// @module-tag slow
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { HubError } from "../src/kit/index.js";
import { pushFolder } from "../src/merge/output/index.js";
import { readJson, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, expectReadable, FAILED, layergraft, type Outcome, sha256 } from "./support/command.js";
import { FakeHub } from "./support/fake-hub.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
let hub: FakeHub;
let tests = 0;
let home: string;
let name: string;
let taskCommit: string;
let sourceObjects: Set<string>;

beforeAll(async () => {
  hub = await FakeHub.start();
  const big = { layers: 4, vocabulary: 4000, shardBytes: 200_000 };
  await writeTiny(at("task"), { ...big, seed: 1 });
  await writeTiny(at("language"), { ...big, seed: 2 });
  taskCommit = hub.push("org/task", at("task"));
  hub.push("org/language", at("language"));
  sourceObjects = new Set(hub.objects.keys());
  const recipe = at("recipe.yaml");
  writeFileSync(recipe, `method: swap\ntask: ${at("task")}\nlanguage: ./language\nbottom: 1\ntop: 1\n`);
  const outcome = await run(["merge", recipe, "--out", at("merged"), "--shard-size", "1KB"]);
  expect(outcome.status).toBe(DONE);
});
beforeEach(() => {
  hub.requests = [];
  hub.refusals = [];
  hub.uploadCuts = [];
  hub.stuck = undefined;
  hub.held = 0;
  hub.partBytes = 5_000_000;
  // What other tests pushed would not be sent again.
  for (const hash of hub.objects.keys()) if (!sourceObjects.has(hash)) hub.objects.delete(hash);
  home = at(`home-${tests}`);
  name = `org/merged-${tests++}`;
  for (const [variable, value] of Object.entries(environment())) vi.stubEnv(variable, value);
});
afterAll(() => {
  vi.unstubAllEnvs();
});

function environment() {
  const none = { HF_HUB_CACHE: "", HF_HUB_OFFLINE: "0" };
  return { ...none, HF_ENDPOINT: hub.endpoint, HF_HOME: home ?? at("home"), HF_TOKEN: hub.token };
}
function run(args: readonly string[], env: Record<string, string> = {}): Promise<Outcome> {
  return layergraft(args, { cwd: root, env: { ...environment(), ...env } });
}
const filesOf = (repository = name, branch = "main") => {
  const { commits, refs } = hub.repositories.get(repository) ?? { commits: new Map(), refs: new Map() };
  const files = commits.get(refs.get(branch) ?? "") ?? new Map();
  return new Map([...files].map(([path, { content }]) => [path, content as Buffer]));
};
const namesOf = (folder: string) => readdirSync(folder).sort();
const weightsOf = (folder: string) => namesOf(folder).filter((file) => file.endsWith(".safetensors"));
const uploads = () => hub.requests.filter(({ method, origin }) => method === "PUT" && origin === "storage");
const commits = () => hub.requests.filter(({ path }) => path.includes("/commit/"));

describe("a merge of local folders", () => {
  it("is pushed as one commit with the files of the folder, and then not again", async () => {
    const outcome = await run(["push", "merged", name]);
    expect(outcome.stderr).toMatch(/uploading/);
    expect(outcome.stdout).toMatch(
      new RegExp(`^Pushed to ${hub.endpoint}/${name}: ${namesOf(at("merged")).length} files \\(.*\\)\\n$`),
    );
    const pushed = filesOf();
    expect([...pushed.keys()].sort()).toEqual([".gitattributes", ...namesOf(at("merged"))]);
    for (const file of namesOf(at("merged"))) {
      if (file !== "layergraft.json") expect(pushed.get(file)).toEqual(readFileSync(at("merged", file)));
    }
    expect(commits()).toHaveLength(1);
    expect(uploads()).toHaveLength(weightsOf(at("merged")).length);

    hub.requests = [];
    const again = JSON.parse((await run(["push", "merged", name, "--json"])).stdout);
    expect(again).toMatchObject({ url: `${hub.endpoint}/${name}`, created: false, sent: [], removed: [], bytes: 0 });
    expect(again.commit).toBe(hub.repositories.get(name)?.refs.get("main"));
    expect(again.unchanged).toHaveLength(namesOf(at("merged")).length);
    expect([...commits(), ...uploads()]).toEqual([]);
    expect((await run(["push", "merged", name])).stdout).toBe(`${hub.endpoint}/${name} is already up to date\n`);
  });

  it("has no path of this machine, and can be verified elsewhere", async () => {
    const config = readJson(at("merged"), "config.json");
    cpSync(at("merged"), at("moved"), { recursive: true });
    writeFileSync(at("moved/config.json"), JSON.stringify({ ...config, _name_or_path: at("task/") }));
    const provenance = JSON.parse(readFileSync(at("moved/layergraft.json"), "utf8"));
    provenance.companions["config.json"] = sha256(at("moved/config.json"));
    writeFileSync(at("moved/layergraft.json"), JSON.stringify(provenance));
    expect(readFileSync(at("moved/layergraft.json"), "utf8")).toContain(root);
    mkdirSync(at("moved/.eval_results"));
    writeFileSync(at("moved/.eval_results/gsm8k.yaml"), "- value: 40\n");
    expect((await run(["push", "moved", name])).status).toBe(DONE);
    const pushed = filesOf();
    expect(String(pushed.get(".eval_results/gsm8k.yaml"))).toBe("- value: 40\n");
    for (const [file, content] of pushed) {
      expect(content.includes(root), file).toBe(false);
      expect(content.includes(".."), file).toBe(file.endsWith(".safetensors") && content.includes(".."));
    }
    expect(JSON.parse(String(pushed.get("config.json")))).toEqual({ ...config, _name_or_path: "task" });
    const published = JSON.parse(String(pushed.get("layergraft.json")));
    expect(published.sources.map(({ folder }: { folder: string }) => folder)).toEqual(["task", "language"]);
    expect(published.recipe).toMatchObject({ task: "task", language: "language" });
    expect(published.planDigest).toBe(provenance.planDigest);

    mkdirSync(at("downloaded/.eval_results"), { recursive: true });
    for (const [file, content] of pushed) writeFileSync(at("downloaded", file), content);
    const sources = ["--source", `task=${at("task")}`, "--source", `language=${at("language")}`];
    const verified = await run(["verify", "downloaded", ...sources]);
    expect(verified.stderr + verified.stdout).toMatch(/bit-identical|verified/i);
    expect(verified.status).toBe(DONE);
  });

  it("leaves out what is not part of a model", async () => {
    cpSync(at("merged"), at("full"), { recursive: true });
    for (const file of [".env", "notes.txt", "optimizer.pt", ".layergraft-run.json", "training.json"])
      writeFileSync(at("full", file), "secret");
    for (const folder of ["full/wandb", "full/1_Pooling"]) mkdirSync(at(folder));
    writeFileSync(at("full/1_Pooling/config.json"), "{}");
    writeFileSync(at("secret"), "secret");
    rmSync(at("full/tokenizer_config.json"), { force: true });
    const outcome = await run(["push", "full", name]);
    expect(outcome.stderr).toMatch(/not pushed: notes\.txt, optimizer\.pt, training\.json, wandb$/m);
    expect(String(filesOf().get("1_Pooling/config.json"))).toBe("{}");
    expect([...filesOf().values()].some((content) => content.includes("secret"))).toBe(false);
  });

  it("lists in a dry run what would be sent", async () => {
    const outcome = await run(["push", "merged", name, "--dry-run"]);
    expect(outcome.stdout).toContain("send      config.json\n");
    expect(outcome.stdout).toMatch(/Would push to .* files/);
    expect(outcome.stderr).toContain(`${name} does not exist yet`);
    expect(hub.repositories.has(name)).toBe(false);
    // No token is needed for what is sent nowhere.
    const anonymous = { HF_TOKEN: "", HF_TOKEN_PATH: at("no-token") };
    expect((await run(["push", "merged", name, "--dry-run"], anonymous)).stdout).toBe(outcome.stdout);
    await run(["push", "merged", name]);
    const known = JSON.parse((await run(["push", "merged", name, "--dry-run", "--json"], anonymous)).stdout);
    expect(known).toMatchObject({ created: false, sent: [] });
    const after = JSON.parse((await run(["push", "merged", name, "--dry-run", "--json"])).stdout);
    expect(after).toMatchObject({ commit: null, created: false, sent: [] });
  });
});

describe("a merge of models on the hub", () => {
  it("is pushed by the command that writes it, and its card names them with their commits", async () => {
    const models = ["--task", "org/task", "--language", "org/language"];
    const outcome = await run(["swap", ...models, "--out", "both", "--push", name, "--private", "--json"]);
    expect(outcome).toMatchObject({ status: DONE });
    expect(JSON.parse(outcome.stdout)).toMatchObject({ files: weightsOf(at("both")), push: { created: true } });
    expect(hub.repositories.get(name)?.private).toBe(true);
    const card = String(filesOf().get("README.md"));
    expect(card).toContain("base_model:\n  - org/task\n  - org/language\nbase_model_relation: merge\n");
    expect(card).toContain(
      `- [org/task](https://huggingface.co/org/task/tree/${taskCommit}) at commit \`${taskCommit.slice(0, 12)}\``,
    );
    expect(card).toContain(`task: org/task@${taskCommit}`);
    for (const [file, content] of filesOf()) expect(content.includes(root), file).toBe(false);
    const published = JSON.parse(String(filesOf().get("layergraft.json")));
    expect(published.sources[0].folder).toBe(`org/task@${taskCommit}`);
    // Anyone who may read the models can verify the folder anywhere.
    mkdirSync(at("elsewhere"));
    for (const [file, content] of filesOf()) writeFileSync(at("elsewhere", file), content);
    expect((await run(["verify", "elsewhere"])).status).toBe(DONE);
    expect((await run(["verify", "elsewhere"], { HF_HOME: at("empty") })).stdout).toMatch(/^Verified elsewhere/);
    const missing = await run(["verify", "elsewhere"], { HF_HOME: at("offline"), HF_HUB_OFFLINE: "1" });
    expect(missing.stderr).toMatch(/org\/task@[0-9a-f]{40} is neither a folder nor complete in the cache/);
  });

  it("is kept when the push fails, with the command that pushes it", async () => {
    hub.refusals = [{ status: 403, path: /\/commit\// }];
    const soup = ["soup", "--model", "task", "--model", "language", "--out", "kept", "--push", name];
    const outcome = await run(soup);
    expect(outcome.status).toBe(FAILED);
    expect(outcome.stderr).toMatch(new RegExp(`may not write to ${name}.*refused`));
    expect(outcome.stderr).toContain(`kept is complete. Push it with: layergraft push kept ${name}`);
    hub.requests = [];
    expect((await run(["push", "kept", name])).status).toBe(DONE);
    // The weights were sent before.
    expect(uploads()).toEqual([]);
  });

  it.each([
    ["without a network", { HF_ENDPOINT: "http://127.0.0.1:9", HF_HUB_OFFLINE: "" }],
    ["with HF_HUB_OFFLINE", { HF_HUB_OFFLINE: "1" }],
  ])("of a dry run %s lists every file", async (_, more) => {
    const env = { HF_HOME: at("no-home"), HF_TOKEN: "", ...more };
    const { status, stdout, stderr } = await run(["push", at("merged"), "org/model", "--dry-run"], env);
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/^send {6}model-00001-of-00007\.safetensors$/m);
    expect(stdout).toMatch(/^Would push to http.*\/org\/model: \d+ files/m);
    expect(stderr).toContain("note: the hub was not reached, so files that it may have already are listed, too\n");
    expect(stderr).toMatch(/README\.md does not say license and base_model, as the models do not\./);
  });

  it("is not begun if it could not be pushed", async () => {
    const soup = ["soup", "--model", "task", "--model", "language", "--out", "never", "--push"];
    const outcome = await run([...soup, "someone/else"]);
    expect(outcome.stderr).toMatch(/someone is not your account \(tester\), nor one of your organizations \(org\)/);
    expect((await run([...soup, name], { HF_TOKEN: "" })).stderr).toMatch(/needs a token/);
    expect((await run([...soup, "name"])).stderr).toMatch(/"name" is not the name of a repository/);
    expect(existsSync(at("never"))).toBe(false);
  });
});

it("GGUF files are pushed beside what is there", async () => {
  mkdirSync(at("gguf"));
  writeFileSync(at("gguf/model-q8.gguf"), "GGUF");
  hub.push(name, at("task"));
  expect((await run(["push", "gguf", name])).status).toBe(DONE);
  expect([...filesOf().keys()]).toEqual([...namesOf(at("task")), "model-q8.gguf"]);
});

describe("adapters", () => {
  it("are pushed with the name of their base in place of its path", async () => {
    const extract = ["extract", "--base", "task", "--model", "language", "--rank", "2", "--out", "adapter"];
    expect((await run([...extract, "--push", name])).stdout).toContain(`Pushed to ${hub.endpoint}/${name}`);
    const own = readJson(at("adapter"), "adapter_config.json");
    writeFileSync(at("adapter/adapter_config.json"), JSON.stringify({ ...own, base_model_name_or_path: at("task") }));
    expect((await run(["push", "adapter", name])).status).toBe(DONE);
    const pushed = filesOf();
    expect(JSON.parse(String(pushed.get("adapter_config.json")))).toMatchObject({ base_model_name_or_path: "task" });
    expect([...pushed.keys()]).toContain("adapter_model.safetensors");
    const card = String(pushed.get("README.md"));
    expect(card).toContain("base_model_relation: adapter\nlibrary_name: peft");
    expect(card).toMatch(/A LoRA adapter of rank 2 that keeps \d+.*% of the squared change/);
    expect(card).toMatch(
      /- task, a local folder \(SHA-256 of its weights `[0-9a-f]{64}`\)\n- language, a local folder/,
    );
    expect([...pushed.keys()]).not.toContain("config.json");
  });
});

describe("an existing repository", () => {
  it("loses weights of another model, and nothing else", async () => {
    mkdirSync(at("old"));
    for (const file of ["model.safetensors", "model-00001-of-00099.safetensors", "notes.md", "x.gguf"])
      writeFileSync(at("old", file), file);
    hub.push(name, at("old"));
    const outcome = await run(["push", "merged", name]);
    expect(outcome.stdout).toMatch(/2 old weight files removed/);
    expect([...filesOf().keys()].sort()).toEqual([...namesOf(at("merged")), "notes.md", "x.gguf"].sort());
    expect(commits()).toHaveLength(1);
  });

  it("gets a branch, and keeps its main", async () => {
    hub.push(name, at("old"));
    const outcome = await run(["push", "merged", name, "--branch", "v2/swap", "--message", "The second"]);
    expect(outcome.stdout).toContain(`Pushed to ${hub.endpoint}/${name}/tree/v2/swap`);
    expect([...filesOf().keys()].sort()).toEqual(namesOf(at("old")));
    expect([...filesOf(name, "v2/swap").keys()]).toEqual(expect.arrayContaining(namesOf(at("merged"))));
  });

  it("that is public is not taken for a private one", async () => {
    hub.push(name, at("old"));
    const outcome = await run(["push", "merged", name, "--private"]);
    expect(outcome.stderr).toMatch(/exists and is public/);
    expect(commits()).toEqual([]);
  });
});

describe("interruptions", () => {
  const push = (signal?: AbortSignal) => pushFolder(at("merged"), { name, retryDelay: 1, signal });

  it("of connections are retried, also within parts", async () => {
    hub.partBytes = 10_000;
    hub.uploadCuts = [0, 100, 5000, 1e9, 9999];
    hub.refusals = [
      { status: 503, path: /\/commit\// },
      { status: 429, path: /batch/ },
      { status: 500, path: /create/ },
    ];
    const result = await push();
    expect(result.sent).toHaveLength(namesOf(at("merged")).length);
    expect(hub.uploadCuts).toEqual([]);
    expect(hub.refusals).toEqual([]);
    const parts = weightsOf(at("merged")).map((file) => Math.ceil(statSync(at("merged", file)).size / hub.partBytes));
    expect(Math.max(...parts)).toBeGreaterThan(3);
    // A part that is smaller than its cut is not cut.
    expect(uploads().length).toBeGreaterThan(parts.reduce((sum, count) => sum + count, 0));
    for (const file of weightsOf(at("merged"))) expect(filesOf().get(file)).toEqual(readFileSync(at("merged", file)));
  });

  it("by the signal stop, and the next push sends only what is missing", async () => {
    const controller = new AbortController();
    const stopping = pushFolder(at("merged"), {
      ...{ name, signal: controller.signal },
      onProgress: ({ phase }) => {
        if (phase === "uploading" && uploads().length >= 2) controller.abort();
      },
    });
    await expect(stopping).rejects.toThrow(`stopped while pushing ${name}; run again to push what is missing`);
    expect(filesOf()).toEqual(new Map([[".gitattributes", expect.anything()]]));
    const sent = [...hub.objects.keys()].filter((hash) => !sourceObjects.has(hash)).length;
    expect(sent).toBeGreaterThan(1);
    hub.requests = [];
    await push();
    expect(uploads()).toHaveLength(weightsOf(at("merged")).length - sent);
    expect([...filesOf().keys()]).toEqual(expect.arrayContaining(namesOf(at("merged"))));
  });

  it("by another push are reported, as files that did not change would be mixed", async () => {
    hub.push(name, at("old"));
    const pushing = pushFolder(at("merged"), {
      name,
      onProgress: ({ phase }) => {
        if (phase === "uploading") hub.push(name, at("task"));
      },
    });
    await expect(pushing).rejects.toThrow(`${name} was changed by someone else during the push. Push again.`);
  });
});

describe("a hub with strange answers", () => {
  const weights = () => weightsOf(at("merged"));
  const batch = (upload: unknown) =>
    JSON.stringify({
      objects: weights().map((file) => ({ oid: sha256(at("merged", file)), size: 1, actions: { upload } })),
    });
  const commit = (sha: string) => JSON.stringify({ id: name, sha, private: false });
  const push = () => pushFolder(at("merged"), { name, retryDelay: 1 });

  it.each([
    ["an address that is none", () => batch({ href: "http://[" }), /answer that is not the hub's/],
    ["no address", () => batch({}), /answer that is not the hub's/],
    ["an address with a login", () => batch({ href: "http://a:b@127.0.0.1/" }), /answer that is not the hub's/],
    ["an address of a file", () => batch({ href: "file:///etc/passwd" }), /answer that is not the hub's/],
    ["too few parts", () => batch({ href: hub.storage, header: { chunk_size: "1" } }), /answer that is not the hub's/],
    ["parts of no bytes", () => batch({ href: hub.storage, header: { chunk_size: "0", "1": "x" } }), /not the hub's/],
    ["an object of another", () => '{"objects":[{"oid":"x","size":1,"actions":{}}]}', /answer that is not the hub's/],
    ["a refusal", () => batch({}).replace('"actions":{"upload":{}}', '"error":{"message":"quota"}'), /upload: quota$/],
    [
      "an address without a server",
      () => batch({ href: "http://127.0.0.1:9/x" }),
      /could not be pushed .*fetch failed/,
    ],
    [
      "another transfer",
      () => batch({ href: hub.storage }).replace("{", '{"transfer":"xet",'),
      /could not be pushed .*404/,
    ],
  ])("for uploads: %s", async (_, body, message) => {
    hub.refusals = [{ status: 200, body: body(), path: /batch/ }];
    const error = await push().catch((one: unknown) => one);
    expect(error).toBeInstanceOf(HubError);
    expect((error as Error).message).toMatch(message);
    expect(commits()).toEqual([]);
  });

  it.each(["never reads", "never answers"] as const)("from a storage that %s", async (how) => {
    hub.stuck = how;
    // Time passes only while the storage holds an upload, so no other request can be late.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    const pushing = pushFolder(at("merged"), { name, retryDelay: 1 });
    const passing = setInterval(() => hub.held > 0 && vi.advanceTimersByTime(1_000_000), 10);
    try {
      await expect(pushing).rejects.toThrow(/^http:\/\/localhost:\d+ does not answer\. Check the connection/);
    } finally {
      clearInterval(passing);
      vi.useRealTimers();
    }
    expect(commits()).toEqual([]);
  });

  it("for what is to be uploaded is not a push without weights", async () => {
    const files = [...weights(), "config.json"].map((path) => ({ path, uploadMode: "teleport" }));
    hub.refusals = [{ status: 200, body: JSON.stringify({ files }), path: /preupload/ }];
    await expect(push()).rejects.toThrow("sent an answer that is not the hub's");
    expect(commits()).toEqual([]);
  });

  it("for the storage's refusal is a sentence", async () => {
    hub.refusals = [{ status: 403, body: "not JSON", path: /signature=abc/ }];
    const error = await push().catch((one: unknown) => one);
    expect(error).toBeInstanceOf(HubError);
  });

  it.each(["../../x?y=1#", "x".repeat(1_000_000), ""])("for the commit of a branch: %.20s", async (sha) => {
    hub.push(name, at("task"));
    hub.refusals = [
      { status: 200, body: commit("0".repeat(40)), path: /revision/ },
      { status: 200, body: commit(sha), path: /revision/ },
    ];
    await expect(push()).rejects.toThrow(`the Hub does not name the commit of ${name} (main)`);
  });

  it.each(["http://[", "http://localhost:1/steal"])("for the next page: %s", async (link) => {
    hub.push(name, at("task"));
    hub.refusals = [{ status: 200, body: "[]", link, path: /tree/ }];
    await expect(push()).rejects.toThrow(`The listing of ${name} continues elsewhere than on the hub.`);
  });

  it("for the account is shortened", async () => {
    const orgs = Array.from({ length: 5000 }, (_, i) => ({ name: `o${i}` }));
    const body = JSON.stringify({ type: "user", name: "x".repeat(1_000_000), orgs, auth: {} });
    hub.refusals = [{ status: 200, body, path: /whoami/ }];
    const error = (await push().catch((one: unknown) => one)) as Error;
    expect(error.message).toContain(
      "x... ), nor one of your organizations (o0, o1, o2 and 4997 more)".replace("... ", "..."),
    );
    expect(error.message.length).toBeLessThan(500);
  });
});

describe("refusals", () => {
  it.each([
    [{ HF_TOKEN: "" }, /^Pushing to .* needs a token\. Create a token with write access at http.*\/settings\/tokens/],
    [{ HF_TOKEN: "hf_wrong_wrong" }, /does not know the token\. Create a token/],
    [{ HF_TOKEN: "wrong_wrong" }, /The token does not begin with hf_/],
    [{ HF_TOKEN: "hf_token_that_only_reads" }, /The token can only read\. Create a token/],
    [{ HF_HUB_OFFLINE: "1" }, /HF_HUB_OFFLINE is set, so .* cannot be pushed/],
  ])("with %j are explained", async (variables, message) => {
    for (const [variable, value] of Object.entries(variables)) vi.stubEnv(variable, value);
    await expect(pushFolder(at("merged"), { name, retryDelay: 1 })).rejects.toThrow(message);
    expect(hub.repositories.has(name)).toBe(false);
  });

  it("of folders that are no complete model come before any request", async () => {
    cpSync(at("merged"), at("short"), { recursive: true });
    const [weights = ""] = weightsOf(at("short"));
    writeFileSync(at("short", weights), readFileSync(at("merged", weights)).subarray(0, -1));
    mkdirSync(at("run/best"), { recursive: true });
    mkdirSync(at("unfinished.partial"));
    const refused = async (folder: string) => (await run(["push", folder, name])).stderr;
    expect(await refused("short")).toMatch(new RegExp(`${weights} is cut off`));
    expect(await refused("run")).toMatch(
      /run is a training run, not a model\. Push one of its checkpoints, such as run.best/,
    );
    expect(await refused("recipe.yaml")).toMatch(/recipe\.yaml is not a folder/);
    expect(await refused("unfinished")).toMatch(/unfinished is not complete: .*\.partial holds an interrupted run/);
    expect(await refused("nothing")).toMatch(/nothing is not a folder/);
    expect(await refused(".")).toMatch(/is not a model or adapter: it has neither config\.json/);
    expect((await run(["push", "merged", name, "--branch", "../main"])).stderr).toMatch(/is not the name of a branch/);
    expect((await run(["push", "merged", name, "--message", " "])).stderr).toMatch(/message of the commit is empty/);
    expect(hub.requests).toEqual([]);
  });

  // Uploads of a refused push may end after it.
  it.each([
    [403, /create/, /^The token may not write to org\/merged-\d+\. Give it write access/],
    [403, /commit/, /for a gated repository, ask its owner first\. The Hub says: refused/],
    [409, /commit/, /was changed by someone else during the push/],
    [429, /batch/, /limits how often it answers and refused to take org\/merged-\d+\. Wait some minutes/],
    [500, /preupload/, /could not be pushed to http.*: refused.*Push again; what was sent is not sent again\.$/],
    [400, /commit/, /^http.* refused org\/merged-\d+: refused/],
    [403, /signature/, /: .*while uploading .*URL: http:\/\/localhost:\d+\/[0-9a-f]{64}\. Push again; what was sent/],
  ])("of status %i for %s are explained", async (status, path, message) => {
    hub.refusals = Array(9).fill({ status, path });
    await expect(pushFolder(at("merged"), { name, retryDelay: 1 })).rejects.toThrow(message);
  });
});

it("never prints, stores or sends the token to another origin", async () => {
  hub.partBytes = 50_000;
  const outcomes = [
    await run(["push", "merged", name]),
    await run(["push", "merged", name, "--json", "--branch", "next"]),
    await run(["soup", "--model", "task", "--out", "safe", "--push", `${name}-soup`]),
  ];
  hub.refusals = [{ status: 403, path: /preupload/ }];
  outcomes.push(await run(["push", "task", name]));
  hub.refusals = Array(9).fill({ status: 403 });
  outcomes.push(await run(["push", "task", name]));
  expect(outcomes.map(({ status }) => status)).toEqual([DONE, DONE, DONE, FAILED, FAILED]);
  const printed = outcomes.map(({ stdout, stderr }) => stdout + stderr);
  for (const text of printed) expectReadable(text);
  const storage = hub.requests.filter(({ origin }) => origin === "storage");
  expect(storage.length).toBeGreaterThan(4);
  const own = hub.requests.filter(({ origin }) => origin === "hub");
  expect(own.every(({ headers }) => headers.includes(hub.token))).toBe(true);
  const stored = [home, at("safe"), at("merged")].filter(existsSync).flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), "latin1")),
  );
  const pushed = [...hub.repositories.keys()].flatMap((repository) => [...filesOf(repository).values()].map(String));
  const paths = hub.requests.map(({ path }) => path);
  for (const text of [...printed, ...paths, ...storage.map((one) => JSON.stringify(one)), ...stored, ...pushed]) {
    expect(text).not.toContain(hub.token);
  }
});
