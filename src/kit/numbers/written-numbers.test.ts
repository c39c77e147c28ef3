import { describe, expect, it } from "vitest";
import { numberIn, parseWritten, stringifyWritten, WrittenNumber, withWritten } from "./written-numbers.js";

describe("numbers as they are written", () => {
  it("are kept beside values that JSON.parse gives", () => {
    const text = '{"n":2.0,"big":12345678901234567890,"list":[1,1e3,0.5,{"n":-0.0}],"text":"2.0 \\" 3.0","n2":2}';
    const value = parseWritten(text) as { list: unknown[] };
    expect(value).toEqual(JSON.parse(text));
    const texts = Object.entries(value).map(([key, one]) => numberIn(value, key, one));
    expect(texts[0]).toEqual(new WrittenNumber("2.0"));
    expect(texts[1]).toEqual(new WrittenNumber("12345678901234567890"));
    expect(texts[4]).toBe(2);
    expect(value.list.map((one, i) => numberIn(value.list, i, one))[1]).toEqual(new WrittenNumber("1e3"));
    expect(stringifyWritten(value)).toBe(text);
  });

  it("are lost with the value that they are of", () => {
    const value = parseWritten('{"n": 2.0, "m": 1e2}') as Record<string, number>;
    value.n = 3;
    expect(withWritten(value)).toEqual({ n: 3, m: new WrittenNumber("1e2") });
    expect(stringifyWritten(value)).toBe('{"n":3,"m":1e2}');
    expect(JSON.stringify(withWritten(value))).toBe('{"n":3,"m":100}');
  });

  it("are those of the last of equal keys, and of a whole text", () => {
    const value = parseWritten('{"a": {"n": 1.0}, "a": {"n": 2}, "n": 3, "n": 4.0}') as Record<string, object>;
    expect(stringifyWritten(value)).toBe('{"a":{"n":2},"n":4.0}');
    expect(parseWritten(" 2.0 ")).toEqual(new WrittenNumber("2.0"));
    expect(parseWritten("2")).toBe(2);
  });

  it("hide no error of the syntax", () => {
    for (const text of ["{2.0: 1}", "[1.0 2.0]", "[01.0]", '{"a": 1.0', "1.0.0"]) {
      expect(() => parseWritten(text)).toThrow(SyntaxError);
    }
  });
});
