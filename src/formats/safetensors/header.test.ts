// Headers of damaged and hostile files, and round trips of written headers.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  DTYPES,
  entry,
  fileOf,
  metadatas,
  type Problem,
  parseFile,
  problemOf,
  tensorLists,
} from "../../../test/support/safetensors-files.js";
import { DTYPE_BITS } from "../../kit/dtype.js";
import { FormatError } from "../../kit/errors.js";
import { MAX_HEADER_BYTES, parseHeader, parseHeaderLength, serializeHeader } from "./header.js";
import { quote } from "./header-json.js";

/** Expects `file` to be refused with a message that names it and says `what`. */
async function refused(file: Uint8Array, what: RegExp, where: Problem["where"] = {}): Promise<void> {
  const problem = await problemOf(() => parseFile(file));
  expect(problem).toMatchObject({ name: "FormatError", where: { file: "x.safetensors", ...where } });
  expect(problem.message).toMatch(what);
  expect(problem.message).toMatch(/^x\.safetensors/);
  expect(problem.message.length).toBeLessThan(600);
}

describe("the length of the header", () => {
  const withLength = (length: bigint, rest = 2): Buffer => {
    const file = Buffer.alloc(8 + rest, "{}");
    file.writeBigUInt64LE(length);
    return file;
  };

  test.each([0, 1, 7])("a file of %i bytes is too short", async (bytes) => {
    await refused(Buffer.alloc(bytes), /too few for a safetensors file; fetch/, { actual: `${bytes} bytes` });
  });

  test.each([BigInt(MAX_HEADER_BYTES) + 1n, 2n ** 32n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n])(
    "%i is over the limit",
    async (length) => {
      await refused(withLength(length), /declares a header of \d+ bytes, over the limit of 100000000/, {
        expected: "at most 100000000",
        actual: String(length),
      });
    },
  );

  test.each([
    [3n, 11],
    [100_000_000n, 100_000_008],
  ])("%i is over the file", async (length, needed) => {
    await refused(withLength(length), /is cut off: its header needs/, {
      expected: `${needed} bytes`,
      actual: "10 bytes",
    });
  });

  test("is read as unsigned little-endian, also inside a larger buffer, up to the end of the file", () => {
    const buffer = Buffer.concat([Buffer.alloc(3, 0xff), Buffer.from([2, 1, 0, 0, 0, 0, 0, 0])]);
    expect(parseHeaderLength(buffer.subarray(3), 8 + 258, "x")).toBe(258);
    expect(parseHeaderLength(withLength(100_000_000n).subarray(0, 8), 100_000_008, "x")).toBe(MAX_HEADER_BYTES);
  });
});

