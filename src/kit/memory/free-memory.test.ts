import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { freemem, tmpdir, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { freeMemory } from "./free-memory.js";

const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

const GB = 1e9;
/** 20 GiB that the machine can give. */
const MACHINE = {
  "proc/meminfo": "MemTotal:       33554432 kB\nMemFree:         1048576 kB\nMemAvailable:   20971520 kB\n",
};
const AVAILABLE = 20 * 2 ** 30;

function freeOn(files: Readonly<Record<string, string>>) {
  const root = mkdtempSync(join(tmpdir(), "layergraft-memory-"));
  roots.push(root);
  for (const [path, text] of Object.entries({ ...MACHINE, ...files })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return freeMemory({ root, platform: "linux", environment: {} });
}

/** Files of a control group. */
const version2 = (folder: string, max: string, current: number, stat = "") => ({
  [join("sys/fs/cgroup", folder, "memory.max")]: `${max}\n`,
  [join("sys/fs/cgroup", folder, "memory.current")]: `${current}\n`,
  [join("sys/fs/cgroup", folder, "memory.stat")]: stat,
});
const version1 = (folder: string, limit: string, usage: number, stat = "") => ({
  [join("sys/fs/cgroup/memory", folder, "memory.limit_in_bytes")]: `${limit}\n`,
  [join("sys/fs/cgroup/memory", folder, "memory.usage_in_bytes")]: `${usage}\n`,
  [join("sys/fs/cgroup/memory", folder, "memory.stat")]: stat,
});

describe("free memory", () => {
  it("is what the machine has available, not what is unused", () => {
    expect(freeOn({})).toEqual({ bytes: AVAILABLE, limit: "machine" });
  });

  it("is what a container's limit leaves, and files in the page cache do not count", () => {
    const stat = `anon ${GB}\nfile 6500000000\nshmem 500000000\ninactive_file ${2 * GB}\nactive_file ${4 * GB}\n`;
    const files = { "proc/self/cgroup": "0::/\n", ...version2("", "8000000000", 7.5 * GB, stat) };
    expect(freeOn(files)).toEqual({ bytes: 6.5 * GB, limit: "container" });
  });

  it("is the machine's where a group has no limit, however much its page cache has", () => {
    const files = { "proc/self/cgroup": "0::/a\n", ...version2("a", "max", 25 * GB), ...version2("", "max", 26 * GB) };
    expect(freeOn(files)).toEqual({ bytes: AVAILABLE, limit: "machine" });
  });

  it("is the least that the groups around a process leave", () => {
    const files = {
      "proc/self/cgroup": "0::/user.slice/job.scope\n",
      ...version2("user.slice/job.scope", "max", 1 * GB),
      ...version2("user.slice", "4000000000", 3 * GB),
    };
    expect(freeOn(files)).toEqual({ bytes: 1 * GB, limit: "container" });
  });

  it("is what memory.high leaves, above which the kernel slows a process down", () => {
    const files = {
      "proc/self/cgroup": "0::/a\n",
      ...version2("a", "8000000000", 1 * GB),
      "sys/fs/cgroup/a/memory.high": "3000000000\n",
    };
    expect(freeOn(files)).toEqual({ bytes: 2 * GB, limit: "container" });
  });

  it("is what version 1 leaves, also where a container sees its own group as the root", () => {
    const stat = `inactive_file 1\ntotal_inactive_file ${GB}\ntotal_active_file ${GB}\n`;
    const files = {
      "proc/self/cgroup": "5:cpu,memory:/docker/0123\n0::/\n",
      ...version1("", "4000000000", 3 * GB, stat),
    };
    expect(freeOn(files)).toEqual({ bytes: 3 * GB, limit: "container" });
  });

  it("is the machine's where version 1 has no limit", () => {
    const files = { "proc/self/cgroup": "4:memory:/a\n", ...version1("a", "9223372036854771712", 30 * GB) };
    expect(freeOn(files)).toEqual({ bytes: AVAILABLE, limit: "machine" });
  });

  it("is nothing where a group is full", () => {
    const files = { "proc/self/cgroup": "0::/\n", ...version2("", "1000000000", 1.5 * GB) };
    expect(freeOn(files)).toEqual({ bytes: 0, limit: "container" });
  });

  it("is nothing where a group may have none", () => {
    const files = { "proc/self/cgroup": "0::/\n", ...version2("", "0", 0) };
    expect(freeOn(files)).toEqual({ bytes: 0, limit: "container" });
  });

  it("is what LAYERGRAFT_MEMORY says", () => {
    expect(freeMemory({ environment: { LAYERGRAFT_MEMORY: "40GB" } })).toEqual({ bytes: 40 * GB, limit: "setting" });
    expect(() => freeMemory({ environment: { LAYERGRAFT_MEMORY: "much" } })).toThrow(
      "LAYERGRAFT_MEMORY is much; it must be a size such as 16GB.",
    );
  });

  it("is the operating system's number elsewhere", () => {
    const windows = freeMemory({ platform: "win32", environment: {} });
    expect(windows.limit).toBe("machine");
    expect(Math.abs(windows.bytes - freemem())).toBeLessThan(totalmem());
    // What a Mac does not use now is a small part of what programs can have.
    expect(freeMemory({ platform: "darwin", environment: {} }).bytes).toBeGreaterThanOrEqual(0.75 * totalmem());
  });
});
