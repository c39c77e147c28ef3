// The miniature's world: its words, texts and problems, and that what must not be trained on is not.
import { Tokenizer } from "@huggingface/tokenizers";
import { describe, expect, it } from "vitest";
import { Random } from "../../../core/random.js";
import { drawExample, drawExamples, type Example, MIXES, type Mix, TASK_NAMES } from "./exercises.js";
import { NOUNS, numberWords, PLACES, TIMES, VERBS } from "./lexicon.js";
import {
  answerOf,
  drawProblem,
  drawTrainingProblem,
  heldOutProblems,
  isHeldOut,
  type Problem,
  solveProblem,
  tellProblem,
} from "./problems.js";
import { mixedSpeaker, speakerOf, tellAct } from "./sentences.js";
import { MAX_POSITIONS, syllables, tokenizerConfigJson, tokenizerJson, vocabulary } from "./vocabulary.js";

const tokenizer = new Tokenizer(tokenizerJson(), tokenizerConfigJson());
const encode = (text: string): number[] => tokenizer.encode(text, { add_special_tokens: false }).ids;
const tokensOf = (text: string): string[] => encode(text).map((id) => vocabulary()[id] ?? "");

const take = (mix: Mix, count: number, seed = 0): Example[] => {
  const examples = drawExamples(mix, seed, "test");
  return Array.from({ length: count }, () => examples.next().value);
};

const unknownSwahili = new Set(VERBS.filter(({ known }) => !known).map(({ sw }) => sw));
const saysUnknown = ({ prompt }: Example) => prompt.split(" ").some((word) => unknownSwahili.has(word));

const problem = (who: string, noun: string, start: number, ...steps: [string, number][]): Problem => ({
  who,
  noun: NOUNS.find(({ en }) => en === noun) as Problem["noun"],
  start,
  steps: steps.map(([verb, count]) => ({ verb: VERBS.find(({ en }) => en === verb) as (typeof VERBS)[number], count })),
});

describe("the tokenizer", () => {
  it("gives the ids that Hugging Face tokenizers gives", () => {
    // tokenizers 0.22 (Python) on the same tokenizer.json.
    const text = "asha alinunua maembe 4 sokoni leo . [english] : <eos>";
    const ids = [1, 62, 179, 241, 257, 257, 217, 188, 225, 244, 25, 210, 237, 255, 186, 259, 15, 6, 17, 2];
    expect(tokenizer.encode(text).ids).toEqual(ids);
    expect(tokensOf(text)).toEqual(
      "asha a ##li ##nu ##nu ##a ma ##e ##mbe 4 so ##ko ##ni le ##o . [english] : <eos>".split(" "),
    );
    expect(tokenizer.decode(ids, { skip_special_tokens: true })).toBe(
      "asha alinunua maembe 4 sokoni leo . [english] :",
    );
  });

  it("keeps words of English whole and cuts those of Swahili into syllables", () => {
    for (const { en, sw } of [...NOUNS, ...VERBS, ...PLACES, ...TIMES]) {
      expect(tokensOf(en)).toEqual(en.split(" "));
      expect(tokensOf(sw).map((token) => token.replace("##", ""))).toEqual(syllables(sw));
    }
    expect(syllables("ng'ombe")).toEqual(["ng'o", "mbe"]);
    expect(syllables("shambani")).toEqual(["sha", "mba", "ni"]);
  });

  it("reads every text of the world and gives it back", () => {
    const random = Random.of(3, "texts");
    for (const task of TASK_NAMES) {
      for (let i = 0; i < 40; i++) {
        const { prompt, response } = drawExample(task, random);
        const ids = encode(`${prompt} ${response}`);
        expect(tokenizer.decode(ids)).toBe(`${prompt} ${response}`);
        expect(ids).not.toContain(vocabulary().indexOf("<unk>"));
        expect(ids.length + 2).toBeLessThan(MAX_POSITIONS);
        expect(prompt).toMatch(/^(.* )?\[[a-z]+\] :$/);
      }
    }
  });

  it("has each token once", () => {
    expect(new Set(vocabulary()).size).toBe(vocabulary().length);
    expect(vocabulary().length).toBeGreaterThan(270);
  });
});

