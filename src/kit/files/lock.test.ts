// Locks: who gets them, from whom, and what the others are told.
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LOCK_FILE, requireUnlocked, takeLock } from "./lock.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "layergraft-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

describe("the lock", () => {
  const lockFile = () => join(folder, LOCK_FILE);

  it("excludes a second process until it is released", async () => {
    const lock = await takeLock(folder);
    await expect(takeLock(folder)).rejects.toThrow(/is locked by process \d+ on .*delete/);
    await expect(requireUnlocked(folder)).rejects.toThrow(/is locked by process \d+ on .*delete/);
    await lock.release();
    await requireUnlocked(folder);
    await (await takeLock(folder)).release();
  });

  it("is all that is in the folder while others try to get it", async () => {
    const lock = await takeLock(folder);
    const seen = new Set<string>();
    let isWaiting = true;
    const refused = expect(Promise.all([takeLock(folder), takeLock(folder)])).rejects.toThrow("is locked by process");
    const ended = refused.finally(() => {
      isWaiting = false;
    });
    // The folder as it is whenever its holder may rename it.
    while (isWaiting) {
      for (const name of readdirSync(folder)) seen.add(name);
      await setImmediate();
    }
    await ended;
    expect([...seen]).toEqual([LOCK_FILE]);
    await lock.release();
  });

  it("is abandoned if its process is gone, or another has its id", async () => {
    const { pid } = process;
    writeFileSync(lockFile(), JSON.stringify({ host: hostname(), pid: 2 ** 22 + 1, born: "1" })); // past Linux's largest
    await (await takeLock(folder)).release();
    writeFileSync(lockFile(), JSON.stringify({ host: hostname(), pid, born: "not then" }));
    await (await takeLock(folder)).release();
  });

  it("is abandoned if it is a link to a device, which has no end", async () => {
    symlinkSync("/dev/zero", lockFile());
    await (await takeLock(folder)).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  it("of another machine is abandoned after a long silence", async () => {
    writeFileSync(lockFile(), JSON.stringify({ host: "elsewhere", pid: 1, born: "1" }));
    await expect(takeLock(folder)).rejects.toThrow(/process 1 on elsewhere, last seen/);
    const old = Date.now() / 1000 - 400;
    utimesSync(lockFile(), old, old);
    await (await takeLock(folder)).release();
  });

  it("of another namespace or boot is abandoned after a long silence", async () => {
    writeFileSync(lockFile(), JSON.stringify({ host: hostname(), pid: 2 ** 22 + 1, born: "1", space: "another" }));
    await expect(takeLock(folder)).rejects.toThrow(/is locked by process 4194305/);
    const old = Date.now() / 1000 - 400;
    utimesSync(lockFile(), old, old);
    await (await takeLock(folder)).release();
  });

  it("that is being written is abandoned after a short silence", async () => {
    writeFileSync(lockFile(), '{"host":');
    await expect(takeLock(folder)).rejects.toThrow("has just started");
    const old = Date.now() / 1000 - 60;
    utimesSync(lockFile(), old, old);
    await (await takeLock(folder)).release();
  });

  it("is not removed by a process that lost it", async () => {
    const lock = await takeLock(folder);
    writeFileSync(lockFile(), "somebody else's");
    await lock.release();
    expect(readFileSync(lockFile(), "utf8")).toBe("somebody else's");
  });
});
