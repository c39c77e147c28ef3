// Readers against what pyarrow wrote, against JSON.parse, and against a writer of delimited files; and broken files.
// @module-tag slow
import { mkdtempSync, readFileSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, describe, expect, it } from "vitest";
import { readDelimited, splitQuoted } from "./delimited.js";
import { formatOfName, isDataName, localFiles, matcherOf } from "./files.js";
import { readParquet } from "./guarded-parquet.js";
import { type BadRow, type ReadOptions, type Row, readRows } from "./index.js";
import { readJson } from "./json-array.js";
import { decodeParquet } from "./parquet.js";
import type { FileReader, RowBatch } from "./row.js";

const FIXTURES = join(import.meta.dirname, "../../../../test/fixtures/data");
const folder = mkdtempSync(join(tmpdir(), "layergraft-read-"));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
function write(extension: string, content: string | Uint8Array): string {
  const file = join(folder, `${files++}.${extension}`);
  writeFileSync(file, content);
  return file;
}

async function rowsOf(file: string | string[], options?: ReadOptions): Promise<Row[]> {
  const rows: Row[] = [];
  for await (const batch of readRows([file].flat(), options)) rows.push(...batch.rows);
  return rows;
}

/** Bytes in chunks of the given sizes, over and over. */
async function* chunked(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Buffer> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    yield Buffer.from(bytes.subarray(at, at + size));
    at += size;
  }
}

async function collect(reader: FileReader): Promise<{ rows: (Row | string)[]; lines: number[] }> {
  const all = { rows: [] as (Row | string)[], lines: [] as number[] };
  for await (const { found } of reader) {
    all.rows.push(...found.map(({ row }) => row));
    all.lines.push(...found.map(({ line }) => line));
  }
  return all;
}

const chunkSizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 5 });

