// An experiment with models on the hub, from its dry run to the push of one of its rows, through the command line and a fake
// hub.
// @module-tag slow
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { writeByteModel, writeLetters } from "./support/byte-model.js";
import { readJson, temporaryFolder } from "./support/checkpoints.js";
import {
  DONE,
  expectReadable,
  FAILED,
  INTERRUPTED,
  layergraft,
  type Outcome,
  sha256,
  start,
  WRONG_USAGE,
} from "./support/command.js";
import { FakeHub } from "./support/fake-hub.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const PLAN = `name: grafts
base: org/base
experts:
  math: { role: task, folders: { math: org/math } }
  swahili: { role: language, language: sw, folders: { swahili: org/swahili } }
merges:
  - { name: layer swap, recipe: { method: swap, task: math, language: swahili, bottom: 1, top: 1 } }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
evaluate: { tasks: [letters.yaml] }
`;
const ROW = "layer-swap-math-x-swahili";

let hub: FakeHub;
const home = at("home");
const commits: Record<string, string> = {};
let bytes = 0;

beforeAll(async () => {
  hub = await FakeHub.start();
  for (const [i, name] of ["base", "math", "swahili"].entries()) {
    await writeByteModel(at("source", name), i + 1);
    commits[name] = hub.push(`org/${name}`, at("source", name));
    bytes += readFileSync(at("source", name, "model.safetensors")).length;
  }
  writeLetters(root);
  writeFileSync(at("plan.yaml"), PLAN);
});
beforeEach(() => {
  hub.requests = [];
  hub.refusals = [];
});

function run(args: readonly string[], env: Record<string, string> = {}): Promise<Outcome> {
  const own = { HF_ENDPOINT: hub.endpoint, HF_HOME: home, HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "", HF_TOKEN: hub.token };
  return layergraft(["experiment", "plan.yaml", ...args], { cwd: root, env: { ...own, ...env } });
}
const exported = (...args: string[]) => run(["export", ROW, ...args]);
const weightsIn = (folder: string) =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true }).filter((name) => String(name).endsWith(".safetensors"))
    : [];
const pushed = (name: string) => {
  const { commits: all, refs } = hub.repositories.get(name) ?? { commits: new Map(), refs: new Map() };
  return (all.get(refs.get("main") ?? "") ?? new Map()) as ReadonlyMap<string, { content: Buffer }>;
};

describe("an experiment with models on the hub", () => {
  it("reads headers in its dry run, downloads in its run, and knows the models again", async () => {
    const before = await run(["--dry-run", "--json"]);
    expect(before.stderr).toBe("");
    const outlook = JSON.parse(before.stdout);
    expect(outlook.downloads).toEqual({
      models: { count: 3, bytes },
      dataSets: { count: 0, bytes: 0 },
      folder: join(home, "hub"),
    });
    expect(weightsIn(home)).toEqual([]);

    const outcome = await run(["run"]);
    expect(outcome.stderr).toMatch(/downloading/);
    expect(outcome.status).toBe(DONE);
    expect(weightsIn(home)).toHaveLength(3);

    hub.requests = [];
    const after = JSON.parse((await run(["--dry-run", "--json"], { HF_HUB_OFFLINE: "1" })).stdout);
    expect(after.downloads.models).toEqual({ count: 0, bytes: 0 });
    // The digests that the hub listed are those of the bytes.
    const keys = (steps: readonly { key: string }[]) => steps.map(({ key }) => key);
    expect(keys(after.steps)).toEqual(keys(outlook.steps));
    expect(after.steps.every(({ state }: { state: string }) => state === "done")).toBe(true);
    expect(hub.requests).toEqual([]);
  });

  it.each([["SIGKILL", null] as const, ["SIGINT", INTERRUPTED] as const])(
    "resumes its download after %s",
    { tags: ["slow"] },
    async (signal, exitStatus) => {
      const other = at(`home-${signal}`);
      const env = { HF_ENDPOINT: hub.endpoint, HF_HOME: other, HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "", HF_TOKEN: "" };
      hub.slow = { bytes: 1000, ms: 30 };
      const { child, ended } = start(["experiment", "plan.yaml", "run", "--out", signal], { cwd: root, env });
      // A file may get its final name between the listing and this.
      const sizeOf = (file: string) => statSync(file, { throwIfNoEntry: false })?.size ?? 0;
      const partial = () =>
        (existsSync(other) ? readdirSync(other, { recursive: true }) : []).filter((name) =>
          /incomplete$/.test(`${name}`),
        );
      while (!partial().some((name) => sizeOf(join(other, String(name))) > 3000)) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      child.kill(signal);
      const outcome = await ended;
      hub.slow = undefined;
      expect(outcome.status).toBe(exitStatus);
      expect(existsSync(at(signal, "steps"))).toBe(false);
      hub.requests = [];
      expect((await run(["run", "--out", signal], { HF_HOME: other })).status).toBe(DONE);
      // From within the weights to their end.
      const last = statSync(at("source/base/model.safetensors")).size - 1;
      const resumed = hub.requests.filter(({ range }) => new RegExp(`^bytes=[1-9]\\d*-${last}$`).test(range ?? ""));
      expect(resumed.length).toBeGreaterThan(0);
      expect(partial()).toEqual([]);
    },
  );

  it("stops when a model changes on the hub between check and download", async () => {
    const other = at("other-home");
    const asked = run(["run", "--out", "moved"], { HF_HOME: other });
    // The weights are fetched after the headers, from the storage.
    const from = hub.requests.length;
    while (!hub.requests.slice(from).some(({ path }) => path.includes("/org/swahili/resolve/"))) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    hub.push("org/swahili", at("source/math"));
    const { status, stderr } = await asked;
    commits.swahili = hub.push("org/swahili", at("source/swahili"));
    expect(stderr).toMatch(/org\/swahili changed on the hub while it was downloaded\. Run it again\./);
    expect(status).toBe(FAILED);
    expectReadable(stderr);
  });
});

describe("a row", () => {
  it("is written and pushed with the commits of its models, and then not again", async () => {
    const outcome = await exported("--out", "merged", "--push", "org/merged", "--private");
    expect(outcome.status).toBe(DONE);
    expect(outcome.stdout).toMatch(/^Wrote merged: /m);
    expect(outcome.stdout).toContain(`Pushed to ${hub.endpoint}/org/merged: `);
    const files = pushed("org/merged");
    expect(files.get("model.safetensors")?.content).toEqual(readFileSync(at("merged/model.safetensors")));
    const { recipe } = JSON.parse(String(files.get("layergraft.json")?.content));
    expect(recipe).toMatchObject({
      method: "swap",
      task: `org/math@${commits.math}`,
      language: `org/swahili@${commits.swahili}`,
    });
    for (const { content } of files.values()) expect(content.includes(root)).toBe(false);
    expect(hub.repositories.get("org/merged")?.private).toBe(true);

    const again = await exported("--out", "merged", "--push", "org/merged");
    expect(again.status).toBe(FAILED);
    expect(again.stderr).toMatch(/merged already exists\. Pass --force/);
    const forced = await exported("--out", "merged", "--push", "org/merged", "--force");
    expect(forced.stdout).toContain("org/merged is already up to date");
  });

  it("has what the report found in its model card, in the same words", () => {
    const card = pushed("org/merged").get("README.md")?.content.toString() ?? "";
    const [, found = ""] = /^## Evaluation with layergraft\n\n([\s\S]+?)\n\n## Use$/m.exec(card) ?? [];
    const report = readFileSync(at("grafts.experiment/report/report.md"), "utf8");
    expect(found).toMatch(/^### letters\n\nPercent right, on 4 items; .+ are tied at 0\.0%\./);
    const [asked = "", sentences = ""] = (found.split("\n")[2] ?? "").split(/(?<=“ab:”) /);
    expect(report).toContain(`\n${asked}\n`);
    expect(report).toContain(`\n${sentences}\n`);
    expect(found.split("\n").filter((line) => line.startsWith("| ")).length).toBeGreaterThan(3);
  });

  it("has the bytes of its recipe, merged from the hub where the cache is empty", async () => {
    const whole = sha256(at("merged/model.safetensors"));
    const recipe = join("grafts.experiment/report/recipes", `${ROW}.yaml`);
    const env = { HF_ENDPOINT: hub.endpoint, HF_HOME: at("empty"), HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "" };
    const merged = await layergraft(["merge", recipe, "--out", "by-recipe"], { cwd: root, env });
    expect(merged.stderr).not.toMatch(/error/);
    expect(sha256(at("by-recipe/model.safetensors"))).toBe(whole);
    const outcome = await run(["export", ROW, "--out", "streamed"], { HF_HOME: at("empty") });
    expect(outcome.stderr).not.toMatch(/error/);
    expect(sha256(at("streamed/model.safetensors"))).toBe(whole);
    expect(weightsIn(at("empty"))).toEqual([]);
  });

  it("is a GGUF file, which is not pushed", async () => {
    const refused = await exported("--format", "gguf", "--out", "merged.gguf", "--push", "org/gguf");
    expect(refused.status).toBe(WRONG_USAGE);
    expect(refused.stderr).toMatch(
      /--push sends a checkpoint\. Leave out --format, or upload the file yourself: hf upload org\/gguf merged\.gguf/,
    );
    expect((await exported("--format", "gguf", "--type", "f16", "--out", "merged.gguf")).status).toBe(DONE);
    expect(readFileSync(at("merged.gguf")).subarray(0, 4).toString()).toBe("GGUF");
    expect(hub.repositories.has("org/gguf")).toBe(false);
  });

  it.each<[string[], number, RegExp, Record<string, string>?]>([
    [["--out", "no", "--private"], WRONG_USAGE, /--private needs --push\./],
    [["--push", "org/no"], WRONG_USAGE, /Missing --out/],
    [["--out", "no", "--push", "no name"], WRONG_USAGE, /"no name" is not the name of a repository/],
    [["--out", "no", "--push", "org/no"], FAILED, /token/, { HF_TOKEN: "" }],
    [["--out", "no", "--push", "org/no"], FAILED, /write/, { HF_TOKEN: "hf_token_that_only_reads" }],
  ])("is not pushed with %j", async (args, status, message, env) => {
    const outcome = await run(["export", ROW, ...args], env);
    expect(outcome.stderr).toMatch(message);
    expect(outcome.status).toBe(status);
    expectReadable(outcome.stderr);
    expect(existsSync(at("no"))).toBe(false);
    expect(hub.repositories.has("org/no")).toBe(false);
  });

  it("keeps what was written when the push fails, and says how to push it", async () => {
    rmSync(at("merged"), { recursive: true });
    hub.refusals = [{ status: 403, path: /\/commit\// }];
    const outcome = await exported("--out", "merged", "--push", "org/refused");
    expect(outcome.status).toBe(FAILED);
    expect(outcome.stderr).toMatch(/merged is complete\. Push it with: layergraft push merged org\/refused/);
    expect(readJson(at("merged/layergraft.json"))).toBeDefined();
  });
});
