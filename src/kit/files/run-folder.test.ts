// Atomic folders: what a reader finds at any moment, whatever happens to the writer.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DiskFullError } from "../errors.js";
import { syncFile, writeFileAtomically } from "./files.js";
import { takeLock } from "./lock.js";
import {
  changesOf,
  checkFolderOutput,
  filesOfRun,
  LockedFolder,
  RunFolder,
  requireOutside,
  writeFolder,
} from "./run-folder.js";

let home: string;
let out: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "layergraft-folder-"));
  out = join(home, "out");
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const fill = (text: string) => async (partial: string) => {
  mkdirSync(join(partial, "inner"));
  writeFileSync(join(partial, "inner", "file"), text);
};
const content = () => readFileSync(join(out, "inner", "file"), "utf8");

describe("writeFolder", () => {
  it("fills nothing where the disk has no space for it", async () => {
    const filled = vi.fn(fill("one"));
    await expect(writeFolder(out, "the test", filled, { bytes: 1e18 })).rejects.toThrow(
      /^the output needs 1000 PB, but the disk of .* has only .* free\. Free some space, or choose another disk\.$/,
    );
    expect(filled).not.toHaveBeenCalled();
    expect(readdirSync(home)).toEqual([]);
  });

  it("leaves nothing but the folder", async () => {
    await writeFolder(out, "the test", fill("one"));
    expect([readdirSync(home), readdirSync(out), content()]).toEqual([["out"], ["inner"], "one"]);
  });

  it("replaces an earlier folder only with replace", async () => {
    await writeFolder(out, "the test", fill("one"));
    await expect(writeFolder(out, "the test", fill("two"))).rejects.toThrow(/out was created by another program/);
    expect(content()).toBe("one");
    await writeFolder(out, "the test", fill("three"), { replace: true });
    expect([readdirSync(home), content()]).toEqual([["out"], "three"]);
  });

  it("keeps the earlier folder and nothing else when the disk is full", async () => {
    await writeFolder(out, "the test", fill("one"));
    const failing = writeFolder(
      out,
      "the test",
      () => Promise.reject(Object.assign(new Error("no space"), { code: "ENOSPC" })),
      { replace: true, retry: "resume" },
    );
    await expect(failing).rejects.toThrow(DiskFullError);
    await expect(failing).rejects.toThrow(/no room for the test in .*; free some space, then resume/);
    expect([readdirSync(home), content()]).toEqual([["out"], "one"]);
  });

  it("names the folder where it was deleted while it was filled, and the file where that was", async () => {
    const partial = `${out}.layergraft-partial`;
    const deleting = async (path: string) => {
      await writeFileAtomically(join(partial, "a"), "");
      rmSync(path, { recursive: true });
      await syncFile(join(partial, "a"));
    };
    for (const path of [partial, join(partial, "a")]) {
      const written = writeFolder(out, "the test", () => deleting(path));
      await expect(written).rejects.toThrow(`${path} was deleted during the run. Run again.`);
    }
    expect(readdirSync(home)).toEqual([]);
  });

  it("starts over after a kill, once the lock is removed", async () => {
    mkdirSync(`${out}.layergraft-partial`);
    writeFileSync(join(`${out}.layergraft-partial`, "half"), "");
    writeFileSync(join(`${out}.layergraft-partial`, ".layergraft-lock"), '{"host":"gone","pid":1,"born":"1"}');
    await expect(writeFolder(out, "the test", fill("one"))).rejects.toThrow(/is locked by process 1 on gone/);
    rmSync(join(`${out}.layergraft-partial`, ".layergraft-lock"));
    await writeFolder(out, "the test", fill("one"));
    expect([readdirSync(home), readdirSync(out)]).toEqual([["out"], ["inner"]]);
  });

  it("keeps the permissions of its files", async () => {
    await writeFolder(out, "the test", async (partial) => {
      writeFileSync(join(partial, "run.sh"), "");
      chmodSync(join(partial, "run.sh"), 0o500);
    });
    expect(statSync(join(out, "run.sh")).mode & 0o777).toBe(0o500);
  });
});

