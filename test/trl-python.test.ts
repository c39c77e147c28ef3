// The line that `train --engine trl` prints, started as a user does, and its losses beside those of the embedded engine.
// LAYERGRAFT_PYTHON names an interpreter with what assets/trl/requirements.txt lists, whose folder has accelerate.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { openSafetensors, readTensor } from "#formats/safetensors";
import { checkRun, handOverRun } from "#train";
import { writeExample } from "../src/demo/index.js";
import { decodeValues, temporaryFolder } from "./support/checkpoints.js";
import { DONE, layergraft } from "./support/command.js";

const python = process.env.LAYERGRAFT_PYTHON;
const MISSING = "LAYERGRAFT_PYTHON does not name a Python with torch, trl, peft and accelerate";

const root = temporaryFolder();
const world = join(root, "example");
const FIELDS = ["--steps", "4", "--batch", "4"];

interface LoggedStep {
  readonly loss?: number;
  readonly gradientNorm?: number;
}

function steps(log: string): readonly LoggedStep[] {
  const lines = readFileSync(log, "utf8").trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as LoggedStep).filter(({ loss }) => loss !== undefined);
}

const environment = (interpreter: string) => ({
  ...process.env,
  PATH: `${dirname(interpreter)}${delimiter}${process.env.PATH}`,
  ...{ HF_HOME: join(root, "cache"), OMP_NUM_THREADS: "1", TOKENIZERS_PARALLELISM: "false" },
});

const CASES = ["full", "lora"].flatMap((method) =>
  (["float32", "mixed", "bfloat16"] as const).flatMap((precision) =>
    [1, 2].map((processes) => ({ method, precision, processes })),
  ),
);

test.for(CASES)(
  "the printed line trains $method in $precision on $processes, with the losses of the embedded engine",
  {
    tags: ["slow", "python"],
    timeout: 600_000,
  },
  async ({ method, precision, processes }, context) => {
    if (!python) return context.skip(MISSING);
    await writeExample(world);
    const fields = [...FIELDS, "--method", method];
    // A name that a shell would take apart.
    const out = `handed over ${method} ${precision} ${processes}`;
    const trained = await layergraft(["train", "run.yaml", ...fields, "--out", "trained", "--force", "-q"], {
      cwd: world,
    });
    expect(trained).toMatchObject({ status: DONE });
    const cluster = ["--engine", "trl", "--gpus", String(processes), "--precision", precision];
    const handed = ["train", "run.yaml", ...fields, ...cluster, "--out", out];
    const { stdout, stderr, status } = await layergraft(handed, { cwd: world });
    expect({ status, stderr }).toMatchObject({ status: DONE });
    const line = /^Start it with: (.*)$/m.exec(stdout)?.[1] ?? "";
    await promisify(execFile)("bash", ["-c", line], {
      cwd: world,
      maxBuffer: 1 << 26,
      env: environment(python),
    });
    const [ours, theirs] = [join(world, "trained"), join(world, out, "out")].map((at) => steps(join(at, "log.jsonl")));
    expect(theirs).toHaveLength(4);
    const apart = (theirs ?? []).map(({ loss = Number.NaN }, i) => Math.abs(loss - (ours?.[i]?.loss ?? Number.NaN)));
    process.stderr.write(
      `${method} ${precision} ${processes}: ${theirs?.map(({ loss }) => loss?.toFixed(6)).join(" ")}; apart ${Math.max(...apart).toExponential(1)}\n`,
    );
    // On an H100, float32 was 1.5e-7 apart at most, mixed 0.014; on a CPU, bfloat16 was 0.032.
    expect(Math.max(...apart)).toBeLessThan({ float32: 1e-5, mixed: 0.03, bfloat16: 0.1 }[precision]);
  },
);

