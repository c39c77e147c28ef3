// Files that are not of the size that the system gives: pipes and devices.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterAll, expect, it } from "vitest";
import { systemMessage } from "./errors.js";
import { isFile, readBounded } from "./files.js";

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
