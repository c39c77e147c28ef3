// Reading answers: the exemplars' own, every gold number in each language's writing, and what must not be read.

import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MGSM_LANGUAGES, type MgsmLanguage, parseDecimal, sameNumber } from "./numbers.js";
import { readMgsmAnswer, toAsciiNumbers } from "./read-mgsm-answer.js";

const FIXTURES = new URL("../../../test/fixtures/evaluation/mgsm/", import.meta.url);
const read = <T>(name: string): T => JSON.parse(readFileSync(new URL(name, FIXTURES), "utf8")) as T;

/** The sentence that announces an answer, as the data set has it. */
const SENTENCES: Record<MgsmLanguage, (number: string) => string> = {
  bn: (n) => `উত্তর হল ${n}।`,
  de: (n) => `Die Antwort lautet ${n}.`,
  en: (n) => `The answer is ${n}.`,
  es: (n) => `La respuesta es ${n}.`,
  fr: (n) => `La réponse est ${n}.`,
  ja: (n) => `答えは${n}です。`,
  ru: (n) => `Ответ — ${n}.`,
  sw: (n) => `Jibu ni ${n}.`,
  te: (n) => `సమాధానం ${n}.`,
  th: (n) => `คำตอบคือ ${n}`,
  zh: (n) => `答案是 ${n}。`,
};

/** How numbers are written where a language is spoken: its digits, its separators. */
const LOCALES: Record<MgsmLanguage, readonly string[]> = {
  bn: ["bn", "bn-u-nu-latn", "bn-IN"],
  de: ["de", "de-CH", "de-AT"],
  en: ["en", "en-IN", "en-u-nu-arab"],
  es: ["es", "es-MX"],
  fr: ["fr"],
  ja: ["ja", "ja-u-nu-fullwide"],
  ru: ["ru"],
  sw: ["sw", "sw-u-nu-arabext"],
  te: ["te", "te-u-nu-telu"],
  th: ["th", "th-u-nu-thai"],
  zh: ["zh", "zh-u-nu-fullwide"],
};