describe("parquet", () => {
  const written = JSON.parse(readFileSync(join(FIXTURES, "rows.json"), "utf8")) as Row[];

  it.each(["none", "snappy", "gzip", "zstd"])("reads what pyarrow wrote: %s", async (codec) => {
    expect(await rowsOf(join(FIXTURES, `${codec}.parquet`))).toEqual(written);
  });

  it("reads the columns that are asked for, and knows the others", async () => {
    const batches: RowBatch[] = [];
    const columns = ["answer", "translation.eng_Latn", "absent"];
    for await (const batch of readRows([join(FIXTURES, "snappy.parquet")], { columns })) batches.push(batch);
    expect(batches.map(({ lines }) => [lines[0], lines.at(-1)])).toEqual([[1, 25]]);
    expect(batches[0]?.rows[24]).toEqual({
      answer: "Jibu 576",
      translation: { eng_Latn: "line 24", swh_Latn: "mstari 24" },
    });
    expect(batches[0]?.columns).toContain("interactions");
  });

  it("finds the row whose text is not UTF-8", async () => {
    const file = join(FIXTURES, "broken-text.parquet");
    await expect(rowsOf(file)).rejects.toThrow(/broken-text\.parquet, line 2: the text is not UTF-8/);
    const bad: BadRow[] = [];
    const rows = await rowsOf(file, { onBadRow: "skip", onBad: (row) => bad.push(row) });
    expect(rows).toEqual([{ text: "good" }, { text: "also good" }]);
    expect(bad).toMatchObject([{ line: 2 }]);
  });

  it("refuses what is damaged, cut short, or no parquet", async () => {
    const whole = readFileSync(join(FIXTURES, "snappy.parquet"));
    await expect(rowsOf(write("parquet", "no parquet at all"))).rejects.toThrow(/is damaged or is not a parquet file/);
    await expect(rowsOf(write("parquet", ""))).rejects.toThrow(/is damaged or is not a parquet file/);
    const short = write("parquet", whole);
    truncateSync(short, 4000);
    await expect(rowsOf(short)).rejects.toThrow(/is damaged or is not a parquet file/);
    const broken = Buffer.from(whole);
    broken.fill(0xab, 40, 400);
    await expect(rowsOf(write("parquet", broken))).rejects.toThrow(/parquet/);
  });

  /** A run of nulls of any length takes six bytes of a page, whatever its header and the footer say. */
  function nulls(rows: number, claimed: number, run: number): Buffer {
    const varint = (value: number): number[] =>
      value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
    const i32 = (step: number, value: number) => [step * 16 + 5, ...varint(2 * value)];
    const i64 = (step: number, value: number) => [step * 16 + 6, ...varint(2 * value)];
    const text = (value: string) => [value.length, ...Buffer.from(value)];
    const levels = [...varint(run * 2), 0];
    const page = [levels.length, 0, 0, 0, ...levels];
    const pageHeader = [...i32(1, page.length), ...i32(1, page.length)];
    const header = [...i32(1, 0), ...pageHeader, 0x2c, ...i32(1, claimed), ...i32(1, 0), ...i32(1, 3)];
    header.push(...i32(1, 3), 0, 0);
    const bytes = header.length + page.length;
    const column = [...i32(1, 6), 0x19, 0x15, 0, 0x19, 0x18, ...text("a"), ...i32(1, 0), ...i64(1, rows)];
    column.push(...i64(1, bytes), ...i64(1, bytes), ...i64(2, 4), 0);
    const schema = [0x48, ...text("schema"), ...i32(1, 1), 0, ...i32(1, 6), ...i32(2, 1), 0x18, ...text("a"), 0];
    const group = [0x19, 0x1c, ...i64(2, 4), 0x1c, ...column, 0, ...i64(1, 10), ...i64(1, rows), 0];
    const footer = [...i32(1, 1), 0x19, 0x2c, ...schema, ...i64(1, rows), 0x19, 0x1c, ...group, 0];
    return Buffer.from([
      ...Buffer.from("PAR1"),
      ...header,
      ...page,
      ...footer,
      footer.length,
      0,
      0,
      0,
      ...Buffer.from("PAR1"),
    ]);
  }

  it("bounds what a few bytes can claim", { tags: ["slow"] }, async () => {
    expect(await rowsOf(write("parquet", nulls(3, 3, 3)))).toEqual([{ a: null }, { a: null }, { a: null }]);
    const limits = { mebibytes: 64, seconds: 60 };
    for (const bomb of [nulls(2e9, 2e9, 2e9), nulls(3, 2e9, 2e9), nulls(3, 3, 1e9)]) {
      const file = write("parquet", bomb);
      await expect(collect(readParquet(file, undefined, limits))).rejects.toThrow(
        /\.parquet needs more than 64 MiB of memory to decode\. Write it again/,
      );
    }
    await expect(
      collect(readParquet(write("parquet", nulls(3, 3, 3)), undefined, { ...limits, seconds: 0 })),
    ).rejects.toThrow(/needs more than 0 s to decode/);
  });

  it("never hangs or crashes on flipped bytes", async () => {
    const whole = readFileSync(join(FIXTURES, "none.parquet"));
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 1), fc.integer({ min: 1, max: 255 }), async (at, flip) => {
        const broken = Buffer.from(whole);
        broken[at] = (broken[at] ?? 0) ^ flip;
        try {
          await collect(decodeParquet(write("parquet", broken)));
        } catch (error) {
          expect(error).toMatchObject({ name: "DataError" });
        }
      }),
      { numRuns: 40 },
    );
  });
});

