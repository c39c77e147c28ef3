// Digests of values: known values, and equal whatever the order of fields.
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { CancelledError } from "../errors.js";
import { canonicalJson, digestOf, digestOfFile, digestOfJson, digestOfValue } from "./digest.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-digest-"));
afterEach(() => {
  vi.unstubAllEnvs();
  vi.useRealTimers();
  rmSync(root, { recursive: true, force: true });
});
beforeEach(() => void mkdirSync(root, { recursive: true }));

it("is SHA-256", () => {
  // Source: FIPS 180-2, appendix B.1.
  const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  expect([digestOf("abc"), digestOf(Buffer.from("abc")), digestOfJson("abc") === digestOf('"abc"')]).toEqual([
    abc,
    abc,
    true,
  ]);
});

it("sorts fields at any depth, and no lists", () => {
  const value = JSON.parse('{"b":[{"z":1,"__proto__":2},3],"a":null}');
  expect(canonicalJson({ ...value, c: undefined })).toBe('{"a":null,"b":[{"__proto__":2,"z":1},3]}');
  expect(digestOfValue({ a: 1, b: 2 })).toBe(digestOfValue({ b: 2, a: 1 }));
  expect(digestOfValue([1, 2])).not.toBe(digestOfValue([2, 1]));
});

it("reads a large file once, and again when it changed or was written just now", async () => {
  const file = join(root, "weights");
  const cache = join(root, "cache", "digests");
  vi.stubEnv("LAYERGRAFT_CACHE", join(root, "cache"));
  const write = (byte: number) => {
    writeFileSync(file, Buffer.alloc(2 ** 20, byte));
    utimesSync(file, 1, 1);
    return digestOf(Buffer.alloc(2 ** 20, byte));
  };
  const later = (seconds: number) =>
    vi.useFakeTimers({ toFake: ["Date"], now: statSync(file).ctimeMs + seconds * 1000 });

  const first = write(1);
  later(1);
  expect(await digestOfFile(file)).toBe(first);
  expect(() => readdirSync(cache)).toThrow("ENOENT");

  later(10);
  expect(await digestOfFile(file)).toBe(first);
  const [entry = ""] = readdirSync(cache);
  const kept = readFileSync(join(cache, entry), "utf8");
  // Another digest in its place shows that the file is not read.
  writeFileSync(join(cache, entry), kept.replace(first, "0".repeat(64)));
  expect(await digestOfFile(file)).toBe("0".repeat(64));
  writeFileSync(join(cache, entry), kept.slice(0, -1));
  expect(await digestOfFile(file)).toBe(first);

  // Of the same size and modification time.
  const second = write(2);
  expect(await digestOfFile(file)).toBe(second);
});

it("reads a file where its digest cannot be kept", async () => {
  writeFileSync(join(root, "cache"), "a file");
  const file = join(root, "weights");
  writeFileSync(file, Buffer.alloc(2 ** 20));
  vi.stubEnv("LAYERGRAFT_CACHE", join(root, "cache"));
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 10_000 });
  expect(await digestOfFile(file)).toBe(digestOf(Buffer.alloc(2 ** 20)));
});

it("is that of the JSON text, which is not made as a whole", () => {
  const values: unknown[] = [
    { a: [1, { b: "ü" }] },
    [],
    [[], [[1, [2]], { c: [3] }], undefined, "x"],
    null,
    [undefined],
  ];
  for (const value of values) expect(digestOfJson(value)).toBe(digestOf(JSON.stringify(value)));
});

it("of a file is not read to its end once the signal has fired", async () => {
  const file = join(root, "weights");
  writeFileSync(file, new Uint8Array(2 ** 21));
  const stopped = digestOfFile(file, { signal: AbortSignal.abort() });
  await expect(stopped).rejects.toThrow(CancelledError);
  const read: number[] = [];
  const onRead = (bytes: number) => read.push(bytes);
  await expect(digestOfFile(file, { onRead })).resolves.toBe(digestOf(new Uint8Array(2 ** 21)));
  expect(read).toEqual([2 ** 20, 2 ** 20]);
});
