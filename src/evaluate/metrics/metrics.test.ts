// BLEU and chrF against sacreBLEU 2.6.0: corpora, edge cases, and lines full of what the tokenizers trip over.
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RecipeError } from "../../kit/errors.js";
import { type BleuOptions, type BleuScore, bleuStatistics, corpusBleu } from "./bleu.js";
import { type ChrfOptions, corpusChrf } from "./chrf.js";
import { stripEnd, words } from "./segments.js";

const FIXTURES = new URL("../../../test/fixtures/evaluation/bleu/", import.meta.url);
const read = <T>(name: string): T => JSON.parse(readFileSync(new URL(name, FIXTURES), "utf8")) as T;

type Expected<T> = { -readonly [K in keyof T]: T[K] };

function expectScore(found: BleuScore, expected: Partial<Expected<BleuScore>>, context: string) {
  for (const [field, value] of Object.entries(expected)) {
    const actual = found[field as keyof BleuScore];
    if (typeof value === "number") expect(actual, `${context} ${field}`).toBeCloseTo(value, 9);
    else if (Array.isArray(value)) {
      expect(actual, `${context} ${field}`).toHaveLength(value.length);
      for (const [i, one] of value.entries())
        expect((actual as number[])[i], `${context} ${field}`).toBeCloseTo(one, 9);
    } else expect(actual, `${context} ${field}`).toBe(value);
  }
}

describe("equality with sacreBLEU", () => {
  it("holds on translations", () => {
    const corpora =
      read<
        {
          language: string;
          hypotheses: string[];
          references: string[];
          bleu: (BleuScore & { tokenize: NonNullable<BleuOptions["tokenize"]> })[];
          chrf: { wordOrder: number; score: number; name: string; signature: string }[];
        }[]
      >("corpora.json");
    expect(corpora).toHaveLength(4);
    for (const { language, hypotheses, references, bleu, chrf } of corpora) {
      for (const { tokenize, ...expected } of bleu) {
        expectScore(corpusBleu(hypotheses, references, { tokenize }), expected, `${language} ${tokenize}`);
      }
      for (const { wordOrder, score, ...rest } of chrf) {
        const found = corpusChrf(hypotheses, references, { wordOrder });
        expect(found.score).toBeCloseTo(score, 9);
        expect(found).toMatchObject(rest);
      }
    }
  });

  it("holds on edge cases: nothing, too short, markup, white space of one program only", () => {
    const edges =
      read<
        {
          hyp: string;
          ref: string;
          tokenize: NonNullable<BleuOptions["tokenize"]>;
          effective_order: boolean;
          score: number;
          counts: number[];
          totals: number[];
          sys_len: number;
          ref_len: number;
        }[]
      >("edges.json");
    expect(edges).toHaveLength(20);
    for (const { hyp, ref, tokenize, effective_order: effectiveOrder, score, counts, totals, ...rest } of edges) {
      const found = corpusBleu([hyp], [ref], { tokenize, effectiveOrder });
      const lengths = { hypothesisLength: rest.sys_len, referenceLength: rest.ref_len };
      expectScore(found, { score, counts, totals, ...lengths }, JSON.stringify([hyp, tokenize]));
    }
  });

  it("holds on random lines", () => {
    const cases =
      read<
        {
          hypotheses: string[];
          references: string[];
          bleu: BleuScore & Required<BleuOptions>;
          chrf: Required<ChrfOptions> & { score: number; name: string; signature: string };
        }[]
      >("random.json");
    expect(cases).toHaveLength(24);
    for (const [i, { hypotheses, references, bleu, chrf }] of cases.entries()) {
      const { tokenize, effectiveOrder, ...expected } = bleu;
      expectScore(corpusBleu(hypotheses, references, { tokenize, effectiveOrder }), expected, `case ${i}`);
      const { wordOrder, score, ...rest } = chrf;
      const other = corpusChrf(hypotheses, references, { wordOrder });
      expect(other.score, `case ${i}`).toBeCloseTo(score, 9);
      expect(other).toMatchObject(rest);
    }
  });
});

describe("corpusBleu", () => {
  it("is computed by hand for one sentence", () => {
    // Words: the, cat, on, mat, and the a second time: 5 of 7. Pairs: the cat, on the, the mat. Triples: on the mat.
    // No four in a row: exp makes that 100 / (2 x 4).
    const found = corpusBleu(["the cat the cat on the mat"], ["the cat is on the mat"], { tokenize: "none" });
    expect(found.counts).toEqual([5, 3, 1, 0]);
    expect(found.totals).toEqual([7, 6, 5, 4]);
    expect(found.score).toBeCloseTo(100 * ((5 / 7) * (3 / 6) * (1 / 5) * (1 / 8)) ** 0.25, 9);
    expect(found.brevityPenalty).toBe(1);
    expect(found.signature).toBe("nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0");
  });

  it.each<[readonly string[], readonly string[], BleuOptions, RegExp]>([
    [[], [], {}, /no hypotheses/],
    [["a"], [], {}, /each of the 1 hypotheses, not 0 references/],
    [["a", "b"], ["a"], {}, /each of the 2 hypotheses, not 1 reference$/],
    [["a"], ["a"], { tokenize: "13b" as "13a" }, /unknown tokenizer 13b.*did you mean 13a/],
  ])("refuses %j against %j with %j", (hypotheses, references, options, message) => {
    expect(() => corpusBleu(hypotheses, references, options)).toThrow(RecipeError);
    expect(() => corpusBleu(hypotheses, references, options)).toThrow(message);
  });

  it("is 100 of a text with itself, and never more", () => {
    const line = fc.array(fc.constantFrom("a", "b", "c", "dd"), { minLength: 4, maxLength: 12 });
    fc.assert(
      fc.property(
        fc.array(line, { minLength: 1, maxLength: 4 }),
        fc.array(line, { minLength: 4, maxLength: 4 }),
        (a, b) => {
          const own = a.map((tokens) => tokens.join(" "));
          const others = own.map((_, i) => (b[i] ?? []).join(" "));
          expect(corpusBleu(own, own, { tokenize: "none" }).score).toBeCloseTo(100, 9);
          expect(corpusChrf(own, own).score).toBeCloseTo(100, 9);
          const { score } = corpusBleu(own, others);
          expect(score).toBeGreaterThanOrEqual(0);
          expect(score).toBeLessThanOrEqual(100 + 1e-9);
        },
      ),
      { numRuns: 100, seed: 1 },
    );
  });
});

it("knows white space as Python does", () => {
  expect(words("a\u001cb\u0085c\u3000d\ufeffe\u200bf")).toEqual(["a", "b", "c", "d\ufeffe\u200bf"]);
  expect(stripEnd("a \u001f\u2028\n")).toBe("a");
  expect(stripEnd("a\ufeff")).toBe("a\ufeff");
});

it("says what to do where a tokenizer needs a model that only sacreBLEU has", () => {
  expect(() => bleuStatistics({ tokenize: "flores200" as "13a" })).toThrow(
    "flores200 (spBLEU) needs a SentencePiece model that only sacreBLEU has. Score with another tokenizer, and the answers in the samples file with sacreBLEU",
  );
});