describe("JSON", () => {
  const value = fc.jsonValue({ maxDepth: 2 });
  const rows = fc.array(fc.dictionary(fc.string({ unit: "grapheme", maxLength: 5 }), value, { maxKeys: 3 }), {
    maxLength: 6,
  });

  it("reads a list as JSON.parse does, however it is cut and set", async () => {
    await fc.assert(
      fc.asyncProperty(rows, fc.constantFrom(0, 1, 2), chunkSizes, async (list, indent, sizes) => {
        const bytes = Buffer.from(JSON.stringify(list, null, indent));
        expect((await collect(readJson(chunked(bytes, sizes), "f"))).rows).toEqual(JSON.parse(bytes.toString()));
      }),
      { numRuns: 150 },
    );
  });

  it("reads the one list of an object, or the one that is named", async () => {
    await fc.assert(
      fc.asyncProperty(rows, rows, value, chunkSizes, async (list, other, extra, sizes) => {
        const text = JSON.stringify({ 'a"]': { deep: [1, [2]] }, data: list, extra: { x: extra }, other });
        const found = await collect(readJson(chunked(Buffer.from(text), sizes), "f", "data"));
        expect(found.rows).toEqual(JSON.parse(JSON.stringify(list)));
      }),
      { numRuns: 100 },
    );
    const one = write("json", '{"version": "1 [x]", "data": [{"a": 1}\n, {"a": "]"}]}');
    expect(await rowsOf(one)).toEqual([{ a: 1 }, { a: "]" }]);
    const two = write("json", '{"train": [{"a": 1}], "test": []}');
    await expect(rowsOf(two)).rejects.toThrow(/several lists \(train, test\)\. Name the one to read/);
    await expect(rowsOf(two, { field: "dev" })).rejects.toThrow(/no list under "dev"/);
  });

  it("reads JSON Lines under the name .json", async () => {
    expect(await rowsOf(write("json", '{"a": "}{"}\n{"a": 2}\n'))).toEqual([{ a: "}{" }, { a: 2 }]);
  });

  it("names the line of a bad element, and skips it", async () => {
    const file = write("json", '[\n{"a": 1},\n{"a": nope},\n7,\n{"a": 2}\n]');
    await expect(rowsOf(file)).rejects.toThrow(/line 3: it is not valid JSON/);
    const bad: BadRow[] = [];
    expect(await rowsOf(file, { onBadRow: "skip", onBad: (row) => bad.push(row) })).toEqual([{ a: 1 }, { a: 2 }]);
    expect(bad.map(({ line, reason }) => [line, reason])).toEqual([
      [3, expect.stringContaining("not valid JSON")],
      [4, "it is a number, not an object"],
    ]);
  });

  it.each([
    ["", /is empty/],
    ["[{}", /ends in the middle/],
    ['[{"a": "x', /ends in the middle/],
    ["[{}] x", /continues after its end/],
    ["7", /neither a JSON list nor an object/],
    ['{"a": 1}', /has no list of rows/],
  ])("refuses %j", async (text, message) => {
    await expect(rowsOf(write("json", text))).rejects.toThrow(message);
  });
});

describe("JSON Lines", () => {
  it("skips blank lines, takes CR LF, a byte order mark and no last line break", async () => {
    const text = '\ufeff{"a": 1}\r\n\r\n  \n{"a": "\u2028"}';
    expect(await rowsOf(write("jsonl", text))).toEqual([{ a: 1 }, { a: "\u2028" }]);
  });

  it("reads null for NaN and Infinity, which Python writes, outside of texts", async () => {
    const file = write("jsonl", String.raw`{"a": NaN, "b": [-Infinity, 1], "c": "\"NaN\\", "NaN": Infinity}`);
    expect(await rowsOf(file)).toEqual([{ a: null, b: [null, 1], c: '"NaN\\', NaN: null }]);
    await expect(rowsOf(write("jsonl", '{"a": NaNs}'))).rejects.toThrow("line 1: it is not valid JSON");
    // A pattern for a whole string takes time by the square of the length of one without an end.
    const cut = '\\"'.repeat(200_000);
    await expect(rowsOf(write("jsonl", `{"a": NaN, "b": "${cut}`))).rejects.toThrow("line 1: it is not valid JSON");
  });

  it("names file and line of bad rows", async () => {
    const file = write("jsonl", Buffer.from('{"a": 1}\n\n{"a": \n{"a": "\xff"}\n["a"]\nnull\n{"a": 5}', "latin1"));
    await expect(rowsOf(file)).rejects.toThrow(`${file}, line 3: it is not valid JSON`);
    await expect(rowsOf(file)).rejects.toMatchObject({ name: "DataError", line: 3, where: { file } });
    const bad: BadRow[] = [];
    expect(await rowsOf(file, { onBadRow: "skip", onBad: (row) => bad.push(row) })).toEqual([{ a: 1 }, { a: 5 }]);
    expect(bad.map(({ line }) => line)).toEqual([3, 4, 5, 6]);
    expect(bad[1]?.reason).toBe("the text is not UTF-8");
  });

  it("reads many rows in batches of a thousand, several files in order", async () => {
    const lines = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => JSON.stringify({ i: from + i })).join("\n");
    const [first, second] = [write("jsonl", lines(0, 2500)), write("jsonl.gz", gzipSync(lines(2500, 2600)))];
    const sizes: number[] = [];
    for await (const { rows } of readRows([first, second])) sizes.push(rows.length);
    expect(sizes).toEqual([1000, 1000, 500, 100]);
    expect((await rowsOf([first, second])).map(({ i }) => i)).toEqual(Array.from({ length: 2600 }, (_, i) => i));
  });

  it("stops when the signal fires", async () => {
    const signal = AbortSignal.abort();
    await expect(rowsOf(write("jsonl", "{}"), { signal })).rejects.toMatchObject({ name: "CancelledError" });
  });
});

