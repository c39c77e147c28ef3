// Binary logs that Inspect wrote (test/fixtures/inspect), and archives that no program should write. The expected p value is scipy's.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32, deflateRawSync } from "node:zlib";
import { afterAll, describe, expect, it } from "vitest";
import { compareResults } from "../compare-results.js";

const FIXTURES = join(import.meta.dirname, "../../../test/fixtures/inspect");
const root = mkdtempSync(join(tmpdir(), "layergraft-inspect-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const fixture = (name: string) => join(FIXTURES, name);
const compared = async (...names: string[]) => (await compareResults({ results: names.map(fixture) })).tasks;

describe("binary logs", () => {
  it("are read with zstd and deflate, as the same log in JSON", async () => {
    const [task] = await compared("first.eval", "second.eval");
    expect(task).toMatchObject({ task: "sums", protocol: "Inspect, version 0" });
    expect(task?.comparisons.map(({ metric, items, first, second }) => [metric, items, first, second])).toEqual([
      ["match", 20, 0.55, 0.8],
      // A sample has NaN in place of a score.
      ["digits", 19, 48 / 19, 48 / 19],
    ]);
    expect(task?.comparisons[0]).toMatchObject({
      gained: ["3", "4", "6", "7", "10", "16", "20"],
      lost: ["12", "13"],
      pValue: expect.closeTo(0.1796875, 12),
    });
    expect(readFileSync(fixture("first.json"), "utf8")).toContain("NaN");
    expect(await compared("first.json", "deflate.eval")).toEqual(await compared("first.eval", "second.eval"));
  });

  it("count each sample once, with the mean of its epochs", async () => {
    const [task] = await compared("first.eval", "epochs.eval");
    expect(task?.comparisons[0]).toMatchObject({ items: 20, second: expect.closeTo(52 / 60, 12), gained: [] });
  });

  it("are told apart by their paths where models have one name", async () => {
    const { methods } = await compareResults({ results: ["first.eval", "second.eval", "epochs.eval"].map(fixture) });
    expect(methods.map(({ name }) => name)).toEqual([
      "mockllm/first (Inspect)",
      `mockllm/second (Inspect), ${fixture("second.eval")}`,
      `mockllm/second (Inspect), ${fixture("epochs.eval")}`,
    ]);
  });

  it("are found in a folder", async () => {
    const folder = join(root, "logs");
    mkdirSync(folder);
    cpSync(fixture("second.eval"), join(folder, "2026_sums.eval"));
    const { tasks } = await compareResults({ results: [fixture("first.eval"), folder] });
    expect(tasks).toEqual(await compared("first.eval", "second.eval"));
    cpSync(fixture("first.eval"), join(folder, "2027_sums.eval"));
    await expect(compareResults({ results: [fixture("first.eval"), folder] })).rejects.toThrow(/has 2 results/);
  });
});

interface File {
  readonly name: string;
  readonly bytes: Buffer;
  readonly method?: number;
  /** What the archive claims. */
  readonly size?: number;
  readonly packedSize?: number;
  readonly checksum?: number;
}

/** A zip archive, which may lie about its files. */
function archive(files: readonly File[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let at = 0;
  for (const { name, bytes, method = 0, size = bytes.length, packedSize = bytes.length, checksum } of files) {
    const fields = Buffer.alloc(26);
    fields.writeUInt16LE(20, 0);
    fields.writeUInt16LE(method, 4);
    fields.writeUInt32LE(checksum ?? crc32(bytes), 10);
    fields.writeUInt32LE(packedSize, 14);
    fields.writeUInt32LE(size, 18);
    fields.writeUInt16LE(Buffer.byteLength(name), 22);
    const local = [Buffer.from("PK\x03\x04"), fields, Buffer.from(name), bytes];
    const place = Buffer.alloc(14);
    place.writeUInt32LE(at, 10);
    directory.push(Buffer.from("PK\x01\x02\x14\x00", "latin1"), fields, place, Buffer.from(name));
    parts.push(...local);
    at += Buffer.concat(local).length;
  }
  const listed = Buffer.concat(directory);
  const end = Buffer.alloc(18);
  end.writeUInt16LE(files.length, 4);
  end.writeUInt16LE(files.length, 6);
  end.writeUInt32LE(listed.length, 8);
  end.writeUInt32LE(at, 12);
  return Buffer.concat([...parts, listed, Buffer.from("PK\x05\x06"), end]);
}

const json = (name: string, value: unknown): File => ({ name, bytes: Buffer.from(JSON.stringify(value)) });
const HEADER = json("header.json", { version: 2, status: "success", eval: { task: "t", model: "m" } });
const sample = (id: number, value: unknown = "C") =>
  json(`samples/${id}_epoch_1.json`, { id, epoch: 1, input: "q", target: "a", scores: { match: { value } } });
/** A frame of zstd (RFC 8878) that unpacks to `count` times the letter a, of which the archive knows nothing. */
const zstdBomb = (count: number) =>
  Buffer.concat([
    Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58]),
    ...Array.from({ length: count / 2 ** 17 }, (_, i) => {
      const header = Buffer.alloc(4, "a");
      header.writeUIntLE(((2 ** 17) << 3) + 2 + Number(i === count / 2 ** 17 - 1), 0, 3);
      return header;
    }),
  ]);

describe("archives of strangers", () => {
  let count = 0;
  const write = (bytes: Buffer): string => {
    const file = join(root, `${count++}.eval`);
    writeFileSync(file, bytes);
    return file;
  };
  const good = write(archive([HEADER, sample(1), sample(2)]));
  const read = (bytes: Buffer) => compareResults({ results: [good, write(bytes)] });

  it("may hold a file twice, of which the last counts, and files that compare does not read", async () => {
    const { tasks } = await read(
      archive([json("../etc/passwd", 1), sample(1, "I"), HEADER, sample(2), sample(1), json("samples/x", "{")]),
    );
    expect(tasks[0]?.comparisons[0]).toMatchObject({ items: 2, first: 1, second: 1 });
  });

  const bomb = deflateRawSync(Buffer.alloc(2_000_000, " "));
  const real = readFileSync(fixture("first.eval"));
  const other = Buffer.from("{}");
  it.each<[string, Buffer, RegExp]>([
    ["no archive", Buffer.from('{"eval": {}}'), /is damaged or is not a log of Inspect/],
    ["an empty file", Buffer.alloc(0), /is damaged or is not a log of Inspect/],
    ["half of an archive", real.subarray(0, real.length / 2), /is damaged or is not a log of Inspect/],
    ["a wrong checksum", archive([HEADER, { ...sample(1), checksum: 7 }]), /\(a checksum is wrong\); copy it again/],
    ["an unknown compression", archive([HEADER, { ...sample(1), method: 14 }]), /is damaged.*compression method: 14/],
    [
      "deflate that unpacks to more than it says",
      archive([HEADER, { ...sample(1), method: 8, bytes: bomb, size: 2_000 }]),
      /is damaged.*too many bytes/,
    ],
    [
      "zstd that unpacks to more than it says",
      archive([HEADER, { ...sample(1), method: 93, bytes: zstdBomb(2 ** 30), size: 2 ** 20 }]),
      /\(a checksum is wrong\)/,
    ],
    [
      "zstd that is longer than what it unpacks to",
      archive([HEADER, { ...sample(1), method: 93, bytes: zstdBomb(2 ** 30), size: 2_000 }]),
      /\(a size is wrong\)/,
    ],
    ["zstd that is not", archive([HEADER, { ...sample(1), method: 93 }]), /is damaged or is not a log of Inspect/],
    [
      "a file that is too large",
      archive([HEADER, { ...sample(1), method: 8, bytes: bomb, size: 300_000_000 }]),
      /has 300 MB in samples\/1_epoch_1\.json, more than compare reads of a log/,
    ],
    [
      "files that are too large together",
      archive([
        HEADER,
        ...Array.from({ length: 101 }, (_, i): File => ({ ...sample(i), method: 8, bytes: bomb, size: 199_000_000 })),
      ]),
      /unpacks to more than 20\.0 GB/,
    ],
    ["a log without an end", archive([sample(1)]), /has no header\.json, so the evaluation did not end/],
    [
      "a log with errors",
      archive([json("header.json", { status: "error", eval: {} }), sample(1)]),
      /is a log with status error; finish it with inspect eval-retry/,
    ],
    ["no samples", archive([HEADER]), /has no samples, which compare needs/],
    [
      "a sample that is not JSON",
      archive([HEADER, { name: "samples/1_epoch_1.json", bytes: other.subarray(0, 1) }]),
      /samples\/1_epoch_1\.json in .* is not valid JSON/,
    ],
    ["a sample without an id", archive([HEADER, json("samples/1_epoch_1.json", {})]), /sample 1 has no id/],
    [
      "a question of many levels",
      archive([
        HEADER,
        {
          name: "samples/1_epoch_1.json",
          bytes: Buffer.from(`{"id": 1, "input": ${"[".repeat(50_000)}${"]".repeat(50_000)}}`),
        },
      ]),
      /sample 1 nests too deeply/,
    ],
  ])("are refused: %s", async (_, bytes, message) => {
    await expect(read(bytes)).rejects.toThrow(message);
  });

  it("are refused with a byte changed in a sample", async () => {
    const changed = Buffer.from(real);
    const at = changed.indexOf("samples/1_epoch_1.json") + 100;
    changed[at] = (changed[at] ?? 0) ^ 255;
    await expect(compareResults({ results: [fixture("second.eval"), write(changed)] })).rejects.toThrow(
      /is damaged or is not a log of Inspect/,
    );
  });

  it("are refused if they are not files", async () => {
    mkdirSync(join(root, "folder.eval"));
    for (const name of ["none.eval", "folder.eval"]) {
      await expect(compareResults({ results: [good, join(root, name)] })).rejects.toThrow(
        `${name} does not exist or is not a file`,
      );
    }
  });
});
