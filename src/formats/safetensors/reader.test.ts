// Round trips of real files, and distinct errors for missing, damaged and other files.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  entry,
  fileOf,
  metadatas,
  problemOf,
  temporaryFolder,
  tensorLists,
} from "../../../test/support/safetensors-files.js";
import { serializeHeader } from "./header.js";
import { openSafetensors } from "./reader.js";

test("any tensors and data written to a file come back", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "x.safetensors");
  const noise = fc.uint8Array({ minLength: 64, maxLength: 64 });
  await fc.assert(
    fc.asyncProperty(tensorLists, metadatas, noise, async (declared, metadata, noise) => {
      const written = serializeHeader(declared, metadata);
      const data = written.tensors.map(({ bytes }, i) => Buffer.alloc(bytes, noise.subarray(i)));
      await writeFile(path, Buffer.concat([written.bytes, ...data]));

      const file = await openSafetensors(path);
      const content = await readFile(path);
      expect(file.path).toBe(path);
      expect(file.bytes).toBe(content.byteLength);
      expect(Object.entries(file.metadata)).toEqual(Object.entries(metadata));
      expect(file.headerDigest).toBe(createHash("sha256").update(written.bytes).digest("hex"));
      // Empty tensors at one place may come back in another order; those with data may not.
      expect(file.tensors.filter(({ bytes }) => bytes > 0)).toEqual(written.tensors.filter(({ bytes }) => bytes > 0));
      expect(new Set(file.tensors)).toEqual(new Set(written.tensors));
      for (const [i, { name }] of written.tensors.entries()) {
        const { offset, bytes } = file.tensors.find((tensor) => tensor.name === name) ?? { offset: -1, bytes: -1 };
        expect(content.subarray(offset, offset + bytes).equals(data[i] ?? Buffer.of(0))).toBe(true);
      }
    }),
    { numRuns: 150 },
  );
});

test("the digest depends on the header, not on values; the modification time is given", async () => {
  const folder = await temporaryFolder();
  const open = async (header: string, data: number[]) => {
    const path = join(folder, "x.safetensors");
    await writeFile(path, fileOf(header, Uint8Array.from(data)));
    await utimes(path, 1_600_000_000, 1_600_000_000);
    return openSafetensors(path);
  };
  const one = await open(`{${entry("a", "U8", [2], 0, 2)}}`, [1, 2]);
  const sameHeader = await open(`{${entry("a", "U8", [2], 0, 2)}}`, [3, 4]);
  const other = await open(`{${entry("a", "I8", [2], 0, 2)}}`, [1, 2]);
  expect(one.modified).toBe(1_600_000_000_000);
  expect(sameHeader.headerDigest).toBe(one.headerDigest);
  expect(other.headerDigest).not.toBe(one.headerDigest);
});

test("a file cut anywhere is refused", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "x.safetensors");
  const whole = fileOf(`{${entry("a", "F32", [2], 0, 8)}}`, 8);
  await writeFile(path, whole);
  for (let bytes = whole.byteLength - 1; bytes >= 0; bytes--) {
    await truncate(path, bytes);
    const what = bytes < 8 ? /too few for a safetensors file/ : /is cut off/;
    expect(await problemOf(() => openSafetensors(path))).toMatchObject({
      name: "FormatError",
      message: expect.stringMatching(what),
      where: { file: path, actual: `${bytes} bytes` },
    });
  }
});

test("a missing path and one that is not a file are reported", async () => {
  const folder = await temporaryFolder();
  const path = join(folder, "x.safetensors");
  const problem = () => problemOf(() => openSafetensors(path));
  const refused = (what: string) => ({ name: "FormatError", message: `${path} ${what}`, where: { file: path } });

  expect(await problem()).toEqual(refused("does not exist"));
  await symlink("nowhere", path);
  expect(await problem()).toEqual(refused("does not exist"));
  await rm(path);
  await mkdir(path);
  expect(await problem()).toEqual(refused("is not a file"));
});

test.skipIf(process.platform === "win32")("a named pipe is rejected without waiting", async () => {
  const path = join(await temporaryFolder(), "x.safetensors");
  await promisify(execFile)("mkfifo", [path]);
  expect((await problemOf(() => openSafetensors(path))).message).toBe(`${path} is not a file`);
});

test("a Git LFS pointer is reported as one, not as damaged", async () => {
  const path = join(await temporaryFolder(), "model.safetensors");
  await writeFile(path, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4976698672\n");
  await expect(openSafetensors(path)).rejects.toThrow(
    /is a Git LFS pointer, not the weights; fetch them with git lfs pull/,
  );
});
