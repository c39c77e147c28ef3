// Small programs on the main thread: checkpoints report exactly the finished pieces.
// @module-tag slow
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { CancelledError } from "../../kit/errors.js";
import type { Program } from "./program.js";
import { runProgram } from "./run-program.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-run-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Copies a file of 40 MB: five pieces. */
function copyProgram(): Program {
  const [from, to] = [join(folder, "from"), join(folder, "to")];
  const bytes = 40 * 2 ** 20;
  writeFileSync(from, Buffer.alloc(bytes, 7));
  writeFileSync(to, Buffer.alloc(bytes));
  return {
    inputs: [{ path: from, bytes }],
    outputs: [to],
    jobs: [
      {
        kind: "copy",
        name: "t",
        bytes,
        from: { file: 0, offset: 0, dtype: "U8" },
        to: { file: 0, offset: 0, dtype: "U8" },
      },
    ],
  };
}

test("the last checkpoint has every piece, even if the work ends during a slow flush", async () => {
  const saved: number[] = [];
  await runProgram(copyProgram(), {
    phase: "copying",
    threads: 1,
    checkpointMs: 1,
    onCheckpoint: async (done) => {
      const count = done.reduce((sum, flag) => sum + flag, 0);
      if (saved.length === 0) await sleep(1000); // the work ends meanwhile
      saved.push(count);
    },
  });
  expect(saved[0]).toBeLessThan(5); // the flush did begin before the end
  expect(saved.at(-1)).toBe(5);
});

test("pieces done before are not done again", async () => {
  const done = Uint8Array.of(1, 1, 0, 0, 0);
  const { bytesRead, bytesWritten } = await runProgram(copyProgram(), { phase: "copying", done });
  expect([bytesRead, bytesWritten]).toEqual([24 * 2 ** 20, 24 * 2 ** 20]);
  expect(readFileSync(join(folder, "to")).indexOf(7)).toBe(16 * 2 ** 20);
});

test("an error of onProgress ends the call, whenever it is thrown, and not the process", async () => {
  for (const first of [1, 2]) {
    let calls = 0;
    const run = runProgram(copyProgram(), {
      phase: "copying",
      threads: 1,
      checkpointMs: 1,
      onCheckpoint: async () => sleep(300), // long enough for a report by the timer
      onProgress: () => {
        if (++calls >= first) throw new Error("mine");
      },
    });
    await expect(run).rejects.toThrow("mine");
  }
});

test.skipIf(process.platform === "win32").each([
  ["before it is opened", 0],
  ["while it is open", 1],
])("an output that is deleted %s is an error", async (_, finished) => {
  const program = copyProgram();
  const [to = ""] = program.outputs;
  const run = runProgram(program, {
    phase: "copying",
    threads: 1,
    checkpointMs: 1,
    // Called at the start, and while pieces are copied.
    onProgress: () => finished === 0 && rmSync(to, { force: true }),
    onCheckpoint: async (done) => {
      if (done.reduce((sum, flag) => sum + flag, 0) >= finished) rmSync(to, { force: true });
    },
  });
  await expect(run).rejects.toMatchObject({
    code: "output",
    message: `${to} was deleted during the run. Run again.`,
    where: { file: to },
  });
});

test("a signal stops the work after saving finished pieces", async () => {
  const stop = new AbortController();
  stop.abort();
  let checkpoints = 0;
  const stopped = runProgram(copyProgram(), {
    phase: "copying",
    signal: stop.signal,
    // None by the clock.
    checkpointMs: 3_600_000,
    onCheckpoint: async () => {
      checkpoints++;
    },
  });
  await expect(stopped).rejects.toThrow(CancelledError);
  expect(checkpoints).toBe(1);
});
