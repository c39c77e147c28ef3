// layergraft train as a person uses it, in processes of its own: fields and flags, what it shows before it trains, and what
// it leaves when it is killed, interrupted, or finds the disk full. What the numbers are: src/train's own tests.
// @module-tag slow
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "./support/checkpoints.js";
import {
  DONE,
  expectReadable,
  expectRefused,
  FAILED,
  INTERRUPTED,
  layergraft,
  type Outcome,
  preload,
  type RunOptions,
  slow,
  snapshot,
  start,
  WRONG_USAGE,
} from "./support/command.js";
import { FakeHub } from "./support/fake-hub.js";
import { items, writeBase, writeItems } from "./support/world.js";

const root = temporaryFolder();
const work = join(root, "work");
const out = join(work, "out");

// 400 samples in 50 steps, a checkpoint and a state every 13 steps, no two of which are alike.
const RUN = `
base: ../base
out: out
data:
  source: ../data.jsonl
  map: { prompt: "{prompt}", response: " {response}" }
method: full
batch: 4
accumulation: 2
steps: 50
optimizer: { lr: 2.0e-3 }
schedule: { kind: wsd, warmup: 5 }
holdout: { samples: 20 }
checkpoints: { every_samples: 104, keep: all }
threads: 1
seed: 3
`;

const options: RunOptions = { cwd: work };
const train = (...args: string[]): Promise<Outcome> => layergraft(["train", ...args], options);

/** Everything that a run left but its states, whose numbers count how often they were saved. */
function left(folder = out): Record<string, string> {
  const all = Object.entries(snapshot(folder)).filter(([name]) => !name.startsWith("state"));
  const links = ["last", "best"].filter((name) => existsSync(join(folder, name)));
  return {
    ...Object.fromEntries(all),
    ...Object.fromEntries(links.map((name) => [name, readlinkSync(join(folder, name))])),
  };
}

let whole: Record<string, string>; // what an uninterrupted run leaves

beforeAll(async () => {
  writeBase(join(root, "base"));
  writeItems(join(root, "data.jsonl"), items(500));
  mkdirSync(work);
  writeFileSync(join(work, "run.yaml"), RUN);
  expect(await train("run.yaml", "--quiet")).toMatchObject({ status: DONE, stderr: "" });
  whole = left();
  cpSync(out, join(root, "whole"), { recursive: true, verbatimSymlinks: true });
});

beforeEach(() => {
  rmSync(work, { recursive: true });
  mkdirSync(work);
  writeFileSync(join(work, "run.yaml"), RUN);
});

const checkpoints = () =>
  readdirSync(out)
    .filter((name) => /^checkpoint-\d+$/.test(name))
    .sort();
const stepsOf = (folder = out) =>
  existsSync(join(folder, "log.jsonl"))
    ? readFileSync(join(folder, "log.jsonl"), "utf8")
        .split("\n")
        .filter((line) => line.includes('"loss"')).length
    : 0;

async function until(condition: () => boolean): Promise<void> {
  for (let waited = 0; !condition(); waited += 2) {
    if (waited > 20_000) throw new Error("what was waited for did not happen");
    await sleep(2);
  }
}