describe("RunFolder", () => {
  it("is locked until it has its name, as another run would empty it", async () => {
    const folder = new RunFolder(out);
    await folder.open();
    writeFileSync(join(folder.partial, "file"), "1");
    // Left by a killed run: its removal takes a while.
    for (let i = 0; i < 500; i++) mkdirSync(join(`${out}.layergraft-replaced`, `${i}`), { recursive: true });
    let ended = false;
    const committed = folder.commit().finally(() => {
      ended = true;
    });
    const codes = new Set<unknown>();
    while (!ended) {
      const another = takeLock(folder.partial).then(() => "taken");
      codes.add(await another.catch((error: NodeJS.ErrnoException) => error.code));
    }
    await committed;
    expect(codes).toContain("locked");
    expect(codes).not.toContain("taken");
    expect(readdirSync(out)).toEqual(["file"]);
  });

  it("keeps the files of an earlier run only to resume, without half-written ones", async () => {
    const folder = new RunFolder(out);
    await folder.open();
    writeFileSync(join(folder.partial, "done"), "1");
    writeFileSync(join(folder.partial, "journal.0123.tmp"), "1");
    await folder.close();
    await folder.open({ resume: true });
    expect(readdirSync(folder.partial).sort()).toEqual([".layergraft-lock", "done"]);
    await folder.close();
    await folder.open();
    expect(readdirSync(folder.partial)).toEqual([".layergraft-lock"]);
    await folder.discard();
    expect(readdirSync(home)).toEqual([]);
  });

  it("removes the run's own files on commit", async () => {
    const folder = new RunFolder(out);
    await folder.open();
    writeFileSync(join(folder.partial, ".layergraft-run.json"), "{}");
    writeFileSync(join(folder.partial, "weights"), "1");
    await folder.commit();
    expect([readdirSync(home), readdirSync(out)]).toEqual([["out"], ["weights"]]);
  });

  it("keeps a file that has its name early beside what a killed run was deleting", async () => {
    mkdirSync(`${out}.layergraft-discarded`);
    writeFileSync(join(`${out}.layergraft-discarded`, "half"), "");
    const folder = new RunFolder(out);
    await folder.open();
    writeFileSync(join(folder.partial, "file"), "whole");
    const { synced } = await folder.commitFileEarly("file");
    await synced;
    expect([readdirSync(home), readFileSync(out, "utf8")]).toEqual([["out"], "whole"]);
  });

  it("does not keep a file that cannot be synced, nor fails for it", async () => {
    const folder = new RunFolder(out);
    await folder.open();
    writeFileSync(join(folder.partial, "file"), "whole");
    const { synced } = await folder.commitFileEarly("file");
    rmSync(out);
    await synced;
    expect(readdirSync(home)).toEqual([]);
  });

  it("restores an output that was being replaced", async () => {
    mkdirSync(`${out}.layergraft-replaced`);
    writeFileSync(join(`${out}.layergraft-replaced`, "old"), "");
    const folder = new RunFolder(out);
    await folder.recover();
    expect([readdirSync(home), readdirSync(out)]).toEqual([["out"], ["old"]]);
  });

  it("is written by one run at a time", async () => {
    const folder = new RunFolder(out);
    await folder.open();
    await expect(new RunFolder(out).open({ resume: true })).rejects.toThrow(/out\.partial is locked by/);
    await expect(folder.requireUnlocked()).rejects.toThrow(/is locked by/);
    await folder.close();
    await folder.requireUnlocked();
    await (await takeLock(folder.partial)).release();
  });
});

describe("what every run refuses", () => {
  const message = (work: Promise<unknown>) =>
    work.then(
      () => "",
      ({ message }: Error) => message,
    );

  it("an input in its folder, also through a link", async () => {
    const input = join(out, "checkpoint-1");
    mkdirSync(input, { recursive: true });
    symlinkSync(out, join(home, "link"));
    const through = join(home, "link", "checkpoint-1");
    expect(await message(requireOutside(out, [through]))).toBe(
      `the input ${through} is inside the output folder ${out}`,
    );
    expect(await message(checkFolderOutput({ out, force: true }, [through], () => true))).toMatch(/is inside/);
    expect(await message(requireOutside(join(home, "link"), [out]))).toMatch(/link is one of the inputs$/);
    // A link is replaced, not what it leads to.
    await requireOutside(join(home, "link"), [out], { replaced: true });
    await requireOutside(`${out}-2`, [out]);
  });

  it("files of others, and what is not a folder", async () => {
    const isRun = (names: readonly string[]) => names.includes("run");
    expect(await filesOfRun(out, "run", isRun)).toEqual([]);
    mkdirSync(out);
    const lock = new LockedFolder(out);
    expect(await lock.locked(() => filesOfRun(out, "run", isRun))).toEqual([]);
    writeFileSync(join(out, "thesis"), "");
    const refusal = `${out} is not empty and has no run in it, but thesis. Choose another folder.`;
    expect(await message(filesOfRun(out, "run", isRun))).toBe(refusal);
    writeFileSync(join(out, "run"), "");
    expect([...(await filesOfRun(out, "run", isRun))].sort()).toEqual(["run", "thesis"]);
    symlinkSync(join(home, "nothing"), join(home, "dangling"));
    for (const path of [join(out, "run"), join(home, "dangling")])
      expect(await message(filesOfRun(path, "run", isRun))).toBe(`${path} already exists and is not a folder`);
  });

  it("another record, with digests shortened", () => {
    const digest = (letter: string) => letter.repeat(64);
    expect(changesOf({ model: digest("a"), seed: 1 }, { model: digest("b"), seed: 1, n: 2 })).toMatchObject([
      { field: "model", text: 'model was "aaaaaaaa..." and is "bbbbbbbb..."' },
      { field: "n", text: "n was missing and is 2" },
    ]);
  });
});

it("leaves the folder of the process that takes the lock as soon as it can", async () => {
  for (let i = 0; i < 20; i++) {
    const [first, second] = [new RunFolder(out), new RunFolder(out)];
    await first.open();
    for (let k = 0; k < 5; k++) writeFileSync(join(first.partial, `${k}`), "of the first");
    const discarded = first.discard();
    for (let isOpen = false; !isOpen; ) {
      isOpen = await second.open().then(
        () => true,
        (error: { readonly code: string }) => {
          expect(error.code).toBe("locked");
          return false;
        },
      );
    }
    writeFileSync(join(second.partial, "0"), "of the second");
    await discarded;
    await sleep(2);
    expect(readFileSync(join(second.partial, "0"), "utf8")).toBe("of the second");
    await expect(second.requireUnlocked()).rejects.toMatchObject({ code: "locked" });
    await second.discard();
    expect(readdirSync(home).filter((name) => name.includes("out"))).toEqual([]);
  }
});