describe("delimited files", () => {
  const cell = fc.string({ unit: fc.constantFrom("a", '"', ",", "\n", "\t", "é", " ", "題"), maxLength: 6 });
  const grid = fc
    .integer({ min: 1, max: 4 })
    .chain((columns) =>
      fc.array(fc.array(cell, { minLength: columns, maxLength: columns }), { minLength: 1, maxLength: 6 }),
    );

  it("reads what a writer of RFC 4180 wrote", async () => {
    await fc.assert(
      fc.asyncProperty(grid, chunkSizes, fc.constantFrom("\n", "\r\n"), async (cells, sizes, end) => {
        const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
        const names = (cells[0] ?? []).map((_, i) => `c${i}`);
        const text = [names, ...cells].map((row) => row.map(quote).join(",")).join(end) + end;
        const options = { delimiter: ",", header: true, quotes: true, allowShort: false };
        const { rows, lines } = await collect(readDelimited(chunked(Buffer.from(text), sizes), "f", options));
        expect(rows.map((row) => Object.values(row))).toEqual(cells);
        // Each row begins where the line breaks before it say.
        let line = 2;
        cells.forEach((row, i) => {
          expect(lines[i]).toBe(line);
          line += 1 + row.join("").split("\n").length - 1;
        });
      }),
      { numRuns: 200 },
    );
  });

  it("splits what is quoted in part, and refuses what does not fit", () => {
    expect(splitQuoted('a,"b,""c""",,d"e', ",")).toEqual(["a", 'b,"c"', "", 'd"e']);
    expect(splitQuoted('"a"b,c', ",")).toBeUndefined();
    expect(splitQuoted('"a', ",")).toBeUndefined();
    expect(splitQuoted("", ",")).toEqual([""]);
  });

  it("takes quotation marks in TSV as they are, names for missing headers, and short lines if asked", async () => {
    const file = write("tsv", '5" disk\tb\t1.5\n"x\ty\n');
    const header = ["one", "two", "three"];
    await expect(rowsOf(file, { header })).rejects.toThrow(/line 2: it has 2 fields where there are 3 columns/);
    expect(await rowsOf(file, { header, allowShort: true })).toEqual([
      { one: '5" disk', two: "b", three: "1.5" },
      { one: '"x', two: "y", three: null },
    ]);
    expect((await rowsOf(file, { header: false, allowShort: true }))[0]).toEqual({
      column1: '5" disk',
      column2: "b",
      column3: "1.5",
    });
  });

  it("refuses columns without end, with and without a header, before any row is made", async () => {
    const wide = Array.from({ length: 300_000 }, (_, i) => `c${i}`).join(",");
    const most = Array.from({ length: 10_000 }, (_, i) => `c${i}`).join(",");
    const problem = "has 300,000 columns; the limit is 10,000. Write a file with only the columns that are read.";
    await expect(rowsOf(write("csv", `${wide}\n1`))).rejects.toThrow(problem);
    await expect(rowsOf(write("tsv", wide.replaceAll(",", "\t")), { header: false })).rejects.toThrow(problem);
    expect(Object.keys((await rowsOf(write("csv", `${most}\n${most}`)))[0] ?? {})).toHaveLength(10_000);
  });

  it("refuses a header that names a column twice, and a quotation mark that is never closed", async () => {
    await expect(rowsOf(write("csv", "a,b,a\n1,2,3"))).rejects.toThrow(/two columns are named "a"/);
    await expect(rowsOf(write("csv", 'a,b\n1,2\n3,"4\n5,6'))).rejects.toThrow(/line 3: a quoted field is not closed/);
  });
});