describe("readMgsmAnswer", () => {
  it("reads the exemplars' own answers, 88 of 88", () => {
    const { number_answers: numbers, exemplars } = read<{
      number_answers: number[];
      exemplars: Record<MgsmLanguage, { a: string }[]>;
    }>("exemplars.json");
    const readings = MGSM_LANGUAGES.flatMap((language) =>
      exemplars[language].map(({ a }) => readMgsmAnswer(a, language)),
    );
    expect(readings).toHaveLength(88);
    for (const reading of ["strict", "flexible"] as const) {
      expect(readings.map((one) => one[reading])).toEqual(
        MGSM_LANGUAGES.flatMap(() => numbers.map((number) => String(number))),
      );
    }
  });

  it.each(MGSM_LANGUAGES)("reads all 250 gold numbers as they are written in %s", (language) => {
    const gold = read<string[]>("gold.json").map((number) => parseDecimal(number));
    expect(gold).toHaveLength(250);
    expect(gold).not.toContain(undefined);
    for (const locale of LOCALES[language]) {
      for (const options of [{}, { minimumFractionDigits: 2 }, { style: "currency", currency: "USD" }] as const) {
        const format = new Intl.NumberFormat(locale, options);
        for (const number of new Set(gold)) {
          for (const value of [Number(number), -Number(number)]) {
            const text = `7 + 3 = 10. ${SENTENCES[language](format.format(value))}`;
            const expected = { strict: String(value), flexible: String(value) };
            expect(readMgsmAnswer(text, language), text).toEqual(expected);
          }
        }
      }
    }
  });

  it.each<[MgsmLanguage, string, string | undefined, string | undefined]>([
    // Separators and decimals.
    ["en", "The answer is $1,234.50.", "1234.5", "1234.5"],
    ["en", "The answer is 1,14,200 rupees.", "114200", "114200"],
    ["en", "The answer is 11.0.", "11", "11"],
    ["en", "The answer is 1.234.", "1.234", "1.234"],
    ["de", "Die Antwort lautet 1.234.", "1234", "1234"],
    ["de", "Die Antwort ist 2,125 Euro.", "2125", "2125"],
    ["de", "Die Antwort lautet 0,125.", "0.125", "0.125"],
    ["de", "Die Antwort lautet 1.234.567,5.", "1234567.5", "1234567.5"],
    ["en", "The answer is 1.234,50 euros.", "1234.5", "1234.5"],
    ["fr", "La réponse est 57 500 €.", "57500", "57500"],
    ["fr", "La réponse est : 57\u202f500.", "57500", "57500"],
    ["fr", "Ils ont 89, 71, 92, 100.", undefined, "100"],
    ["ru", "Ответ: 57 500 $.", "57500", "57500"],
    ["es", "La respuesta es 1,5.", "1.5", "1.5"],
    ["en", "They score 1,5 and", undefined, "5"],
    ["en", "The answer is $57{,}500\\%.", "57500", "57500"],
    // Signs.
    ["en", "The answer is \u22123.", "-3", "-3"],
    ["en", "The answer is -$5.", "-5", "-5"],
    ["ru", "Ответ - 5.", "5", "5"],
    ["ru", "Ответ — -5.", "-5", "-5"],
    ["ja", "答えは-5です。", "-5", "-5"],
    ["en", "COVID-19", undefined, "19"],
    ["en", "so 12 -3", undefined, "3"],
    ["en", "The answer is -0.", "0", "0"],
    // Emphasis, TeX, currencies in words.
    ["en", "The answer is **11**.", "11", "11"],
    ["en", "The answer is \\boxed{11}", "11", "11"],
    ["en", "The final answer is: 11", "11", "11"],
    ["sw", "Jibu ni dola 8.", "8", "8"],
    ["es", "La respuesta es US$ 18.", "18", "18"],
    // Which number.
    ["en", "The answer is 5. No, the answer is 6. That is 2 more.", "6", "2"],
    ["en", "The answer is 5. So the answer is right.", "5", "5"],
    ["en", "The answer is twelve, or 12.", undefined, "12"],
    ["en", "The answer is\n11", undefined, "11"],
    ["en", "Step-by-Step Answer: 5 balls", undefined, "5"],
    ["te", "దశలవారీగా సమాధానం: 5 బంతులు", undefined, "5"],
    ["en", "no number", undefined, undefined],
    ["en", "The answer is 1/2.", undefined, undefined],
    ["en", "The answer is 3 1/2.", "3.5", "3.5"],
    ["en", "The answer is 1 3/4 = 1.75 cups, 2 3/8 - 1/8.", "1.75", "2.375"],
    ["en", "The answer is -2 1/2", "-2.5", "-2.5"],
    ["en", "The answer is 1,250 1/4.", "1250.25", "1250.25"],
    ["sw", "Jibu ni 3½.", "3.5", "3.5"],
    ["de", "Die Antwort lautet 12 ¾.", "12.75", "12.75"],
    ["en", "The answer is $3\\frac{1}{2}$.", "3.5", "3.5"],
    ["en", "The answer is 3 1/3.", undefined, undefined],
    ["en", "The answer is 3 1/2 + 2 1/2 = 6.", "6", "6"],
    ["en", "The answer is 3 7/2.", "3", "3"],
    ["en", "The answer is 10/2 = 5.", "5", "5"],
    ["en", "The answer is about 12.", undefined, "12"],
    // The value of a name.
    ["en", "The answer is x = 9.", "9", "9"],
    ["en", "The answer is $x = 9$.", "9", "9"],
    ["en", "The answer is n=9", "9", "9"],
    ["en", "The answer is: **total = $9**", "9", "9"],
    ["en", "The answer is \\(x_1 = \\boxed{9}\\)", "9", "9"],
    ["en", "The answer is x = 4 + 5 = 9.", "9", "9"],
    ["en", "The answer is x = 4 + 5.", undefined, "5"],
    ["en", "The answer is x = y = 9.", undefined, "9"],
    ["en", "The answer is found by x = 9.", undefined, "9"],
    ["de", "Die Antwort lautet x = 9.", "9", "9"],
    ["de", "Die Antwort ist $n=1.234$.", "1234", "1234"],
    ["zh", "答案是 x = 9。", "9", "9"],
    ["zh", "答案是：$n＝９$。", "9", "9"],
    // Spaces between thousands.
    ["en", "The answer is 1 234.", "1234", "1234"],
    ["en", "The answer is $1 234 567.50.", "1234567.5", "1234567.5"],
    ["en", "The answer is 12 of 34.", "12", "34"],
    ["de", "Die Antwort lautet 1 234,5.", "1234.5", "1234.5"],
    ["zh", "答案是1 234。", "1234", "1234"],
    // Fractions, ratios, times and dates are not numbers.
    ["en", "The answer is 3/4.", undefined, undefined],
    ["en", "The answer is 10:30.", undefined, undefined],
    ["en", "The answer is 2024-05-01.", undefined, undefined],
    ["en", "The answer is 5/1/2024.", undefined, undefined],
    ["en", "The answer is 7. It is 10:30 on 2024-05-01.", "7", "7"],
    ["de", "Die Antwort lautet 3/4.", undefined, undefined],
    ["de", "Die Antwort lautet 10:30 Uhr.", undefined, undefined],
    ["de", "Die Antwort lautet 2024-05-01.", undefined, undefined],
    ["de", "Die Antwort lautet 1.5.2024.", undefined, undefined],
    ["de", "Die Antwort lautet 10:2=5.", "5", "5"],
    ["zh", "答案是3/4。", undefined, undefined],
    ["zh", "答案是10:30。", undefined, undefined],
    ["zh", "答案是2024-05-01。", undefined, undefined],
    ["zh", "答案是2024年5月1日。", undefined, undefined],
    ["zh", "步骤1：10。答案是：8。", "8", "8"],
    // Equations: the side that is a number, the last one of several.
    ["en", "The answer is 5 + 3 = 8.", "8", "8"],
    ["en", "The answer is 5+3=8 apples", "8", "8"],
    ["en", "The answer is = $8.00", "8", "8"],
    ["en", "The answer is $5.00 + $3.00 = $8.00.", "8", "8"],
    ["en", "The answer is 8 = 5 + 3.", "8", "3"],
    ["en", "The answer is 2 * (3 + 1) = 2 * 4 = 8", "8", "8"],
    ["en", "The answer is (5 + 3) = **8**.", "8", "8"],
    ["en", "The answer is $2 \\times 4 = \\boxed{8}$", "8", "8"],
    ["en", "The answer is 5 apples + 3 apples = 8 apples.", "8", "8"],
    ["en", "The answer is 1,200 + 34 = 1,234.", "1234", "1234"],
    ["en", "The answer is 12 -3 = 9", "9", "9"],
    ["en", "The answer is 3 \u2013 5 = \u22122.", "-2", "-2"],
    ["de", "Die Antwort lautet 10 : 2 = 5,5.", "5.5", "5.5"],
    ["bn", "উত্তর হল ৫ + ৩ = ৮।", "8", "8"],
    ["ja", "答えは5個＋3個＝8個です。", "8", "8"],
    ["zh", "答案是 1万 + 2千 = 1.2万。", "12000", "12000"],
    ["en", "The answer is 5 + 3.", undefined, "3"],
    ["en", "The answer is 5 = five.", "5", "5"],
    ["en", "The answer is **8** (5 + 3).", "8", "3"],
    ["en", "The answer is *8* (5 + 3 = 8).", "8", "8"],
    ["en", "The answer is 8 apples - 3 more than before.", "8", "3"],
    ["en", "The answer is 8 because x = 3.", "8", "3"],
    ["en", "The answer is 8.\n- 3 = 3", "8", "3"],
    // Powers of ten.
    ["en", "The answer is 1e3.", "1000", "1000"],
    ["en", "The answer is -1.25E+2", "-125", "-125"],
    ["en", "The answer is 25e-1.", "2.5", "2.5"],
    ["en", "The answer is 5e and 7", "5", "7"],
    ["en", "THE ANSWER IS 7", "7", "7"],
    ["de", "Die Antwort beträgt 3", "3", "3"],
    // Myriads.
    ["ja", "答えは2万5千円です。", "25000", "25000"],
    ["ja", "答えは1億2000万です。", "120000000", "120000000"],
    ["zh", "答案是 7 万美元。", "70000", "70000"],
    ["zh", "答案是2.75万。", "27500", "27500"],
    ["zh", "答案是3千万。", "30000000", "30000000"],
    ["zh", "答案是 5千克。", "5", "5"],
    ["en", "The answer is 2万.", "2", "2"],
    // Words of powers of ten.
    ["en", "The answer is $1.5 million dollars.", "1500000", "1500000"],
    ["en", "The answer is 2k.", "2000", "2000"],
    ["en", "The answer is 2 kg, or 3k+1", "2", "1"],
    ["en", "The answer is 2 thousandths", "2", "2"],
    ["en", "The answer is 5 + 3 thousand = 3005", "3005", "3005"],
    ["de", "Die Antwort ist 2,5 Mio. Euro", "2500000", "2500000"],
    ["de", "Die Antwort ist 3 Milliarden.", "3000000000", "3000000000"],
    ["es", "La respuesta es 20 mil millones.", "20000000000", "20000000000"],
    ["es", "La respuesta es 20 mil.", "20000", "20000"],
    ["es", "La respuesta es 20 millas.", "20", "20"],
    ["fr", "La réponse est 2 millions.", "2000000", "2000000"],
    ["ru", "Ответ 5 тыс. рублей", "5000", "5000"],
    ["sw", "Jibu ni elfu 2.", "2000", "2000"],
    ["sw", "Jibu ni shilingi milioni 1.5", "1500000", "1500000"],
    ["sw", "Ana vitabu 5 elfu", undefined, "5"],
    ["bn", "উত্তর হল ৫ হাজার টাকা।", "5000", "5000"],
    ["te", "సమాధానం 2 లక్షలు.", "200000", "200000"],
    ["th", "คำตอบคือ 3 ล้านบาท", "3000000", "3000000"],
    ["th", "คำตอบคือ 2 พันธุ์", "2", "2"],
  ])("%s: %s", (language, text, strict, flexible) => {
    expect(readMgsmAnswer(text, language)).toEqual({ strict, flexible });
  });

  it("takes the number at the beginning where only that is asked for", () => {
    const direct = (text: string) => readMgsmAnswer(text, "en", { form: "number" });
    expect(direct(" $1,200 in 3 days")).toEqual({ strict: "1200", flexible: "3" });
    expect(direct(" 12")).toEqual({ strict: "12", flexible: "12" });
    expect(direct(" about 12")).toEqual({ strict: undefined, flexible: "12" });
    expect(direct(" x = 12")).toEqual({ strict: "12", flexible: "12" });
    expect(direct(" 5 + 3 = 8")).toEqual({ strict: "8", flexible: "8" });
  });

  it("refuses another language", () => {
    expect(() => readMgsmAnswer("1", "it")).toThrow(/MGSM has no language it; it has bn, de/);
  });

  it("reads any number in every language's writing", () => {
    const number = fc.tuple(fc.integer({ min: -(10 ** 9), max: 10 ** 9 }), fc.constantFrom(0, 1, 2));
    fc.assert(
      fc.property(fc.constantFrom(...MGSM_LANGUAGES), number, (language, [digits, places]) => {
        const value = digits / 10 ** places;
        for (const locale of LOCALES[language]) {
          // Fractions of three digits can be groups; one or two cannot.
          const written = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 }).format(value);
          const { strict } = readMgsmAnswer(SENTENCES[language](written), language);
          expect(strict, `${locale} ${written}`).toBe(String(value === 0 ? 0 : value));
        }
      }),
      { numRuns: 200, seed: 4 },
    );
  });

  // In time that grows with the square of the length, this would take minutes.
  it("takes no long time over what is made to take long", { timeout: 60_000 }, () => {
    const texts = [
      "1".repeat(50_000),
      "1,".repeat(30_000),
      "the answer is ".repeat(5000),
      "-".repeat(50_000),
      `the answer is ${"1 + ".repeat(20_000)}`,
    ];
    for (const text of texts) {
      for (const language of ["en", "zh", "fr"]) {
        const { flexible } = readMgsmAnswer(`${text}/2`, language);
        expect(flexible === undefined || /^[\d./-]+$/.test(flexible)).toBe(true);
      }
    }
  });
});

describe("digits", () => {
  it("are read in every numbering system that has ten in a row", () => {
    const systems = Intl.supportedValuesOf("numberingSystem");
    expect(systems.length).toBeGreaterThan(50);
    for (const system of systems) {
      const format = new Intl.NumberFormat(`en-u-nu-${system}`, { useGrouping: false });
      const digits = Array.from({ length: 10 }, (_, i) => format.format(i));
      if (!digits.every((digit) => /^\p{Nd}$/u.test(digit))) continue;
      expect(toAsciiNumbers(digits.join("")), system).toBe("0123456789");
    }
  });
});

describe("sameNumber", () => {
  it("compares exactly", () => {
    expect(sameNumber("11.0", "11")).toBe(true);
    expect(sameNumber("110", "11.0")).toBe(false);
    expect(sameNumber("2,125", "2125")).toBe(true);
    expect(sameNumber("0.30", "0.3")).toBe(true);
    expect(sameNumber("9007199254740993", "9007199254740992")).toBe(false);
    expect(sameNumber(undefined, undefined)).toBe(false);
    expect(sameNumber("", "")).toBe(false);
  });
});
