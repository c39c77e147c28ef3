// The encoding, against the examples of the protocol buffers documentation and a reader written here.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fieldsOf } from "../../test/support/protobuf-reader.js";
import { LayergraftError } from "./errors.js";
import { ProtoWriter } from "./protobuf.js";

const hex = (writer: ProtoWriter) => Buffer.from(writer.finish()).toString("hex");
const written = (write: (writer: ProtoWriter) => void) => {
  const writer = new ProtoWriter();
  write(writer);
  return writer;
};

describe("what the documentation shows", () => {
  it("writes integers", () => {
    expect(hex(written((w) => w.integer(1, 150)))).toBe("089601");
    expect(hex(written((w) => w.integer(1, -2)))).toBe("08feffffffffffffffff01");
  });

  it("writes strings, messages and packed lists", () => {
    expect(hex(written((w) => w.string(2, "testing")))).toBe("120774657374696e67");
    const inner = written((w) => w.integer(1, 150));
    expect(hex(written((w) => w.message(3, inner)))).toBe("1a03089601");
    expect(hex(written((w) => w.integers(6, [3, 270, 86942])))).toBe("3206038e029ea705");
    expect(hex(written((w) => w.integers(6, [])))).toBe("");
  });

  it("writes floats", () => {
    expect(hex(written((w) => w.float(2, 1)))).toBe("150000803f");
  });
});

it("is read back as it was written, with nested messages", () => {
  const field = fc.integer({ min: 1, max: 2 ** 29 - 1 });
  const integer = fc.maxSafeInteger();
  const data = fc.uint8Array({ maxLength: 40 });
  const entry = fc.oneof(fc.tuple(field, integer), fc.tuple(field, data));
  fc.assert(
    fc.property(fc.array(entry), fc.array(entry), field, (before, inner, at) => {
      const fill = (entries: typeof inner) =>
        written((w) => {
          for (const [number, value] of entries) {
            if (value instanceof Uint8Array) w.bytes(number, value);
            else w.integer(number, value);
          }
        });
      const plain = (entries: typeof inner) =>
        entries.map(([number, value]) => [
          number,
          value instanceof Uint8Array ? value : BigInt.asUintN(64, BigInt(value)),
        ]);
      const outer = fill(before);
      const nested = fill(inner);
      outer.message(at, nested);
      const bytes = outer.finish();
      const read = fieldsOf(bytes);
      expect(read.slice(0, -1)).toEqual(plain(before));
      const [number, content] = read.at(-1) ?? [];
      expect(number).toBe(at);
      expect(fieldsOf(content as Uint8Array)).toEqual(plain(inner));
    }),
    { numRuns: 60 },
  );
});

it("refuses what cannot be written exactly", () => {
  expect(() => written((w) => w.integer(1, 2 ** 53))).toThrow(LayergraftError);
  expect(() => written((w) => w.integer(1, 0.5))).toThrow("0.5 is not an integer");
});

it("refuses messages over 2 GiB before it copies anything", () => {
  const part = new Uint8Array(2 ** 30); // zero pages that nothing touches
  const writer = written((w) => {
    w.bytes(1, part);
    w.bytes(1, part);
  });
  expect(() => writer.finish()).toThrow(/2147483660 bytes, and a protocol buffer at most 2147483647/);
});
