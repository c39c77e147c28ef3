// Files that are not of the size that the system gives: pipes and devices.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, expect, it } from "vitest";
import { systemMessage } from "../errors.js";
import { isFile, makeFolder, pathBeside, readBounded, statFile, withFile, writeFileAtomically } from "./files.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-files-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const tooLarge = () => new Error("too large");

it("reads a file up to its bound", async () => {
  const file = join(folder, "file");
  writeFileSync(file, "abc");
  expect((await readBounded(file, 3, tooLarge)).toString()).toBe("abc");
  await expect(readBounded(file, 2, tooLarge)).rejects.toThrow("too large");
});

it("names what cannot be read", async () => {
  const messageOf = (path: string) => readBounded(path, 1_000_000, tooLarge).catch(systemMessage);
  expect(await messageOf(folder)).toBe(`${folder} is a folder; a file is needed`);
  const socket = join(folder, "socket");
  const server = createServer().listen(socket);
  await once(server, "listening");
  expect(await messageOf(socket)).toBe(`${socket} is a device that is not there, or a socket; give a regular file`);
  server.close();
});

it("bounds a stream", async () => {
  expect((await readBounded(Readable.from([Buffer.from("ab"), Buffer.from("c")]), 3, tooLarge)).toString()).toBe("abc");
  await expect(readBounded(Readable.from([Buffer.from("ab"), Buffer.from("c")]), 2, tooLarge)).rejects.toThrow("large");
});

it.skipIf(process.platform === "win32")("waits for no writer of a pipe (skipped: Windows has none)", async () => {
  const pipe = join(folder, "silent");
  execFileSync("mkfifo", [pipe]);
  expect((await readBounded(pipe, 10, tooLarge)).toString()).toBe("");
  await expect(statFile(pipe)).rejects.toThrow(`${pipe} is not a file`);
  const writer = spawn("sh", ["-c", 'exec 3<>"$0"; sleep 0.1; printf abc >&3; sleep 0.1; printf def >&3', pipe]);
  await once(writer, "spawn");
  expect((await readBounded(pipe, 10, tooLarge)).toString()).toBe("abcdef");
});

it.skipIf(!existsSync("/dev/zero"))("stops reading a device (skipped: there is no /dev/zero)", async () => {
  await expect(readBounded("/dev/zero", 1_000_000, tooLarge)).rejects.toThrow("too large");
  expect(await isFile("/dev/zero")).toBe(false);
});

it.skipIf(process.platform === "win32")("reads a named pipe (skipped: Windows has none)", async () => {
  const pipe = join(folder, "pipe");
  const writer = spawn("sh", ["-c", 'mkfifo "$0" && echo "made" && echo "method: swap" > "$0"', pipe]);
  await new Promise((resolve) => writer.stdout.once("data", resolve));
  expect((await readBounded(pipe, 1000, tooLarge)).toString()).toBe("method: swap\n");
});

it("writes names as long as the file system takes, with temporary names that are no longer", async () => {
  for (const name of ["a".repeat(255), "é".repeat(127), `${"b".repeat(245)}.json`, "c".repeat(120)]) {
    const path = join(folder, name);
    await writeFileAtomically(path, name);
    expect(readFileSync(path, "utf8")).toBe(name);
    const beside = basename(pathBeside(path, ".layergraft-discarded"));
    expect(Buffer.byteLength(beside)).toBeLessThanOrEqual(Math.max(128, Buffer.byteLength(name)));
    expect(beside).toMatch(/^[\w.é-]+\.layergraft-discarded$/);
  }
  expect(pathBeside(join(folder, "short"), ".partial")).toBe(join(folder, "short.partial"));
  const [one, other] = ["1", "2"].map((end) => pathBeside("d".repeat(254) + end, ".partial"));
  expect(one).not.toBe(other);
});

it("names the file of an error while it is written, and what to do", async () => {
  const path = join(folder, "full");
  for (const [code, advice] of [
    ["EFBIG", "is larger than a file may be here. Raise the limit (ulimit -f)"],
    ["ENOSPC", "the disk is full. Free some space"],
    ["EDQUOT", "your disk quota is used up. Free some space"],
  ]) {
    const failing = () => Promise.reject(Object.assign(new Error("write"), { code, syscall: "write" }));
    const error: NodeJS.ErrnoException = await withFile(path, "w", failing).catch((caught) => caught);
    expect(systemMessage(error)).toContain(path);
    expect(systemMessage(error)).toContain(advice);
  }
});

it("says that a file system is read-only, where making folders on the way does not", async () => {
  const made: string[] = [];
  const make = ((path: string, options?: { recursive: boolean }) => {
    if (!options) made.push(path);
    const code = options ? "ENOENT" : "EROFS";
    return Promise.reject(Object.assign(new Error("mkdir"), { code, syscall: "mkdir", path }));
  }) as unknown as Parameters<typeof makeFolder>[1];
  const error: unknown = await makeFolder(join(folder, "new", "inner"), make).catch((caught: unknown) => caught);
  expect(made).toEqual([join(folder, "new")]);
  expect(systemMessage(error as NodeJS.ErrnoException)).toContain("read-only file system");
});
