// A shell script stands for Python.
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { CancelledError, LayergraftError } from "../../kit/index.js";
import { startTrlRun } from "./start.js";

const root = temporaryFolder();
let folder = root;
beforeEach(() => {
  folder = mkdtempSync(join(root, "run-"));
  writeFileSync(join(folder, "train.py"), "");
});

function interpreter(script: string): string {
  const path = join(folder, "python");
  writeFileSync(path, `#!/usr/bin/env bash\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

it("runs the entry in its folder, by accelerate on several processes", async () => {
  const python = interpreter('echo "$PWD $@" >> ran');
  await startTrlRun({ folder, python });
  await startTrlRun({ folder, python, processes: 2 });
  expect(readFileSync(join(folder, "ran"), "utf8").trim().split("\n")).toEqual([
    `${folder} train.py`,
    `${folder} -m accelerate.commands.launch --config_file accelerate.yaml train.py`,
  ]);
});

it("reports the steps that train.py prints among the lines of its libraries", async () => {
  const entry = readFileSync(join(import.meta.dirname, "../../../assets/trl/train.py"), "utf8");
  const [, printed = ""] = /print\(f"(step .*)", flush=True\)/.exec(entry) ?? [];
  const line = (step: number, loss: string) =>
    printed.replace("{step}", String(step)).replace("{RUN['steps']}", "3").replace("{self.loss:.3f}", loss);
  const lines = ["FutureWarning: 43%|####", line(1, "2.500"), '{"loss": "2.5"}', line(2, "nan")];
  const steps: unknown[] = [];
  const python = interpreter(lines.map((one) => `echo '${one}'`).join("\n"));
  await startTrlRun({ folder, python, onStep: (...step) => steps.push(step) });
  expect(steps).toEqual([
    [1, 3, "2.500"],
    [2, 3, "nan"],
  ]);
});

it("says why it failed", async () => {
  const fails = async (script: string) => startTrlRun({ folder, python: interpreter(script) });
  await expect(fails("echo first; echo out of memory >&2; exit 3")).rejects.toThrow(
    /failed: it printed last:[\s\S]*out of memory/,
  );
  await expect(fails("echo \"ModuleNotFoundError: No module named 'trl'\" >&2; exit 1")).rejects.toThrow(
    /python has no trl; install .*requirements\.txt/,
  );
  await expect(fails("exit 1")).rejects.toThrow(LayergraftError);
  await expect(startTrlRun({ folder, python: join(folder, "none") })).rejects.toThrow(
    /none cannot be started: .*ENOENT/,
  );
  await expect(startTrlRun({ folder: root })).rejects.toThrow(/is not a run for TRL/);
});

it("stops when the signal fires", async () => {
  const controller = new AbortController();
  const python = interpreter("echo 'step 1 of 2, loss 1.000'; sleep 60");
  const started = startTrlRun({ folder, python, signal: controller.signal, onStep: () => controller.abort() });
  await expect(started).rejects.toThrow(CancelledError);
});