describe("bytes", () => {
  it("unpacks gzip whatever the name, and several members", async () => {
    const packed = Buffer.concat([gzipSync('{"a":1}\n'), gzipSync('{"a":2}\n')]);
    expect(await rowsOf(write("jsonl", packed))).toEqual([{ a: 1 }, { a: 2 }]);
  });

  it("refuses gzip that is cut short or damaged, and what is packed otherwise", async () => {
    const packed = gzipSync(JSON.stringify({ a: "x".repeat(1000) }));
    await expect(rowsOf(write("jsonl.gz", packed.subarray(0, -9)))).rejects.toThrow(/broken or incomplete gzip/);
    const damaged = Buffer.from(packed).fill(0xff, 12, 20);
    await expect(rowsOf(write("jsonl.gz", damaged))).rejects.toThrow(/broken or incomplete gzip/);
    await expect(rowsOf(write("jsonl", Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0])))).rejects.toThrow(/zstd/);
    await expect(rowsOf(write("jsonl", readFileSync(join(FIXTURES, "none.parquet"))))).rejects.toThrow(/parquet/);
    await expect(rowsOf(write("csv", Buffer.from("\ufeffa,b", "utf16le")))).rejects.toThrow(/UTF-16/);
  });

  it("refuses a row that is longer than any model reads, in every format, before it is held", {
    tags: ["slow"],
  }, async () => {
    const long = "a".repeat(60_000_000);
    const advice = "has more than 8.00 MB. Split its text into several rows, or remove it.";
    const cases: [string, string, string][] = [
      ["jsonl", `{"text":"b"}\n{"text":"${long}"}`, `line 2: the line ${advice}`],
      ["txt", `b\n${long}`, `line 2: the line ${advice}`],
      ["tsv", `text\n${long}`, `line 2: the line ${advice}`],
      ["csv", `text\n"${long}"`, `line 2: the record (is a quotation mark not closed?) ${advice}`],
      ["json", `[{"text":"b"},\n{"text":"${long}"}]`, `line 2: the element ${advice}`],
    ];
    for (const [extension, content, message] of cases) {
      const file = write(extension, content);
      await expect(rowsOf(file)).rejects.toThrow(`${file}, ${message}`);
    }
  });

  it("refuses a long text of a parquet file, or skips its row", async () => {
    const text = ["a", "b".repeat(9_000_000), "c"];
    const file = write("parquet", new Uint8Array(parquetWriteBuffer({ columnData: [{ name: "text", data: text }] })));
    await expect(rowsOf(file)).rejects.toThrow(`${file}, line 2: a text has more than 8.00 MB. Correct the file`);
    expect(await rowsOf(file, { onBadRow: "skip" })).toEqual([{ text: "a" }, { text: "c" }]);
  });
});