it("leaves checkpoints, log and the page of losses", () => {
  const names = Object.keys(whole).filter((name) => !name.includes("/"));
  const checkpoints = [104, 208, 312, 400].map((samples) => `checkpoint-${samples}`);
  expect(names.sort()).toEqual([...checkpoints, "best", "last", "log.jsonl", "loss.html"].sort());
  expect([whole.last, whole.best]).toEqual(["checkpoint-400", "checkpoint-400"]);
  for (const name of ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"])
    expect(readFileSync(join(root, "whole", "last", name)), name).toEqual(readFileSync(join(root, "base", name)));
  const page = readFileSync(join(root, "whole", "loss.html"), "utf8");
  for (const text of ["Loss of out", "training", "held out", "Best held out"]) expect(page).toContain(text);
});

/** Kills the process as it gives something a name for the second time, so that there is an earlier one. */
const deadly = (name: RegExp) =>
  preload(
    `
    const { rename } = promises;
    let times = 0;
    promises.rename = async (from, to) => {
      if (${name}.test(to) && ++times === 2) process.kill(process.pid, "SIGKILL");
      return rename(from, to);
    }`,
    options,
  );
/** Kills the process as it logs its fifth step. */
const DEADLY_STEP = preload(
  `
  const { writeSync } = fs;
  let times = 0;
  fs.writeSync = (...range) => (++times === 5 && process.kill(process.pid, "SIGKILL"), writeSync(...range));`,
  options,
);
/** Steps that take their time, so that a signal comes before the end however busy the machine is. */
const SLOW = preload(slow("writeSync", 20), options);

it("killed or stopped wherever and however often, and resumed, makes the same bytes", { tags: ["slow"] }, async () => {
  const resumed = ["train", "run.yaml", "--resume"];
  // Before the first state: the run begins again.
  expect((await layergraft(["train", "run.yaml"], DEADLY_STEP)).signal).toBe("SIGKILL");
  // Steps 13 and 26 have checkpoints; the second is there already, but for its name.
  expect((await layergraft(resumed, deadly(/checkpoint-\d+$/))).signal).toBe("SIGKILL");
  expect([stepsOf(), checkpoints()]).toEqual([26, ["checkpoint-104"]]);

  const { child, ended } = start(resumed, SLOW);
  await until(() => stepsOf() > 28);
  child.kill("SIGINT");
  const { status, stderr, stdout } = await ended;
  expect({ status, stdout }).toEqual({ status: INTERRUPTED, stdout: "" });
  expect(stderr).toMatch(/^interrupted: stopped after step \d+ of 50\. Pass --resume to continue/m);
  expectReadable(stderr);
  const stopped = Number(/stopped after step (\d+)/.exec(stderr)?.[1]);
  expect([stepsOf(), stepsOf() >= 29]).toEqual([stopped, true]);
  await expectRefused(
    [...resumed, "--optimizer.lr", "1e-3", "--holdout.samples", "21"],
    work,
    WRONG_USAGE,
    /^error: a run can only resume unchanged/m,
    /^ {2}- optimizer\.lr was 0\.002 and is 0\.001$/m,
    /^ {2}- holdout\.samples was 20 and is 21$/m,
    /^ {2}- data data has changed since$/m, // what is held out is not trained on
  );

  // As the checkpoint of step 39 becomes the last one, after its state.
  expect((await layergraft(resumed, deadly(/last$|state-\d+$/))).signal).toBe("SIGKILL");
  const last = await layergraft(resumed, options);
  expect(last.status).toBe(DONE);
  expect(last.stdout).toMatch(/^Trained 50 steps, 400 samples, [\d.]+k tokens \(resumed\) in .*$/m);
  expect(left()).toEqual(whole);
  expect(readdirSync(join(out, "state"))).toHaveLength(1);
});

/** A disk of its own, with so much room, if this machine lets us have one. */
const disk = join(temporaryFolder(), "disk");
const mount = (how: string) => spawnSync("mount", ["-t", "tmpfs", "-o", how, "none", disk]).status === 0;
mkdirSync(disk);
const canMount = mount("size=1800k");
afterAll(() => {
  if (canMount) spawnSync("umount", [disk]);
});

it.skipIf(!canMount)("a full disk: the former checkpoint and state stay", async () => {
  const there = join(disk, "out");
  const { status, stderr } = await train("run.yaml", "--out", there);
  expect(status).toBe(FAILED);
  expect(stderr).toMatch(/^error: no room for the (checkpoint|state) .*; free some space, then resume$/m);
  expectReadable(stderr);
  expect(readdirSync(there)).toContain("checkpoint-104");
  expect(readdirSync(join(there, "state"))).toEqual(["state-1"]);
  expect(Object.keys(snapshot(there)).filter((name) => name.endsWith(".partial"))).toEqual([]);
});

it("takes a file of data as it is, and prints what it reads of it", async () => {
  const flags = ["--base", "../base", "--out", "out", "--optimizer.lr", "1e-3"];
  const { status, stdout } = await train("--data", "../data.jsonl", ...flags, "--dry-run");
  expect(status).toBe(DONE);
  expect(stdout).toContain("../data.jsonl: prompt from prompt, response from response; formatted as plain text");
  const pattern = await train("--data", "../*.jsonl", ...flags, "--dry-run");
  expect(pattern.stdout).toContain("../*.jsonl: prompt from prompt, response from response");
  await expectRefused(
    ["train", "--data", "math", ...flags],
    work,
    FAILED,
    /math does not exist\. Pass a file, .* or one of orca-math/,
  );
});

it("has a default learning rate and prints it", async () => {
  const { status, stdout } = await train("--base", "../base", "--data", "../data.jsonl", "--out", "out", "--dry-run");
  expect(status).toBe(DONE);
  expect(stdout).toMatch(
    /^note: learning rate 0\.0007 is the default for full fine-tuning of [\d.]+k parameters \(arXiv 2410\.01335, table 4\); set optimizer\.lr to change it$/m,
  );
});

describe("before it trains", () => {
  it("--dry-run says what would be trained, flags before the file, and leaves nothing", async () => {
    const args = ["run.yaml", "--dry-run", "--method", "lora", "--lora.rank", "4", "--train", "attention of layers 1"];
    const before = snapshot(work);
    const { status, stdout, stderr } = await train(...args, "--steps", "7");
    expect({ status, stderr }).toEqual({ status: DONE, stderr: "" });
    expectReadable(stdout);
    // q: 4 (64 + 64), k and v: 4 (64 + 32), o: 4 (64 + 64)
    expect(stdout).toMatch(/^rank 4 adapter for 4 weights, 1\.79k trained parameters, in layers 1$/m);
    expect(stdout).toMatch(/^\.\.\/data\.jsonl +500 +500 +480 +20 +0 +[\d.]+k +[\d.]+k$/m);
    expect(stdout).toMatch(/^7 steps of 8 sequences of at most 64 tokens$/m);
    expect(stdout).toMatch(/^learning rate 0\.002, wsd, 5 steps of warmup, the last 1 steps? falling as 1-sqrt$/m);
    expect(snapshot(work)).toEqual(before);
  });

  it("--dry-run prints the memory that the run needs, and is refused where the run would be", async () => {
    const { status, stdout } = await train("run.yaml", "--dry-run");
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/^needs about \d+ MB of memory \(.*program \d+ MB\); .* are free$/m);
    const summary = JSON.parse((await train("run.yaml", "--dry-run", "--json")).stdout);
    const { total, ...parts } = summary.memory;
    expect(parts.weights + parts.optimizer + parts.logits + parts.activations + parts.program).toBe(total);
    const small = { ...options, env: { LAYERGRAFT_MEMORY: `${total - 1}` } };
    const refused = await layergraft(["train", "run.yaml", "--dry-run"], small);
    const ran = await layergraft(["train", "run.yaml"], small);
    expect(refused.status).toBe(WRONG_USAGE);
    expect(refused.stderr).toMatch(/^error: Full training of base, 4 x 16 tokens at once, needs about /);
    expect(ran).toEqual(refused);
    // Another machine trains it.
    const elsewhere = await layergraft(["train", "run.yaml", "--dry-run", "--engine", "trl"], small);
    expect([elsewhere.status, elsewhere.stdout.includes("of memory")]).toEqual([DONE, false]);
  });

  it("--preview shows what the model will see, and what of it is learned", async () => {
    const [{ prompt = "", response = "" } = {}] = items(500);
    const color = { ...options, env: { FORCE_COLOR: "1" } };
    const { status, stdout } = await layergraft(["train", "run.yaml", "--preview", "500"], color);
    expect(status).toBe(DONE);
    const shown = stdout.split("\n").filter((line) => line.includes("<s>"));
    expect(shown).toHaveLength(480);
    expect(shown).toEqual(
      expect.arrayContaining([`\u001b[2m<s> ${prompt}\u001b[22m\u001b[32m ${response} </s>\u001b[39m`]),
    );
    // The fields and the template that the texts are from.
    expect(stdout).toMatch(
      /^ {2}\.\.\/data\.jsonl: prompt from \{prompt\}, response from {2}\{response\}; formatted as plain text$/m,
    );
    expect(existsSync(out)).toBe(false);
  });

  it("names the file and the line of rows that are skipped, such as one with a bare NaN, and what to do", async () => {
    const rows = items(9).map((item) => JSON.stringify(item));
    writeFileSync(join(root, "nan.jsonl"), [...rows, '{"prompt": "6 + 1", "response": NaN}'].join("\n"));
    const data = "{source: ../nan.jsonl, map: {prompt: '{prompt}', response: '{response}'}}";
    for (const mode of [["--preview", "1"], ["--dry-run"]]) {
      const { status, stdout } = await train("run.yaml", "--data", data, "--holdout.samples", "2", ...mode);
      expect(status).toBe(DONE);
      expect(stdout).toContain("  ../nan.jsonl: 1 without prompt or response\n");
      expect(stdout).toMatch(/^ {2}\.\.\/nan\.jsonl: fill in or remove rows .* \(first: .*nan\.jsonl, line 10\)$/m);
    }
  });

  it("takes paths of the file from where it is, and those of flags from where the person stands", async () => {
    mkdirSync(join(work, "runs"));
    writeFileSync(join(work, "runs", "run.yaml"), RUN.replace("../base", "../../base"));
    const data = "{source: ../data.jsonl, map: {prompt: '{prompt}', response: ' {response}'}}";
    const given = await train(
      "runs/run.yaml",
      "--data",
      data,
      "--train",
      "norms",
      "--steps",
      "9",
      "--dry-run",
      "--json",
    );
    expect(JSON.parse(given.stdout)).toMatchObject({
      run: { base: "../../base", out: "runs/out", train: "norms", batch: 4 },
      settings: { steps: 9, sequencesPerStep: 8, learningRate: 0.002 },
      trained: expect.arrayContaining(["model.norm.weight", "model.layers.0.input_layernorm.weight"]),
      data: { data: [{ kept: 500, heldOut: 20, emptyRows: 0 }] },
    });
    const alone = await train("--base", "../base", "--data", data, "--out", "alone", "--preset", "math", "--dry-run");
    expect(alone.stdout).toMatch(/^\.\.\/data\.jsonl +500 +500 +500 +0 +0/m);
    // 500 samples in batches of four, at the most that the preset gives to a model of this size.
    expect(alone.stdout).toMatch(
      /^125 steps of 4 sequences of at most 64 tokens\nlearning rate 0\.0007, linear, 13 steps/m,
    );
  });

  it("downloads a base on the hub, of which a dry run reads the headers", async () => {
    const hub = await FakeHub.start();
    hub.push("org/base", join(root, "base"));
    const home = join(root, "hub-home");
    const env = { HF_ENDPOINT: hub.endpoint, HF_HOME: home, HF_HUB_OFFLINE: "0", HF_HUB_CACHE: "", HF_TOKEN: "" };
    const args = ["train", "run.yaml", "--base", "org/base", "--quiet"];
    const weights = () =>
      readdirSync(home, { recursive: true }).filter((name) => String(name).endsWith(".safetensors"));
    expect((await layergraft([...args, "--dry-run"], { ...options, env })).status).toBe(DONE);
    expect(weights()).toEqual([]);
    expect((await layergraft(args, { ...options, env })).status).toBe(DONE);
    expect(weights()).toHaveLength(1);
    const file = "checkpoint-400/model.safetensors";
    expect(left()[file]).toBe(whole[file]);
  });

  it("refuses what is wrong, with all problems and their lines", async () => {
    await expectRefused(["train"], work, WRONG_USAGE, /Missing a run\. Pass a run file, or --base, --data and --out\./);
    writeFileSync(join(work, "wrong.yaml"), RUN.replace("batch: 4", "bach: 4").replace("kind: wsd", "kind: sine"));
    const problems = [
      /line 8: unknown field "bach"; did you mean batch\?/,
      /line 12: schedule\.kind/,
      /save_dtype.*bfloat16/,
    ];
    await expectRefused(["train", "wrong.yaml", "--save_dtype", "int4"], work, WRONG_USAGE, ...problems);
    writeFileSync(join(work, "columns.yaml"), RUN.replace("{prompt}", "{question}"));
    await expectRefused(["train", "columns.yaml"], work, FAILED, /question.*prompt, response/);
  });
});
