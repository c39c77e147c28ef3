// The ledger through crashes: torn lines, lost blocks; and the lock through runners that live, died, or are elsewhere.
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { LEDGER_FILE, Ledger } from "./ledger.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-ledger-"));
afterAll(() => rmSync(root, { recursive: true }));
let folder = "";
let count = 0;
beforeEach(() => {
  folder = mkdtempSync(join(root, `${count++}-`));
});
const file = () => join(folder, LEDGER_FILE);
const runner = { kind: "local", host: "here", pid: 1 } as const;

async function fill(): Promise<void> {
  const ledger = await Ledger.open(folder);
  await ledger.add({ event: "started", key: "a", label: "first", runner });
  await ledger.add({ event: "done", key: "a", seconds: 1.5, bytes: 10 });
  await ledger.add({ event: "started", key: "b", label: "second", runner });
  await ledger.add({ event: "failed", key: "b", reason: "out of memory", seconds: 2 });
  await ledger.add({ event: "started", key: "c", label: "third", runner });
  await ledger.add({ event: "stopped", key: "c", reason: "Ctrl-C" });
  await ledger.close();
}

describe("the ledger", () => {
  it("says what became of each step", async () => {
    await fill();
    const ledger = await Ledger.read(folder);
    expect(ledger.stateOf("a")).toEqual({ state: "done", attempts: 1, seconds: 1.5, bytes: 10 });
    expect(ledger.stateOf("b")).toEqual({ state: "failed", attempts: 1, reason: "out of memory", seconds: 2 });
    expect(ledger.stateOf("c")).toEqual({ state: "pending", attempts: 0, reason: "Ctrl-C" });
    expect(ledger.stateOf("d")).toEqual({ state: "pending", attempts: 0 });
    expect([...ledger.steps.keys()]).toEqual(["a", "b", "c"]);
  });

  it("keeps what was whole when the last line was torn anywhere, and goes on", async () => {
    await fill();
    const whole = readFileSync(file());
    const ends = [...whole.entries()].filter(([, byte]) => byte === 0x0a).map(([at]) => at + 1);
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: whole.length }), async (length) => {
        writeFileSync(file(), whole);
        truncateSync(file(), length);
        const ledger = await Ledger.open(folder);
        const lines = ends.filter((end) => end <= length).length;
        // Lines 1-2 are of a, 3-4 of b, 5-6 of c.
        expect(ledger.stateOf("a").state).toBe(["pending", "running", "done"][Math.min(2, lines)]);
        expect(ledger.stateOf("b").state).toBe(["pending", "running", "failed"][Math.min(2, Math.max(0, lines - 2))]);
        await ledger.add({ event: "done", key: "z", seconds: 1 });
        await ledger.close();
        expect((await Ledger.read(folder)).stateOf("z").state).toBe("done");
        expect(readFileSync(file(), "utf8").trimEnd().split("\n").length).toBe(lines + 1);
      }),
      { numRuns: 40 },
    );
  });

  it("drops a last line of lost blocks, and refuses damage before it", async () => {
    await fill();
    appendFileSync(file(), Buffer.from([0, 0, 0, 0, 0x0a]));
    const ledger = await Ledger.open(folder);
    expect(ledger.stateOf("b").state).toBe("failed");
    await ledger.close();
    expect(readFileSync(file()).includes(0)).toBe(false);

    const lines = readFileSync(file(), "utf8").split("\n");
    writeFileSync(file(), [lines[0], "nonsense", ...lines.slice(1)].join("\n"));
    await expect(Ledger.open(folder)).rejects.toThrow(/line 2: this is not an event/);
  });

  it("keeps the order of events that are added at once", async () => {
    const ledger = await Ledger.open(folder);
    await Promise.all(Array.from({ length: 50 }, (_, i) => ledger.add({ event: "done", key: `k${i}`, seconds: i })));
    await ledger.close();
    const keys = readFileSync(file(), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => (JSON.parse(line) as { key: string }).key);
    expect(keys).toEqual(Array.from({ length: 50 }, (_, i) => `k${i}`));
  });

  it("is read where there is none", async () => {
    expect((await Ledger.read(folder)).steps.size).toBe(0);
  });
});
