import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { ContaminationIndex, contaminationSchema, readEvaluationFiles, unitsOf } from "./contamination.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-contamination-"));
afterAll(() => rmSync(folder, { recursive: true }));

const words = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => `w${from + i}`).join(" ");
const indexOf = (texts: string[], options: object = {}) => {
  const index = new ContaminationIndex(contaminationSchema.parse({ files: ["x"], ...options }));
  index.add("eval", texts);
  return index;
};

describe("units", () => {
  it("are words without marks and case, and characters where there are no spaces", () => {
    const units = (text: string) => unitsOf(text).map(({ text: unit, weight }) => `${unit}:${weight}`);
    expect(units("Mr. O’Neil, 12,5 km²!")).toEqual(["mr:2", "o:2", "neil:2", "12:2", "5:2", "km2:2"]);
    expect(units("日本ＡＢＣ語です。x")).toEqual(["日:1", "本:1", "abc:2", "語:1", "で:1", "す:1", "x:2"]);
    expect(units("สวัสดี")).toHaveLength(6);
    expect(units("రామ్ వద్ద")).toEqual(["రామ్:2", "వద్ద:2"]);
    expect(units("?!… ")).toEqual([]);
  });
});

describe("an index", () => {
  it("finds thirteen words in a row, but not twelve", () => {
    const index = indexOf([words(0, 40)]);
    expect(index.size).toBe(28);
    expect(index.find(`before ${words(5, 18)} after`)).toBe("eval");
    expect(index.find(`before ${words(5, 17)} after`)).toBeUndefined();
    expect(index.find(words(5, 18).replaceAll(" ", ",\n").toUpperCase())).toBe("eval");
    expect(index.find(words(5, 18).replace("w9", "other"))).toBeUndefined();
  });

  it("finds twenty-six characters of scripts without spaces, whatever is between them", () => {
    const text = [..."一二三四五六七八九十百千万億兆京垓秭穣溝澗正載極恒河沙阿僧祇"].join("");
    const index = indexOf([text]);
    expect(index.find(`あ${text.slice(2, 28)}い`)).toBe("eval");
    expect(index.find([...text.slice(2, 28)].join("、"))).toBe("eval");
    expect(index.find(`あ${text.slice(2, 27)}い`)).toBeUndefined();
  });

  it("looks for shorter texts whole, down to eight words", () => {
    const index = indexOf([words(0, 9), words(50, 57)]);
    expect(index.find(`x ${words(0, 9)} y`)).toBe("eval");
    expect(index.find(`x ${words(0, 8)} y`)).toBeUndefined();
    expect(index.find(`x ${words(50, 57)} y`)).toBeUndefined();
    expect(indexOf([words(50, 57)], { shortest: 7 }).find(words(50, 57))).toBe("eval");
  });

  it("agrees with looking for each passage as a text", () => {
    const vocabulary = fc.constantFrom("a", "b", "c", "語", "字");
    const text = fc.array(vocabulary, { maxLength: 25 }).map((units) => units.join(" "));
    fc.assert(
      fc.property(text, text, (evaluation, training) => {
        const index = indexOf([evaluation], { words: 4, shortest: 4 });
        const passages = (of: string) => {
          const units = unitsOf(of);
          return units.flatMap((_, start) => {
            let weight = 0;
            for (let end = start; end < units.length; end++) {
              weight += units[end]?.weight ?? 0;
              if (weight >= 8)
                return [
                  units
                    .slice(start, end + 1)
                    .map((unit) => unit.text)
                    .join(" "),
                ];
            }
            return [];
          });
        };
        const expected = passages(evaluation).some((passage) => passages(training).includes(passage));
        expect(index.find(training) !== undefined).toBe(expected);
      }),
      { numRuns: 400 },
    );
  });

  it("looks at each of several texts", () => {
    const index = indexOf([words(0, 20)]);
    expect(index.find("x", words(0, 20))).toBe("eval");
    expect(index.find("x", words(20, 40))).toBeUndefined();
  });
});

describe("evaluation files", () => {
  it("are read in any format, and named", async () => {
    const write = (name: string, text: string) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const files = [
      write("mgsm.tsv", `${words(0, 15)}\t7\n${words(20, 35)}\t8\n`),
      write("nested.jsonl", JSON.stringify({ a: { b: [words(100, 115)] }, n: 5 })),
      write("swh_Latn.devtest", `${words(200, 215)}\n`),
    ];
    const index = await readEvaluationFiles(contaminationSchema.parse({ files }));
    const found = [words(1, 14), words(20, 33), words(101, 114), words(200, 213), words(8, 20)].map((text) =>
      index.find(text),
    );
    expect(found).toEqual([files[0], files[0], files[1], files[2], undefined]);
    await expect(readEvaluationFiles(contaminationSchema.parse({ files: [join(folder, "absent")] }))).rejects.toThrow(
      /does not exist/,
    );
    await expect(
      readEvaluationFiles(contaminationSchema.parse({ files: [write("short.txt", "a b c")] })),
    ).rejects.toThrow(/long enough/);
  });
});