test.for([1, 2])(
  "train.py on %i trains the weights of a mask as the embedded engine does, and no other bit",
  { tags: ["slow", "python"], timeout: 600_000 },
  async (processes, context) => {
    if (!python) return context.skip(MISSING);
    await writeExample(world);
    const fields = [
      ...FIELDS,
      "--save_dtype",
      "float32",
      "--train",
      "all",
      "--optimizer.decay",
      "0.5",
      "--optimizer.lr",
      "1e-3",
    ];
    const go = (...args: string[]) => layergraft(["train", "run.yaml", ...fields, ...args], { cwd: world });
    expect(await go("--out", "first", "--force")).toMatchObject({ status: DONE });
    const mask = ["--mask.from", "first/last", "--mask.share", "0.1"];
    expect(await go(...mask, "--out", "second", "--force")).toMatchObject({ status: DONE });
    const out = `masked ${processes}`;
    const cluster = ["--engine", "trl", "--gpus", String(processes), "--precision", "float32"];
    const { stdout, status } = await go(...mask, ...cluster, "--out", out);
    expect(status).toBe(DONE);
    const line = /^Start it with: (.*)$/m.exec(stdout)?.[1] ?? "";
    await promisify(execFile)("bash", ["-c", line], { cwd: world, maxBuffer: 1 << 26, env: environment(python) });
    const read = async (folder: string) => {
      const file = await openSafetensors(join(world, folder, "model.safetensors"));
      const tensors = await Promise.all(
        file.tensors.map(async (tensor) => {
          return [
            tensor.name,
            Float32Array.from(decodeValues(await readTensor(file, tensor), tensor.dtype as "F32" | "BF16")),
          ] as const;
        }),
      );
      return new Map(tensors);
    };
    const [base, ours, theirs] = await Promise.all(["base", "second/last", join(out, "out/last")].map(read));
    let [inside, outside] = [0, 0];
    for (const [name, start] of base ?? []) {
      for (const [i, before] of start.entries()) {
        const [our, their] = [ours?.get(name)?.[i], theirs?.get(name)?.[i]] as [number, number];
        if (our === before) outside += Number(their === before);
        else inside += Number(Math.abs(our - their) < 1e-5 && their !== before);
      }
    }
    const elements = [...(base ?? [])].reduce((sum, [, { length }]) => sum + length, 0);
    expect({ inside, outside }).toEqual({ inside: Math.floor(0.1 * elements), outside: Math.ceil(0.9 * elements) });
  },
);

test("killed before its first checkpoint, train.py resumes from a state that it wrote by time, to the same bytes", {
  tags: ["slow", "python"],
  timeout: 600_000,
}, async (context) => {
  if (!python) return context.skip(MISSING);
  await writeExample(world);
  const fields = { steps: 40, batch: 4, checkpoints: { every_samples: 100_000, keep: "last" } };
  const run = { ...parse(readFileSync(join(world, "run.yaml"), "utf8")), ...fields };
  const whole = join(world, "whole");
  const { sequences } = await handOverRun({ run: { ...checkRun(run), out: whole }, folder: world });
  expect(sequences).toBe(160);
  const described = JSON.parse(readFileSync(join(whole, "run.json"), "utf8"));
  expect(described.state_minutes).toBe(10);
  writeFileSync(join(whole, "run.json"), JSON.stringify({ ...described, state_minutes: 0 }));
  const killed = join(world, "killed");
  cpSync(whole, killed, { recursive: true });
  const start = (cwd: string) =>
    promisify(execFile)(python, ["train.py"], { cwd, maxBuffer: 1 << 26, env: environment(python) });
  await start(whole);

  const child = spawn(python, ["train.py"], { cwd: killed, env: environment(python), stdio: "ignore" });
  const ended = once(child, "exit");
  const states = () => (existsSync(join(killed, "out/state")) ? readdirSync(join(killed, "out/state")) : []);
  const numbers = () => states().map((name) => Number(name.slice("checkpoint-".length)));
  while (Math.max(0, ...numbers()) < 5 && child.exitCode === null) await sleep(2);
  child.kill("SIGKILL");
  expect((await ended)[1]).toBe("SIGKILL");
  expect(readdirSync(join(killed, "out")).filter((name) => name.startsWith("checkpoint-"))).toEqual([]);
  // What a kill leaves of a state that was being saved.
  mkdirSync(join(killed, "out/state/checkpoint-39"));
  writeFileSync(join(killed, "out/state/checkpoint-39/trainer_state.json"), '{"epoch": 0.');

  const { stdout } = await start(killed);
  const from = Number(/^resumes from step (\d+) of 40$/m.exec(stdout)?.[1]);
  expect(from).toBeGreaterThanOrEqual(1);
  expect(from).toBeLessThan(39);
  for (const name of ["log.jsonl", "last/model.safetensors", "last/training.json"])
    expect(readFileSync(join(killed, "out", name)).equals(readFileSync(join(whole, "out", name))), name).toBe(true);
});