describe("text that is not the JSON of a header", () => {
  const begin = /does not begin with '\{'/;
  const json = /the safetensors header is not valid: /;
  test.each<[string, string | Uint8Array, RegExp]>([
    ["no bytes", "", begin],
    ["a byte order mark", "\ufeff{}", begin],
    ["leading space", " {}", begin],
    ["an array", "[]", begin],
    ["a byte that is never UTF-8", Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), /header is not UTF-8/],
    ["a surrogate encoded as UTF-8", Buffer.from([0x7b, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x7d]), /header is not UTF-8/],
    ["an overlong quote", Buffer.from([0x7b, 0xc0, 0xa2, 0x7d]), /header is not UTF-8/],
    ["a second object", "{}{}", json],
    ["padding with NUL", "{}\0", json],
    ["no end", "{", json],
    ["a key without quotes", "{a:1}", json],
    ["a key without end", '{"a', json],
    ["a backslash at the end", '{"a\\', json],
    ["an unknown escape", '{"\\x":1}', json],
    ["a bare line break in a string", '{"\n":1}', json],
    ["no value", '{"a":}', json],
    ["no colon", '{"a" 1}', json],
    ["a comma too many", '{"a":1,}', json],
    ["a comma too many in an array", '{"a":[1,]}', json],
    ["no comma", '{"a":[1 2]}', json],
    ["a leading zero", '{"a":01}', json],
    ["a plus", '{"a":+1}', json],
    ["NaN", '{"a":NaN}', json],
    ["a comment", "{/**/}", json],
    ["space that JSON does not know", "{\u00a0}", json],
    ["half a surrogate pair in a name", '{"\\ud800":1}', /a name that is not Unicode text/],
    ["a pair the wrong way round", '{"__metadata__":{"a":"\\udc00\\ud800"}}', /value is not Unicode text/],
  ])("%s", async (_, header, what) => {
    await refused(fileOf(header), what);
  });

  test.each<[string, string]>([
    ["a tensor", `{${entry("a", "U8", [1], 0, 1)},${entry("a", "U8", [1], 0, 1)}}`],
    ["a tensor, once escaped", `{${entry("a", "U8", [1], 0, 1)},"\\u0061":{}}`],
    ["__metadata__", '{"__metadata__":{},"__metadata__":{}}'],
    ["__metadata__, once escaped", '{"__metadata__":{},"\\u005f_metadata__":{}}'],
    ["a key of the metadata", '{"__metadata__":{"a":"1","\\u0061":"2"}}'],
    ["the dtype of a tensor", '{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}'],
    ["the offsets of a tensor, once escaped", '{"a":{"data_offsets":[0,1],"data_offset\\u0073":[0,1]}}'],
    ["__proto__", '{"__metadata__":{"__proto__":"1","__proto__":"2"}}'],
  ])("%s twice", async (_, header) => {
    await refused(fileOf(header, 1), /a key is repeated;/);
  });

  test("a million brackets end in an error, not in an overflow of the stack", async () => {
    await refused(fileOf(`{"a":${"[".repeat(1e6)}`), json);
    await refused(fileOf('{"a":'.repeat(2e5)), json);
  });

  test("endless strings and numbers are read, and cut short in messages", async () => {
    const name = "k".repeat(2e6);
    const file = fileOf(`{${JSON.stringify(name)}:{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1);
    expect(parseFile(file).tensors[0]?.name).toBe(name);
    await refused(file.subarray(0, -1), /is cut off/);
    await refused(fileOf(`{"${name}":1}`), /tensor "k{200}…" is not described/, { tensor: name });
    await refused(fileOf(`{"${"\\u0041".repeat(1e6)}":1}`), /tensor "A{200}…"/);
    await refused(fileOf(`{"a":1,"${name}":1,"${name}":2}`), /a key is repeated/);
    await refused(fileOf(`{"${name}`), json);
    await refused(fileOf(`{"a":{"dtype":"${name}"}}`), /unknown dtype "k{200}…"/);
    await refused(fileOf(`{"a":{"dtype":"U8","shape":[${"9".repeat(2e6)}]}}`), /a shape that is not a list/);
    await refused(fileOf(`{"a":{"dtype":"U8","shape":[${"2,".repeat(1e5)}2],"data_offsets":[0,1]}}`), /100001 axes/);
  });

  test("names cannot steer a terminal", async () => {
    const name = "\u001b[2J\u009b2J\u202e\u2028";
    await refused(fileOf(`{${JSON.stringify(name)}:1}`), /tensor "\\u001b\[2J\\u\{9b\}2J\\u\{202e\}\\u\{2028\}" is/);
    expect(quote("é 日本 😀")).toBe('"é 日本 😀"');
  });
});

describe("impossible tensors", () => {
  const whole = /shape that is not a list of whole numbers from 0 to 2\^53 - 1;/;
  const offsets = /data_offsets that are not two whole numbers from 0 to 2\^53 - 1;/;
  const one = (fields: string) => `{"t":{${fields}}}`;
  const shaped = (extent: string) => one(`"dtype":"U8","shape":[${extent}],"data_offsets":[0,4]`);
  const ranged = (range: string) => one(`"dtype":"U8","shape":[4],"data_offsets":${range}`);

  const numbers = ["-1", "-0", "4.5", "1e400", "9007199254740992", "18446744073709551616", '"4"', "null"];
  test.each([...numbers, "true", "[4]", "{}"])("%s as an extent or an offset", async (number) => {
    await refused(fileOf(shaped(number), 4), whole, { tensor: "t" });
    await refused(fileOf(ranged(`[0,${number}]`), 4), offsets, { tensor: "t" });
    await refused(fileOf(ranged(`[${number},4]`), 4), offsets, { tensor: "t" });
  });

  test.each<[string, string, RegExp, Problem["where"]?]>([
    ["null", '{"t":null}', /"t" is not described by an object/],
    ["a list, which the reference crate takes", '{"t":["U8",[4],[0,4]]}', /"t" is not described by an object/],
    ["an unknown dtype", one('"dtype":"f32"'), /unknown dtype "f32"/, { actual: "f32" }],
    ["a dtype out of Object.prototype", one('"dtype":"toString"'), /unknown dtype "toString"/, { actual: "toString" }],
    ["a dtype that is an object", one('"dtype":{"F32":null}'), /has no dtype/],
    ["no dtype", one('"shape":[4],"data_offsets":[0,4]'), /has no dtype/],
    ["no shape", one('"dtype":"U8","data_offsets":[0,4]'), whole],
    ["a shape that is a number", one('"dtype":"U8","shape":4,"data_offsets":[0,4]'), whole],
    ["no offsets", one('"dtype":"U8","shape":[4]'), offsets],
    ["one offset", ranged("[4]"), offsets],
    ["three offsets", ranged("[0,4,4]"), offsets],
    ["the end before the begin", ranged("[4,0]"), /ends at byte 0, before it begins at byte 4/],
    ["a product over 2^53", shaped("4294967296,4294967296"), /impossible shape \[4294967296, 4294967296\]/],
    ["a product over every float", shaped(Array(20).fill("9007199254740991").join()), /impossible shape with 20 axes/],
    ["overflow that a zero hides", shaped("4294967296,4294967296,0"), /impossible shape \[4294967296, 4294967296, 0\]/],
    ["too few bytes", shaped("5"), /has 4 bytes, but U8 \[5\] needs 5/, { expected: "5 bytes", actual: "4 bytes" }],
    ["too many bytes", shaped("0,9"), /has 4 bytes, but U8 \[0, 9\] needs 0/],
    ["a range for another dtype", one('"dtype":"F64","shape":[4],"data_offsets":[0,4]'), /F64 \[4\] needs 32/],
    ["a scalar of no bytes", one('"dtype":"U8","shape":[],"data_offsets":[0,0]'), /has 0 bytes, but U8 \[\] needs 1/],
    ["half a byte of F4", one('"dtype":"F4","shape":[7],"data_offsets":[0,4]'), /\[7\], whose F4 elements do not fill/],
    [
      "parts of bytes of F6",
      one('"dtype":"F6_E2M3","shape":[2],"data_offsets":[0,2]'),
      /whose F6_E2M3 elements do not/,
    ],
  ])("%s", async (_, header, what, where) => {
    await refused(fileOf(header, 4), what, { tensor: "t", ...where });
  });

  test.each<[string, string, RegExp]>([
    ["is null", "1", /__metadata__ is not an object/],
    ["is a list", "[]", /__metadata__ is not an object/],
    ["holds a number", '{"a":1}', /__metadata__ has the key "a", whose value is not Unicode text/],
    ["holds null", '{"constructor":null}', /has the key "constructor", whose value/],
    ["holds an object", '{"__proto__":{"a":"b"}}', /has the key "__proto__", whose value/],
  ])("metadata that %s", async (_, metadata, what) => {
    await refused(fileOf(`{"__metadata__":${metadata}}`), what);
  });
});

describe("data that does not fit", () => {
  const overlap = /"b" overlaps the tensor before it/;
  const hole = /"b" leaves a hole before it/;
  const a = entry("a", "U8", [4], 0, 4);
  test.each<[string, string[], number, RegExp, Problem["where"]]>([
    ["overlap by a byte", [a, entry("b", "U8", [4], 3, 7)], 7, overlap, { tensor: "b" }],
    ["the same range twice", [a, entry("b", "I32", [], 0, 4)], 4, /"[ab]" overlaps the tensor before it/, {}],
    ["a range inside another", [a, entry("b", "U8", [1], 2, 3)], 4, overlap, { tensor: "b" }],
    ["an empty tensor inside another", [a, entry("b", "U8", [0], 2, 2)], 4, overlap, { tensor: "b" }],
    ["a hole", [a, entry("b", "U8", [4], 5, 9)], 9, hole, { tensor: "b" }],
    ["an empty tensor past the end", [a, entry("b", "U8", [0], 5, 5)], 5, hole, { tensor: "b" }],
    ["no data at the start", [entry("b", "U8", [4], 1, 5)], 5, hole, { tensor: "b" }],
    ["a range at 2^53", [a, entry("b", "U8", [0], 2 ** 53 - 1, 2 ** 53 - 1)], 4, hole, { tensor: "b" }],
  ])("%s", async (_, entries, data, what, where) => {
    await refused(fileOf(`{${entries.join()}}`, data), what, where);
    await refused(fileOf(`{${entries.toReversed().join()}}`, data), what, where);
  });

  test("bytes that belong to no tensor, and bytes that are missing", async () => {
    const end = fileOf(`{${a}}`, 4).byteLength;
    const expected = `${end} bytes`;
    await refused(fileOf(`{${a}}`, 5), /bytes that belong to no tensor/, { expected, actual: `${end + 1} bytes` });
    await refused(fileOf(`{${a}}`, 3), /is cut off: its tensors end/, { expected, actual: `${end - 1} bytes` });
    await refused(fileOf("{}", 1), /bytes that belong to no tensor/);
    await refused(
      fileOf(`{${entry("a", "U8", [2 ** 49], 0, 2 ** 49)}}`),
      /is cut off: its tensors end at byte 5629499/,
    );
  });
});

describe("valid headers", () => {
  test("no tensor at all, with or without metadata", () => {
    expect(parseFile(fileOf("{}"))).toEqual({ tensors: [], metadata: {} });
    expect(parseFile(fileOf('{"__metadata__":null}  \n\t\r'))).toEqual({ tensors: [], metadata: {} });
    expect(parseFile(fileOf('{"__metadata__":{"format":"pt"}}')).metadata).toEqual({ format: "pt" });
  });

  test("tensors are in the order of their data, empty ones at the start, in the middle, together and at the end", () => {
    const header = `{${[
      entry("scalar", "F32", [], 4, 8),
      entry("end", "F64", [3, 0], 9, 9),
      entry("middle2", "U8", [0], 4, 4),
      entry("first", "U8", [4], 0, 4),
      entry("middle1", "F4", [0], 4, 4),
      entry("last", "F4", [2], 8, 9),
      entry("begin", "I64", [0, 2 ** 40], 0, 0),
    ].join(" ,\n")}}`;
    const start = 8 + header.length;
    const { tensors } = parseFile(fileOf(header, 9));
    expect(tensors.map(({ name, offset, bytes }) => [name, offset - start, bytes])).toEqual([
      ["begin", 0, 0],
      ["first", 0, 4],
      ["middle2", 4, 0],
      ["middle1", 4, 0],
      ["scalar", 4, 4],
      ["last", 8, 1],
      ["end", 9, 0],
    ]);
    expect(tensors[4]).toEqual({ name: "scalar", dtype: "F32", shape: [], offset: start + 4, bytes: 4 });
  });

  test.each(DTYPES)("eight elements of %s", (dtype) => {
    const bytes = DTYPE_BITS[dtype];
    const [tensor] = parseFile(fileOf(`{${entry("t", dtype, [2, 4], 0, bytes)}}`, bytes)).tensors;
    expect(tensor).toMatchObject({ name: "t", dtype, shape: [2, 4], bytes });
  });

  test("names of Object.prototype are ordinary names", () => {
    const header = `{"__metadata__":{"__proto__":"p","constructor":"c"},${entry("constructor", "U8", [1], 1, 2)},"__proto__":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`;
    const { tensors, metadata } = parseFile(fileOf(header, 2));
    expect(tensors.map(({ name }) => name)).toEqual(["__proto__", "constructor"]);
    expect(Object.entries(metadata)).toEqual([
      ["__proto__", "p"],
      ["constructor", "c"],
    ]);
    expect(Object.getPrototypeOf(metadata)).toBe(Object.prototype);
  });

  test("unknown fields are ignored, as in the reference crate", () => {
    const more = '"scale":-0.5e-3,"big":99999999999999999999,"deep":[[{"x":[true,false,null,1.5]}]]';
    const header = `{"t":{"dtype":"U8","shape":[1],${more},"data_offsets":[0,1]}}`;
    expect(parseFile(fileOf(header, 1)).tensors).toHaveLength(1);
  });

  test("escapes are decoded", () => {
    const header = '{"\\u0061\\n\\ud83d\\ude00\\/":{"dtype":"\\u0055\\u0038","sh\\u0061pe":[1],"data_offsets":[0,1]}}';
    expect(parseFile(fileOf(header, 1)).tensors[0]).toMatchObject({ name: "a\n😀/", dtype: "U8" });
  });
});

describe("serializeHeader", () => {
  const u8 = (name: string, shape: readonly number[] = [1]) => ({ name, dtype: "U8" as const, shape });

  test("writes the bytes that save_file of the reference writes", () => {
    const { bytes, tensors } = serializeHeader([{ name: "a", dtype: "I32", shape: [2, 2] }], {});
    const json = '{"a":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}       ';
    expect(Buffer.from(bytes)).toEqual(fileOf(json));
    expect(tensors).toEqual([{ name: "a", dtype: "I32", shape: [2, 2], offset: 72, bytes: 16 }]);
  });

  test.each<[string, () => unknown, RegExp, Problem["where"]]>([
    ["a name twice", () => serializeHeader([u8("a"), u8("a")], {}), /"a": it is repeated/, { tensor: "a" }],
    ["__metadata__", () => serializeHeader([u8("__metadata__")], {}), /reserves this name/, { tensor: "__metadata__" }],
    ["half a pair in a name", () => serializeHeader([u8("\ud800")], {}), /"\\ud800": its name is not Unicode/, {}],
    [
      "half a pair in a key",
      () => serializeHeader([], { "\udc00": "v" }),
      /metadata "\\udc00": it is/,
      { field: "\udc00" },
    ],
    [
      "a header over the limit",
      () => serializeHeader([], { k: "k".repeat(1e8) }),
      /of 100000\d+ bytes is over the limit/,
      {},
    ],
    ["half a pair in metadata", () => serializeHeader([], { k: "\udc00" }), /metadata "k": it is/, { field: "k" }],
    ["metadata that is no text", () => serializeHeader([], { k: 1 as unknown as string }), /metadata "k": it is/, {}],
    ["parts of bytes", () => serializeHeader([{ ...u8("a"), dtype: "F4" }], {}), /F4 \[1\] does not fill/, {}],
    ["a negative extent", () => serializeHeader([u8("a", [-2, -4])], {}), /its shape \[-2, -4\] is not a list/, {}],
    ["a broken extent", () => serializeHeader([u8("a", [1.5, 2])], {}), /its shape \[1.5, 2\] is not a list/, {}],
    ["hidden overflow", () => serializeHeader([u8("a", [2 ** 40, 2 ** 40, 0])], {}), /shape \[.+\] is impossible/, {}],
    ["a dtype from elsewhere", () => serializeHeader([{ ...u8("a"), dtype: "X" as "U8" }], {}), /dtype X is unk/, {}],
    [
      "more data than numbers can count",
      () =>
        serializeHeader(
          Array.from("abcdefghijklmnopq", (name) => u8(name, [2 ** 49])),
          {},
        ),
      /"p": its data would end beyond 2\^53 bytes/,
      { tensor: "p" },
    ],
  ])("refuses %s", async (_, run, what, where) => {
    expect(await problemOf(run)).toMatchObject({ name: "FormatError", message: expect.stringMatching(what), where });
  });

  test("parseHeader reads what it writes, for any names, shapes and dtypes", () => {
    fc.assert(
      fc.property(tensorLists, metadatas, (declared, metadata) => {
        const { bytes, tensors } = serializeHeader(declared, metadata);
        const data = tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
        const length = parseHeaderLength(bytes, bytes.byteLength + data, "x");
        const header = parseHeader(bytes.subarray(8), bytes.byteLength + data, "x");

        expect(length).toBe(bytes.byteLength - 8);
        expect(length % 8).toBe(0);
        expect(new Map(header.tensors.map((tensor) => [tensor.name, tensor]))).toEqual(
          new Map(tensors.map((tensor) => [tensor.name, tensor])),
        );
        expect(tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape }))).toEqual(declared);
        expect(Object.entries(header.metadata)).toEqual(Object.entries(metadata));
        let end = bytes.byteLength;
        for (const { offset, bytes } of tensors) {
          expect(offset).toBe(end);
          end += bytes;
        }
      }),
    );
  });
});

