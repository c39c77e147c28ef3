// The cache keeps what was used last within its limit, and what it has is whole.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { LayergraftError } from "../errors.js";
import { takeLock } from "./lock.js";
import {
  cachedFile,
  cacheEntries,
  clearCache,
  markUsed,
  markWhileHeld,
  modelCacheSettings,
  requireCacheSpace,
} from "./model-cache.js";

let root: string;
let folder: string;
beforeEach(() => {
  root = temporaryFolder();
  folder = join(root, "gguf");
});

const file = (digest: string, bytes: number, written: string[] = []) => ({
  kind: "gguf" as const,
  digest,
  bytes,
  write: async (path: string) => {
    written.push(digest);
    writeFileSync(path, "x".repeat(bytes));
  },
});
const names = () => readdirSync(folder).sort();

/** Uses files in this order, a minute between them. */
async function use(digests: readonly string[], bytes: number, mostBytes: number): Promise<void> {
  for (const [i, digest] of digests.entries()) {
    const path = await cachedFile(file(digest, bytes), { folder: root, mostBytes });
    const time = new Date(2024, 0, 1, 0, i);
    utimesSync(path, time, time);
  }
}

describe("the cache of models", () => {
  it("writes a file once", async () => {
    const written: string[] = [];
    for (const _ of [1, 2]) {
      const path = await cachedFile(file("one", 10, written), { folder: root, mostBytes: 100 });
      expect(readFileSync(path, "utf8")).toBe("x".repeat(10));
    }
    expect(written).toEqual(["one"]);
  });

  it("deletes the least recently used files beyond its limit", async () => {
    await use(["a", "b", "c", "a"], 10, 30);
    await cachedFile(file("d", 10), { folder: root, mostBytes: 30 });
    expect(names()).toEqual(["a.gguf", "c.gguf", "d.gguf"]);
    await cachedFile(file("e", 25), { folder: root, mostBytes: 30 });
    expect(names()).toEqual(["e.gguf"]);
  });

  it("keeps a file that is larger than its limit alone", async () => {
    await use(["a"], 10, 30);
    await cachedFile(file("large", 50), { folder: root, mostBytes: 30 });
    expect(names()).toEqual(["large.gguf"]);
  });

  it("leaves what it did not write, and the run of another process", async () => {
    mkdirSync(join(folder, "running.gguf.partial"), { recursive: true });
    mkdirSync(join(folder, "stopped.gguf.partial"));
    for (const name of ["running", "stopped"]) writeFileSync(join(folder, `${name}.gguf.partial`, "data"), "12345");
    writeFileSync(join(folder, "notes.txt"), "mine");
    const lock = await takeLock(join(folder, "running.gguf.partial"));
    await cachedFile(file("new", 10), { folder: root, mostBytes: 10 });
    expect(names()).toEqual(["new.gguf", "notes.txt", "running.gguf.partial"]);
    await lock.release();
  });

  it("waits for a process that writes the same file, and resumes what a killed one left", async () => {
    mkdirSync(join(folder, "one.gguf.partial"), { recursive: true });
    let attempts = 0;
    const path = await cachedFile(
      {
        ...file("one", 10),
        write: async (out) => {
          expect(existsSync(`${out}.partial`)).toBe(true);
          if (++attempts === 1) throw new LayergraftError("locked", "is locked by process 12");
          writeFileSync(out, "whole");
        },
      },
      { folder: root, mostBytes: 100 },
    );
    expect(readFileSync(path, "utf8")).toBe("whole");
    expect(attempts).toBe(2);
  });

  it("stops waiting when it is cancelled, and passes other errors on", async () => {
    const controller = new AbortController();
    const locked = async () => {
      controller.abort();
      throw new LayergraftError("locked", "is locked by process 12");
    };
    const settings = { folder: root, mostBytes: 100 };
    await expect(cachedFile({ ...file("a", 1), write: locked }, settings, controller.signal)).rejects.toMatchObject({
      code: "cancelled",
    });
    const full = async () => {
      throw new LayergraftError("output", "the disk is full");
    };
    await expect(cachedFile({ ...file("a", 1), write: full }, settings)).rejects.toThrow("the disk is full");
    expect(names()).toEqual([]);
    writeFileSync(join(folder, "taken"), "");
    const refused = cachedFile(file("a", 1), { ...settings, folder: join(folder, "taken") });
    await expect(refused).rejects.toThrow(
      /^the cache cannot be made \(.*part of its path is a file.*Set LAYERGRAFT_CACHE to/,
    );
  });

  it("is read where it is read-only, and names the way out where it has nothing to read", async () => {
    const settings = { folder: root, mostBytes: 100 };
    const path = await cachedFile(file("prepared", 10), settings);
    const user = process.geteuid?.();
    chmodSync(folder, 0o555);
    // Modes do not limit root.
    if (user === 0) {
      for (const above of [root, dirname(root)]) chmodSync(above, 0o755);
      process.seteuid?.(65_534);
    }
    try {
      await expect(cachedFile(file("prepared", 10), settings)).resolves.toBe(path);
      await expect(requireCacheSpace(10, settings)).resolves.toBeUndefined();
      await expect(cachedFile(file("missing", 10), settings)).rejects.toThrow(
        /^the cache .*gguf cannot be written \(.*permission.*\)\. Set LAYERGRAFT_CACHE to a folder that can be written\.$/,
      );
    } finally {
      if (user === 0) process.seteuid?.(0);
      chmodSync(folder, 0o755);
    }
  });

  it("deletes what killed runs have left before whole files, even if it is newer", async () => {
    await use(["a", "b"], 10, 30);
    for (const name of ["killed.gguf.partial", "deleting.gguf.layergraft-discarded"]) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, "data"), "x".repeat(20));
    }
    await cachedFile(file("c", 10), { folder: root, mostBytes: 30 });
    expect(names()).toEqual(["a.gguf", "b.gguf", "c.gguf"]);
  });

  it("has one limit for files of all kinds, and keeps those that a new one is used with", async () => {
    await use(["a", "b"], 10, 30);
    const settings = { folder: root, mostBytes: 30 };
    const weights = await cachedFile({ ...file("c", 10), kind: "weights" }, settings);
    expect(weights).toBe(join(root, "weights", "c.safetensors"));
    await cachedFile({ ...file("d", 20), keep: [join(folder, "a.gguf")] }, settings);
    expect((await cacheEntries(settings)).map(({ path, bytes }) => [path, bytes])).toEqual([
      [join(folder, "a.gguf"), 10],
      [join(folder, "d.gguf"), 20],
    ]);
  });

  it("needs no mark of a file whose date cannot be written, such as another user's", async () => {
    await expect(markUsed(join(folder, "of-nobody.gguf"))).resolves.toBeUndefined();
  });

  it("refuses before the first byte what the disk has no space for", async () => {
    const settings = { folder: root, mostBytes: Number.POSITIVE_INFINITY };
    await use(["a"], 10, 30);
    const written: string[] = [];
    await expect(cachedFile(file("b", 1e18, written), settings)).rejects.toThrow(
      /^the prepared model needs [\d.e+]+ \w+, but the disk of .* free\. Free some space, or set LAYERGRAFT_CACHE/,
    );
    expect(written).toEqual([]);
    expect(names()).toEqual(["a.gguf"]);
  });

  it("has space for what it can hold once all other files are deleted", async () => {
    const settings = { folder: root, mostBytes: 0 };
    await use(["a"], 10, 30);
    await expect(requireCacheSpace(1e18, settings)).rejects.toThrow(/^the prepared model needs 1000 PB, but/);
    await requireCacheSpace(10, settings);
    expect(names()).toEqual(["a.gguf"]);
  });

  it("marks files as used while what they are part of is held", async () => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      await use(["a"], 10, 30);
      const [owner, path] = [{}, join(folder, "a.gguf")];
      const before = statSync(path).mtimeMs;
      markWhileHeld(owner, [path]);
      vi.advanceTimersByTime(60_000);
      await expect.poll(() => statSync(path).mtimeMs).toBeGreaterThan(before);
      expect(owner).toEqual({});
    } finally {
      vi.useRealTimers();
    }
  });

  it("is cleared, but for what another process writes", async () => {
    await use(["a", "b"], 10, 30);
    mkdirSync(join(folder, "running.gguf.partial"));
    const lock = await takeLock(join(folder, "running.gguf.partial"));
    writeFileSync(join(folder, "notes.txt"), "mine");
    const deleted = await clearCache({ folder: root, mostBytes: 30 });
    expect(deleted.map(({ path }) => path)).toEqual([join(folder, "a.gguf"), join(folder, "b.gguf")]);
    expect(names()).toEqual(["notes.txt", "running.gguf.partial"]);
    await lock.release();
  });

  it("reads its folder and size from the environment", () => {
    expect(modelCacheSettings({ XDG_CACHE_HOME: "/x" })).toEqual({ folder: "/x/layergraft", mostBytes: 50e9 });
    expect(modelCacheSettings({ LAYERGRAFT_CACHE: "/y", LAYERGRAFT_CACHE_GB: "0.5" })).toEqual({
      folder: "/y",
      mostBytes: 5e8,
    });
    expect(() => modelCacheSettings({ LAYERGRAFT_CACHE_GB: "much" })).toThrow(/LAYERGRAFT_CACHE_GB is much/);
  });
});
