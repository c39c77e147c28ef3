// A run may be stopped at any moment, by anyone and anything: what stands under the output's name is always whole, and
// what a stopped run leaves becomes, with --resume, the same bytes as if nothing had happened.
// @module-tag slow
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { TensorData } from "../src/formats/safetensors/index.js";
import type { END_SIGNALS } from "../src/kit/stopping/index.js";
import { readJson, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import {
  DONE,
  expectReadable,
  FAILED,
  INTERRUPTED,
  layergraft,
  preload,
  type RunOptions,
  slow,
  snapshot,
  start,
} from "./support/command.js";

const MB = 2 ** 20;
const root = temporaryFolder();
const work = join(root, "work");
const out = join(work, "out");
const partial = `${out}.partial`;
const state = join(partial, ".layergraft-run.json");
/** Options of the run that is stopped; one thread, so that it takes a while. */
const SWAP = [
  "swap",
  "--task",
  "../task",
  "--language",
  "../language",
  "--outside",
  "average",
  "--shard-size",
  "35MB",
  "--threads",
  "1",
  "--out",
];
const swap = (...more: string[]) => [...SWAP, "out", ...more];
const options: RunOptions = { cwd: work };
const run = (args: readonly string[]) => layergraft(args, options);

/** Reads that take their time, some thousand of them, so that the journal is written meanwhile. */
const SLOW = preload(slow("readSync", 2), options);

let whole: Record<string, string>; // what an uninterrupted run writes
let seconds: number; // and how long that takes

/** 96 MB of values in BF16: cheap to make, nowhere zero, and no two places alike. */
function bulky(seed: number) {
  const block = randomBytes(MB).map((byte, i) => (i % 2 ? (byte & 0x3f) | 1 : byte));
  return (tensors: TensorData[]) =>
    tensors.map((tensor, i): TensorData => {
      const rows = /embed_tokens|lm_head/.test(tensor.name) ? MB : /gate|up_proj/.test(tensor.name) ? MB / 2 : 0;
      if (rows === 0) return tensor;
      const data = Buffer.alloc(rows * 16, block);
      for (let at = 0; at < data.length; at += 4096) data.writeUInt16LE((seed + i + at / 4096) & 0x3fff, at);
      return { ...tensor, shape: [rows, 8], data };
    });
}

beforeAll(async () => {
  await writeTiny(join(root, "task"), { seed: 1, edit: bulky(1), config: { vocab_size: MB } });
  await writeTiny(join(root, "language"), { seed: 2, edit: bulky(2), config: { vocab_size: MB } });
  // In whole seconds, as a file's time is when a test sets it back.
  for (const name of ["task", "language"]) utimesSync(join(root, name, "model.safetensors"), 1.7e9, 1.7e9);
  mkdirSync(work);
  const begin = performance.now();
  expect((await start(swap(), options).ended).status).toBe(DONE);
  seconds = (performance.now() - begin) / 1000;
  whole = snapshot(out);
});

beforeEach(() => {
  rmSync(work, { recursive: true });
  mkdirSync(work);
});

const doneBits = (folder = partial) =>
  Buffer.from(String(readJson(folder, ".layergraft-run.json").done), "base64").some((bits) => bits !== 0);
const hasNote = () => existsSync(state) && doneBits();
const writtenBytes = () =>
  existsSync(partial)
    ? readdirSync(partial).reduce(
        (sum, name) => sum + (statSync(join(partial, name), { throwIfNoEntry: false })?.blocks ?? 0) * 512,
        0,
      )
    : 0;

async function until(condition: () => boolean): Promise<void> {
  for (let waited = 0; !condition(); waited += 5) {
    if (waited > 20_000) throw new Error("what was waited for did not happen");
    await sleep(5);
  }
}

/** Starts a run and kills it, as a power cut would, when told. */
async function killed(args: readonly string[], when: () => Promise<void>, how: RunOptions = options): Promise<void> {
  const { child, ended } = start(args, how);
  await when();
  child.kill("SIGKILL");
  await ended;
}

async function expectResumed(args = swap("--resume")): Promise<void> {
  const outcome = await run(args);
  expect(outcome).toMatchObject({ status: DONE });
  expect(snapshot(out)).toEqual(whole);
  expect(readdirSync(work)).toEqual(["out"]);
}

it("appears under its name only when it is whole", async () => {
  const { ended } = start(swap(), options);
  await until(() => existsSync(out));
  // It is locked until its run ends.
  const { ".layergraft-lock": _, ...found } = snapshot(out);
  expect(found).toEqual(whole);
  expect((await ended).status).toBe(DONE);
  expect(snapshot(out)).toEqual(whole);
  expect(Object.keys(whole).filter((name) => name.endsWith(".safetensors"))).toHaveLength(3);
  expect(Object.keys(whole)).toContain("layergraft.json");
});

describe("after kill -9", () => {
  const noted = () => until(hasNote);

  // Fractions of a whole run's time: at the start, in the midst, as it ends, and when the journal has been written.
  it.each([0.3, 0.5, 0.7, 0.85, 0.95, 1.05])(
    "at %f of its time, --resume makes the same bytes",
    { tags: ["slow"] },
    async (fraction) => {
      await killed(swap(), () => sleep(seconds * 1000 * fraction));
      if (existsSync(out)) expect(snapshot(out)).toEqual(whole);
      await expectResumed();
    },
  );

  it("with pieces noted in the journal, these are not done again", { tags: ["slow"] }, async () => {
    await killed(swap(), noted, SLOW);
    expect(existsSync(out)).toBe(false);
    // What a kill leaves that comes while the journal or the lock is written.
    writeFileSync(`${state}.0123abcd.tmp`, '{"plan":');
    const lock = join(partial, ".layergraft-lock");
    writeFileSync(lock, "");
    utimesSync(lock, 1.7e9, 1.7e9);
    const outcome = await run(swap("--resume", "--json"));
    const { bytesWritten, resumed } = JSON.parse(outcome.stdout) as { bytesWritten: number; resumed: boolean };
    expect(resumed).toBe(true);
    expect(bytesWritten).toBeLessThan(95 * MB);
    expect(snapshot(out)).toEqual(whole);
  });

  it("again and again, and --resume once more when all is done", { tags: ["slow"] }, async () => {
    await killed(swap(), noted, SLOW);
    const { done } = readJson(state);
    await killed(swap("--resume"), () => sleep(100), SLOW); // before anything of its own
    expect(readJson(state).done).toBe(done);
    await killed(swap("--resume"), () => until(() => hasNote() && readJson(state).done !== done), SLOW);
    await expectResumed();
    const before = statSync(join(out, "layergraft.json")).mtimeMs;
    const again = await run(swap("--resume"));
    expect(again.stdout).toMatch(/is already complete$/m);
    expect(again.status).toBe(DONE);
    expect(statSync(join(out, "layergraft.json")).mtimeMs).toBe(before);
  });

  it("without --resume or --force the next run touches nothing, with --force it starts anew", {
    tags: ["slow"],
  }, async () => {
    await killed(swap(), noted, SLOW);
    const left = snapshot(work);
    const outcome = await run(swap());
    expect(outcome.status).toBe(FAILED);
    expect(outcome.stderr).toMatch(/out\.partial holds an interrupted run\. .*--resume.*--force/);
    expect(snapshot(work)).toEqual(left);
    await expectResumed(swap("--force"));
  });

  it("--resume refuses other options and sources that changed, and goes on when they are back", {
    tags: ["slow"],
  }, async () => {
    await killed(swap(), noted, SLOW);
    const left = snapshot(work);
    const source = join(root, "language", "model.safetensors");
    const others = await run(swap("--resume", "--bottom", "2"));
    expect(others.stderr).toMatch(
      /was started with another recipe, options or sources.*Repeat the options of that run/,
    );
    expect(others.status).toBe(FAILED);
    utimesSync(source, 1.8e9, 1.8e9);
    // Without --resume too, which could not be followed.
    const changed = [await run(swap("--resume")), await run(swap())];
    utimesSync(source, 1.7e9, 1.7e9);
    for (const { stderr, status } of changed) {
      expect(stderr).toMatch(/language\/model\.safetensors changed since the run began/);
      expect(stderr).not.toContain("ass --resume");
      expect(status).toBe(FAILED);
    }
    expect(snapshot(work)).toEqual(left);
    await expectResumed();
  });

  it("a weight file that went missing is written again; a journal that lies is found out by verify", {
    tags: ["slow"],
  }, async () => {
    await killed(swap(), noted, SLOW);
    rmSync(join(partial, readdirSync(partial).find((name) => name.startsWith("model-00001")) ?? ""));
    await expectResumed();

    rmSync(out, { recursive: true });
    await killed(swap(), noted, SLOW);
    const journal = readJson(state);
    const all = Buffer.alloc(Buffer.from(String(journal.done), "base64").length, 0xff).toString("base64");
    writeFileSync(state, JSON.stringify({ ...journal, done: all }));
    expect((await run(swap("--resume"))).status).toBe(DONE);
    const { status, stdout } = await run(["verify", "out"]);
    expect(status).toBe(FAILED);
    expect(stdout).toMatch(
      /\d+ of 39 tensors of out differ from the plan[\s\S]*differs in [\d,]+ elements, the first at index \d/,
    );
  });
});

describe("over an earlier output, with --force", () => {
  const earlier = [...SWAP, "out", "--bottom", "2"];
  const replaced = `${out}.layergraft-replaced`;
  let old: Record<string, string>;

  beforeEach(async () => {
    expect((await run(earlier)).status).toBe(DONE);
    old = snapshot(out);
  });

  it("a kill leaves the old output or the new one, never neither", { tags: ["slow"] }, async () => {
    for (const fraction of [0.4, 0.7, 0.9, 1]) {
      await killed(swap("--force"), () => sleep(seconds * 1000 * fraction));
      expect([old, whole]).toContainEqual(snapshot(out));
    }
    await expectResumed(swap("--force"));
  });

  it("a kill between its two renames loses nothing: the next run gives the old output its name back", {
    tags: ["slow"],
  }, async () => {
    const deadly = preload(
      `
      const { rename } = promises;
      promises.rename = async (from, to) => {
        await rename(from, to);
        if (to.endsWith("replaced")) process.kill(process.pid, "SIGKILL");
      }`,
      options,
    );
    expect((await layergraft(swap("--force"), deadly)).signal).toBe("SIGKILL");
    expect(existsSync(out)).toBe(false);
    expect(snapshot(replaced)).toEqual(old);
    expect((await run(swap())).status).toBe(FAILED);
    expect(snapshot(out)).toEqual(old);
    await expectResumed(swap("--force"));
  });
});

describe("Ctrl-C and a polite kill", () => {
  const stopsAt = async (signal: (typeof END_SIGNALS)[number]) => {
    const { child, ended } = start(swap(), SLOW);
    await until(() => writtenBytes() > 15 * MB);
    child.kill(signal);
    const { status, stderr, stdout } = await ended;
    expect(status).toBe(INTERRUPTED);
    expect(stderr).toMatch(
      /^interrupted: stopped; what was written so far is in .*out\.partial\. Pass --resume to continue, or pass --force to start again\.$/m,
    );
    expectReadable(stderr);
    expect(stdout).toBe("");
    expect(existsSync(out)).toBe(false);
    expect(readdirSync(partial)).not.toContain(".layergraft-lock");
    await expectResumed();
  };
  it("SIGINT: stops, says how to go on, and leaves what was written", () => stopsAt("SIGINT"));
  it.each(["SIGTERM", "SIGHUP"] as const)("%s: the same", { tags: ["slow"] }, stopsAt);
});

it("a second Ctrl-C ends it at once, and the lock that it leaves is taken by the next run", async () => {
  const { child, ended } = start(swap(), SLOW);
  await until(() => writtenBytes() > 5 * MB);
  // Stopped, it has heard neither when both are there.
  child.kill("SIGSTOP");
  child.kill("SIGINT");
  child.kill("SIGTERM");
  child.kill("SIGCONT");
  expect((await ended).signal).toMatch(/SIGINT|SIGTERM|SIGKILL/);
  expect(existsSync(join(partial, ".layergraft-lock"))).toBe(true);
  await expectResumed();
});

it("two runs into one output: the second is refused whatever it says, the first is unharmed", async () => {
  const first = start(swap(), SLOW);
  await until(() => writtenBytes() > 5 * MB);
  for (const more of [[], ["--force"], ["--resume"]]) {
    const second = await run(swap(...more));
    expect(second.status).toBe(FAILED);
    expect(second.stderr).toMatch(/out\.partial is locked by process \d+ on .*; wait for it/);
  }
  expect(await first.ended).toMatchObject({ status: DONE });
  expect(snapshot(out)).toEqual(whole);
});

it("a source that is replaced during the run is noticed, and nothing made of it is kept", async () => {
  const source = join(root, "language", "model.safetensors");
  copyFileSync(source, `${source}.new`);
  renameSync(source, `${source}.old`);
  copyFileSync(`${source}.old`, source);
  const { ended } = start(swap(), SLOW);
  await until(() => writtenBytes() > 5 * MB);
  renameSync(`${source}.new`, source);
  const { status, stderr } = await ended;
  renameSync(`${source}.old`, source);
  expect(stderr).toMatch(/language\/model\.safetensors changed since the run began/);
  expect(status).toBe(FAILED);
  expect(readdirSync(work)).toEqual([]);
});

/** A disk of its own, with so much room, if this machine lets us have one. */
const disk = join(temporaryFolder(), "disk");
const resize = (how: string) => spawnSync("mount", ["-t", "tmpfs", "-o", how, "none", disk]).status === 0;
mkdirSync(disk);
const canMount = resize("size=60m");
afterAll(() => {
  if (canMount) spawnSync("umount", [disk]);
});

describe.skipIf(!canMount)("on a disk that is full (needs the right to mount)", () => {
  const args = (...more: string[]) => [...SWAP.map((arg) => arg.replace("..", root)), join(disk, "out"), ...more];

  it("refuses up front what will not fit", async () => {
    const { status, stderr } = await run(args());
    expect(stderr).toMatch(/the output needs 101 MB, but the disk of .*disk has only 62.9 MB free\. Free some space/);
    expect(status).toBe(FAILED);
    expect(readdirSync(disk)).toEqual([]);
  });

  it("stops when it fills up meanwhile, says so, and goes on when there is room", { tags: ["slow"] }, async () => {
    const optimist = preload(
      `${slow("readSync", 8)}
      promises.statfs = async () => ({ bavail: 1e9, bsize: 4096 });`,
      options,
    );
    const { status, stderr } = await layergraft(args(), optimist);
    expect(stderr).toMatch(
      /^error: the disk is full; what was written so far is in .*Pass --resume to continue, or pass --force to start again\.$/m,
    );
    expectReadable(stderr);
    expect(status).toBe(FAILED);
    expect(readdirSync(disk)).toEqual(["out.partial"]);
    expect(doneBits(join(disk, "out.partial"))).toBe(true);
    const stuck = await layergraft(args("--resume"), optimist);
    expect(stuck.stderr).toMatch(/the disk is full/);
    expect(resize("remount,size=150m")).toBe(true);
    expect((await run(args("--resume"))).status).toBe(DONE);
    const made = snapshot(join(disk, "out"));
    for (const name of Object.keys(whole)) if (name.endsWith(".safetensors")) expect(made[name]).toBe(whole[name]);
    expect(readFileSync(join(disk, "out", "config.json"))).toEqual(readFileSync(join(root, "task", "config.json")));
  });
});