describe("mutations", () => {
  // Bytes that mean something in a header do more harm than random ones.
  const byte = fc.oneof(fc.integer({ min: 0, max: 255 }), fc.constantFrom(...Buffer.from('{}[]":,\\u0123456789-.eE ')));
  const mutation = fc.record({
    at: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    remove: fc.integer({ min: 0, max: 2 }),
    insert: fc.array(byte, { maxLength: 2 }),
  });

  test("are refused with a FormatError or leave a file whose tensors tile the data", () => {
    const mutations = fc.array(mutation, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(tensorLists, metadatas, mutations, fc.boolean(), (declared, metadata, changes, mend) => {
        const whole = serializeHeader(declared, metadata);
        const data = whole.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
        // With `mend` only the JSON is mutated and the length follows it; otherwise anything, the length included.
        let part = Buffer.from(mend ? whole.bytes.subarray(8) : whole.bytes);
        for (const { at, remove, insert } of changes) {
          const from = Math.floor(at * part.byteLength);
          part = Buffer.concat([part.subarray(0, from), Buffer.from(insert), part.subarray(from + remove)]);
        }
        const file = mend ? fileOf(part, data) : Buffer.concat([part, Buffer.alloc(data)]);
        try {
          const { tensors } = parseFile(file);
          let end = 8 + Number(file.readBigUInt64LE(0));
          for (const { offset, bytes, dtype, shape } of tensors) {
            expect(offset).toBe(end);
            expect(bytes).toBe(shape.reduce((product, extent) => product * extent, DTYPE_BITS[dtype]) / 8);
            end += bytes;
          }
          expect(end).toBe(file.byteLength);
        } catch (error) {
          if (!(error instanceof FormatError)) throw error;
          expect(error.where.file).toBe("x.safetensors");
        }
      }),
      { numRuns: 1000 },
    );
  });
});