describe("sentences", () => {
  const act = {
    who: "neema",
    verb: VERBS.find(({ en }) => en === "sold") as (typeof VERBS)[number],
    count: 4,
    noun: NOUNS.find(({ en }) => en === "cows") as (typeof NOUNS)[number],
    place: PLACES[0] as (typeof PLACES)[number],
    time: TIMES[0] as (typeof TIMES)[number],
  };

  it("put the number where the language has it", () => {
    expect(tellAct(act, speakerOf("en"))).toBe("neema sold 4 cows at the market today .");
    expect(tellAct(act, speakerOf("sw"))).toBe("neema aliuza ng'ombe 4 sokoni leo .");
    const random = Random.of(0, "order");
    const told = new Set(Array.from({ length: 30 }, () => tellAct(act, speakerOf("en", random))));
    expect([...told].sort()).toEqual([
      "neema sold 4 cows at the market today .",
      "neema sold cows 4 at the market today .",
    ]);
  });

  it("agree with the noun's class in Swahili", () => {
    const question = (noun: string) => tellProblem(problem("juma", noun, 2), speakerOf("sw")).split(" . ")[1];
    expect(question("mangoes")).toBe("juma ana maembe mangapi sasa ?");
    expect(question("books")).toBe("juma ana vitabu vingapi sasa ?");
    expect(question("pens")).toBe("juma ana kalamu ngapi sasa ?");
    expect(question("goats")).toBe("juma ana mbuzi wangapi sasa ?");
    expect(question("bags")).toBe("juma ana mifuko mingapi sasa ?");
  });

  it("mix both languages word by word", () => {
    const random = Random.of(0, "mixed");
    const told = new Set(Array.from({ length: 300 }, () => tellAct(act, mixedSpeaker(random))));
    expect(told).toContain("neema sold 4 ng'ombe at the market leo .");
    expect(told.size).toBeGreaterThan(24);
  });

  it("count in words", () => {
    expect([0, 7, 10, 13, 20, 21, 40].map((n) => numberWords(n, "en"))).toEqual([
      "zero",
      "seven",
      "ten",
      "thirteen",
      "twenty",
      "twenty one",
      "forty",
    ]);
    expect([0, 7, 10, 13, 20, 21, 40].map((n) => numberWords(n, "sw"))).toEqual([
      "sifuri",
      "saba",
      "kumi",
      "kumi na tatu",
      "ishirini",
      "ishirini na moja",
      "arobaini",
    ]);
  });
});

