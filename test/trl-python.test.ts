// The line that `train --engine trl` prints, started as a user does, and its losses beside those of the embedded engine.
// LAYERGRAFT_PYTHON names an interpreter with what assets/trl/requirements.txt lists, whose folder has accelerate.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { checkRun, handOverRun } from "#train";
import { writeExample } from "../src/demo/index.js";
import { temporaryFolder } from "./support/checkpoints.js";
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

const CASES = ["full", "lora"].flatMap((method) =>
  (["float32", "bfloat16"] as const).flatMap((precision) =>
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
    const handed = ["train", "run.yaml", ...fields, "--engine", "trl", "--gpus", String(processes), "--out", out];
    const { stdout, stderr, status } = await layergraft(handed, { cwd: world });
    expect({ status, stderr }).toMatchObject({ status: DONE });
    let line = /^Start it with: (.*)$/m.exec(stdout)?.[1] ?? "";
    if (precision === "bfloat16") {
      // A field of plans, which the command line does not have.
      const run = { ...parse(readFileSync(join(world, "run.yaml"), "utf8")), steps: 4, batch: 4, method };
      const folder = `${join(world, out)} b`;
      await handOverRun({ run: { ...checkRun(run), out: folder }, folder: world, cluster: { processes, precision } });
      line = line.replace(join(world, out), folder);
    }
    await promisify(execFile)("bash", ["-c", line], {
      cwd: world,
      maxBuffer: 1 << 26,
      env: {
        ...process.env,
        PATH: `${dirname(python)}${delimiter}${process.env.PATH}`,
        ...{ HF_HOME: join(root, "cache"), OMP_NUM_THREADS: "1", TOKENIZERS_PARALLELISM: "false" },
      },
    });
    const folder = precision === "bfloat16" ? `${out} b` : out;
    const [ours, theirs] = [join(world, "trained"), join(world, folder, "out")].map((at) =>
      steps(join(at, "log.jsonl")),
    );
    expect(theirs).toHaveLength(4);
    const apart = (theirs ?? []).map(({ loss = Number.NaN }, i) => Math.abs(loss - (ours?.[i]?.loss ?? Number.NaN)));
    process.stderr.write(
      `${method} ${precision} ${processes}: ${theirs?.map(({ loss }) => loss?.toFixed(6)).join(" ")}; apart ${Math.max(...apart).toExponential(1)}\n`,
    );
    // On an H100, float32 was 1.5e-7 apart at most, bfloat16 0.014.
    expect(Math.max(...apart)).toBeLessThan(precision === "float32" ? 1e-5 : 0.03);
  },
);