describe("files", () => {
  it("tells formats by names", () => {
    expect(
      ["a.parquet", "a.JSONL.gz", "a.ndjson", "a.json", "a.tsv.gz", "a.csv", "a.txt", "a.gz", "a"].map(formatOfName),
    ).toEqual(["parquet", "jsonl", "jsonl", "json", "tsv", "csv", "text", undefined, undefined]);
    expect(formatOfName("a.constructor")).toBe(undefined);
    expect(["x/dataset_infos.json", "README.txt", ".hidden.json", "x/train.json"].map(isDataName)).toEqual([
      false,
      false,
      false,
      true,
    ]);
  });

  it("finds files, folders and patterns, sorted by name, and says what there is", async () => {
    const root = join(folder, "tree");
    await mkdir(join(root, "b/.cache"), { recursive: true });
    for (const name of ["b/2.jsonl", "b/10.jsonl", "a.json", "Z.csv", "notes.md", "b/.cache/x.json"])
      writeFileSync(join(root, name), "");
    symlinkSync("2.jsonl", join(root, "b/link.jsonl"));
    symlinkSync("nowhere", join(root, "b/dangling.jsonl"));
    const under = (names: string[]) => names.map((name) => join(root, name));
    expect(await localFiles(root)).toEqual(under(["Z.csv", "a.json", "b/10.jsonl", "b/2.jsonl", "b/link.jsonl"]));
    expect(await localFiles(join(root, "b/*.jsonl"))).toEqual(under(["b/10.jsonl", "b/2.jsonl", "b/link.jsonl"]));
    expect(await localFiles(join(root, "**/{a,1*}.json*"))).toEqual(under(["a.json", "b/10.jsonl"]));
    expect(await localFiles(join(root, "absent"))).toBeUndefined();
    await expect(localFiles(join(root, "*.parquet"))).rejects.toThrow(/matches no file; .* has Z\.csv, a\.json/);
    await mkdir(join(root, "empty"));
    await expect(localFiles(join(root, "empty"))).rejects.toThrow(/has no data file/);
  });

  it("names the way out of Arrow files and folders of save_to_disk", async () => {
    const root = join(folder, "arrow");
    const splits = join(root, "two");
    await mkdir(join(splits, "test"), { recursive: true });
    await mkdir(join(root, "one"));
    for (const at of ["one", "two/test"]) {
      writeFileSync(join(root, at, "data-00000-of-00001.arrow"), Buffer.from([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]));
      writeFileSync(join(root, at, "state.json"), "{}");
    }
    writeFileSync(join(splits, "dataset_dict.json"), JSON.stringify({ splits: ["test"] }));
    const one = join(root, "one");
    await expect(localFiles(one)).rejects.toThrow(`load_from_disk("${one}").to_parquet("${one}.parquet")`);
    await expect(localFiles(splits)).rejects.toThrow(`load_from_disk("${splits}")["test"].to_parquet(`);
    const file = join(one, "data-00000-of-00001.arrow");
    await expect(rowsOf(file)).rejects.toThrow(`Dataset.from_file("${file}").to_parquet(`);
    for (const bytes of [[0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0], Buffer.from("ARROW1\0\0")])
      await expect(rowsOf(write("jsonl", Buffer.from(bytes)))).rejects.toThrow("Arrow");
  });

  it("matches patterns", () => {
    const cases: [string, string, boolean][] = [
      ["data/train-*", "data/train-0.parquet", true],
      ["data/train-*", "data/x/train-0.parquet", false],
      ["**/*.json", "a.json", true],
      ["**/*.json", "x/y/a.json", true],
      ["**", "x/y", true],
      ["a?c.[jt]sv", "abc.tsv", true],
      ["a[!b]c", "abc", false],
      ["a.c", "abc", false],
      ["{a,b}/*", "b/x", true],
      ["(a|b)+", "(a|b)+", true],
      [".hidden/*", ".hidden/a.json", true],
    ];
    for (const [pattern, path, expected] of cases)
      expect([pattern, path, matcherOf(pattern)(path)]).toEqual([pattern, path, expected]);
    expect(() => matcherOf("*a*a*a*a*a*a*a*a*a*b")).toThrow(/too many wildcards/);
    expect(() => matcherOf("[z-a]")).toThrow(/not a valid pattern/);
  });
});