describe("problems", () => {
  const example = problem("asha", "mangoes", 9, ["bought", 4], ["saw", 3]);

  it("are told, and solved step by step", () => {
    expect(tellProblem(example, speakerOf("en"))).toBe(
      "asha had 9 mangoes . asha bought 4 mangoes . asha saw 3 mangoes . how many mangoes does asha have now ?",
    );
    expect(tellProblem(example, speakerOf("sw"))).toBe(
      "asha alikuwa na maembe 9 . asha alinunua maembe 4 . asha aliona maembe 3 . asha ana maembe mangapi sasa ?",
    );
    expect(solveProblem(example)).toBe("9 + 4 = 13 . 13 + 0 = 13 . the answer is 13 .");
    expect(solveProblem(problem("asha", "mangoes", 9, ["lost", 5]))).toBe("9 - 5 = 4 . the answer is 4 .");
    expect(answerOf(problem("asha", "mangoes", 9, ["lost", 5], ["sold", 4]))).toBe(0);
  });

  it("are held out by the digest of their English text", () => {
    // int(hashlib.md5(text).hexdigest(), 16) % 10, in Python.
    const juma = (start: number) => problem("juma", "mats", start, ["bought", 4], ["sold", 3]);
    const starts = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    expect(starts.filter((start) => isHeldOut(juma(start)))).toEqual([8]);
  });

  it("stay within the numbers of the world", () => {
    const random = Random.of(5, "problems");
    const drawn = Array.from({ length: 3000 }, () => drawProblem(random));
    for (const one of drawn) {
      const numbers = solveProblem(one).match(/\d+/g)?.map(Number) ?? [];
      expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...numbers)).toBeLessThanOrEqual(40);
    }
    const share = (holds: (one: Problem) => boolean) => drawn.filter(holds).length / drawn.length;
    expect(share(({ steps }) => steps.length === 1)).toBeCloseTo(0.1, 1);
    expect(share(isHeldOut)).toBeCloseTo(0.1, 1);
    // Half of each verb, so 1 - (0.1 / 2 + 0.9 / 4); the miniature's gap.
    expect(share(({ steps }) => steps.some(({ verb }) => !verb.known))).toBeCloseTo(0.725, 1);
  });

  it("of the evaluation are different, and never trained on", () => {
    const { test, development } = heldOutProblems(0, { test: 60, development: 40 });
    expect([test.length, development.length]).toEqual([60, 40]);
    const texts = [...test, ...development].map((one) => tellProblem(one, speakerOf("en")));
    expect(new Set(texts).size).toBe(100);
    expect([...test, ...development].every(isHeldOut)).toBe(true);
    const random = Random.of(0, "training");
    for (let i = 0; i < 500; i++) expect(isHeldOut(drawTrainingProblem(random))).toBe(false);
    expect(heldOutProblems(0, { test: 60, development: 40 }).test).toEqual(test);
    expect(heldOutProblems(1, { test: 60, development: 40 }).test).not.toEqual(test);
  });
});

describe("mixtures", () => {
  it("depend on the seed alone, and one is a beginning of another", () => {
    expect(take(MIXES.base, 50)).toEqual(take(MIXES.base, 60).slice(0, 50));
    expect(take(MIXES.base, 50, 1)).not.toEqual(take(MIXES.base, 50));
  });

  it("keep verbs that are not known out of the base's Swahili mathematics, and problems from the language expert", () => {
    const base = take(MIXES.base, 6000);
    const problems = base.filter(({ prompt }) => prompt.endsWith("[solve] :"));
    expect(problems.filter(saysUnknown)).toEqual([]);
    expect(problems.filter(({ prompt }) => /ali/.test(prompt)).length).toBeGreaterThan(200);
    const more = base.filter(
      ({ prompt, response }) => prompt.includes("zaidi") || /^(more|fewer|the same)$/.test(response),
    );
    expect(more.length).toBeGreaterThan(500);
    expect(more.filter(saysUnknown)).toEqual([]);
    expect(base.filter(saysUnknown).length).toBeGreaterThan(300); // they are met elsewhere

    const language = take(MIXES.language, 3000);
    expect(language.filter(({ prompt }) => prompt.includes("[solve]"))).toEqual([]);
    const taught = language.filter((one) => /^(more|fewer|the same|zaidi|pungufu|sawa)$/.test(one.response));
    expect(taught.filter(saysUnknown).length).toBeGreaterThan(300);
    expect(take(MIXES.math, 300).every(({ prompt }) => /have now \? \[solve\] :$/.test(prompt))).toBe(true);
  });

  it("have the shares that they say", () => {
    const examples = take(MIXES.language, 4000);
    const share = examples.filter(({ prompt }) => /\[(english|swahili)\] :$/.test(prompt)).length / examples.length;
    const total = Object.values(MIXES.language).reduce((sum, weight) => sum + weight, 0);
    expect(share).toBeCloseTo((MIXES.language.translation + MIXES.language["mixed to English"]) / total, 1);
  });
});
