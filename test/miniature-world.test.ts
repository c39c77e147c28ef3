// The miniature's world: its words, texts and problems, and that what must not be trained on is not.
// @module-tag slow
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Tokenizer } from "@huggingface/tokenizers";
import { describe, expect, it } from "vitest";
import {
  drawExample,
  drawExamples,
  type Example,
  howMany,
  MIXES,
  type Mix,
  TASK_NAMES,
  type Task,
} from "../examples/miniature/world/exercises.js";
import {
  isNewInSwahili,
  LARGEST_NUMBER,
  MARKS,
  NAMES,
  NOUNS,
  PLACES,
  SMALL,
  swahiliNumber,
  VERBS,
} from "../examples/miniature/world/lexicon.js";
import {
  answerOf,
  BASE_COUNT,
  drawProblem,
  drawTrainingProblem,
  heldOutProblems,
  isHeldOut,
  type Problem,
  solveProblem,
  takesBoth,
  tellProblem,
} from "../examples/miniature/world/problems.js";
import {
  askHowMany,
  ENGLISH,
  KNOWN_SWAHILI,
  mixedSpeaker,
  SWAHILI,
  tellAct,
  tellFeeling,
  tellPossession,
} from "../examples/miniature/world/sentences.js";
import { SHIPPED } from "../examples/miniature/world/untrained-model.js";
import { demoProblems } from "../examples/miniature/write.js";
import { Random } from "../src/kit/random.js";
import { makeChatTemplate } from "../src/text/index.js";

/** Positions of a training sequence. */
const SEQUENCE_LENGTH = 128;
const shipped = (name: string) => JSON.parse(readFileSync(join(SHIPPED, "base", name), "utf8"));
const tokenizerConfig = shipped("tokenizer_config.json") as { chat_template: string };
const tokenizer = new Tokenizer(shipped("tokenizer.json"), tokenizerConfig);
const vocabulary = shipped("tokenizer.json").model.vocab as Record<string, number>;
// Numbers come first among the keys.
const VOCABULARY = Object.keys(vocabulary).sort((one, other) => (vocabulary[one] ?? 0) - (vocabulary[other] ?? 0));
/** A Swahili word in syllables: consonants and then a vowel, as every Swahili syllable is, nasals aside. */
const syllables = (word: string): string[] => word.match(/[^aeiou]*[aeiou]/g) ?? [];
const encode = (text: string): number[] => tokenizer.encode(text, { add_special_tokens: false }).ids;
const tokensOf = (text: string): string[] => encode(text).map((id) => VOCABULARY[id] ?? "");

const NUMBERS = Array.from({ length: LARGEST_NUMBER + 1 }, (_, number) => number);
const TERMS = [...Object.values(SMALL), ...NOUNS, ...VERBS, ...PLACES];

const take = (mix: Mix, count: number, seed = 0): Example[] => {
  const examples = drawExamples(mix, seed, "test");
  return Array.from({ length: count }, () => examples.next().value);
};

/** As many examples of each task of a mixture, whatever the shares. */
const takeOfEach = (mix: Mix, count: number): Example[] => {
  const random = Random.of(7, "of each task");
  const tasks = Object.keys(mix) as Task[];
  return tasks.flatMap((task) => Array.from({ length: count }, () => drawExample(task, random)));
};

/** Words and signs of punctuation. */
const wordsIn = (text: string): string[] => text.match(/[.?:]|[^\s.?:]+/g) ?? [];
const wordsOf = ({ prompt, response }: Example): string[] => wordsIn(`${prompt} ${response}`);
const markOf = ({ prompt }: Example): string => /([A-Z][a-z]+):$/.exec(prompt)?.[1] ?? "";

/** All numbers of a text, from digits or from Swahili words. */
function numbersIn(text: string): number[] {
  const inWords = NUMBERS.map(swahiliNumber);
  const longestFirst = inWords.toSorted((a, b) => b.length - a.length);
  const found = ` ${wordsIn(text).join(" ")} `.matchAll(
    new RegExp(`(?<= )(?:\\d+|${longestFirst.join("|")})(?= )`, "g"),
  );
  return [...found].map(([one]) => (inWords.includes(one) ? inWords.indexOf(one) : Number(one)));
}

const isName = (word: string) => (NAMES as readonly string[]).includes(word);
const namesIn = (text: string) => wordsIn(text).filter(isName);
const signIn = (text: string) =>
  VERBS.find(({ en, sw }) => wordsIn(text).some((word) => [en, sw].includes(word)))?.sign ?? 0;

const termOf = <T extends { en: string }>(terms: readonly T[], en: string): T => {
  const found = terms.find((term) => term.en === en);
  if (!found) throw new Error(`the world has no ${en}`);
  return found;
};
const act = {
  who: "Neema",
  verb: termOf(VERBS, "sold"),
  count: 4,
  noun: termOf(NOUNS, "bananas"),
  place: termOf(PLACES, "at the market"),
};
const problem = (start: number, verb: string, count: number, place?: string): Problem => ({
  ...{ who: "Juma", noun: termOf(NOUNS, "pens"), start, verb: termOf(VERBS, verb), count },
  ...(place === undefined ? {} : { place: termOf(PLACES, place) }),
});

describe("the tokenizer", () => {
  it("gives the ids that Hugging Face tokenizers gives", () => {
    // tokenizers 0.23 (Python) on the same tokenizer.json.
    const text = "Asha alinunua ndizi kumi na tatu sokoni. English: Asha bought 13 bananas at the market.<eos>";
    const swahili = [1, 349, 699, 269, 303, 303, 100, 705, 283, 728, 333, 700, 710, 311, 715, 290, 281, 49];
    const ids = [...swahili, 631, 61, 617, 666, 605, 650, 686, 687, 688, 49, 2];
    expect(tokenizer.encode(text).ids).toEqual(ids);
    const pieces = "Asha Ġa li nu nu a Ġndi zi Ġku mi Ġna Ġta tu Ġso ko ni .";
    const whole = "ĠEnglish : ĠAsha Ġbought Ġ13 Ġbananas Ġat Ġthe Ġmarket . <eos>";
    expect(tokensOf(text)).toEqual(`${pieces} ${whole}`.split(" "));
    expect(tokenizer.decode(ids, { skip_special_tokens: true })).toBe(text.replace("<eos>", ""));
  });

  it("gives the ids that Hugging Face tokenizers gives on text of no world, and gives it back", () => {
    const text = "Café!\n  3  “x” Ünïcode 日本 don't 2024";
    expect(encode(text)).toEqual([
      ...[70, 100, 105, 198, 172, 36, 13, 35, 595, 35, 35, 229, 131, 159, 123, 229, 131, 160, 35, 198],
      ...[159, 113, 198, 178, 494, 103, 104, 35, 233, 154, 168, 233, 159, 175, 35, 428, 113, 42, 119, 612, 348],
    ]);
    expect(tokenizer.decode(encode(text))).toBe(text);
  });

  it("keeps names, numbers and words of English whole and cuts words of Swahili into syllables", () => {
    const whole = [...NAMES, ...NUMBERS.map(String), ...MARKS, ...TERMS.flatMap(({ en }) => en.split(" "))];
    for (const word of whole) expect([tokensOf(word), tokensOf(` ${word}`)]).toEqual([[word], [`Ġ${word}`]]);
    const swahili = [...TERMS.map(({ sw }) => sw), ...NUMBERS.map(swahiliNumber)].flatMap((said) => said.split(" "));
    for (const word of swahili.filter((one) => one !== "")) {
      const pieces = syllables(word);
      expect(pieces.join("")).toBe(word);
      expect(tokensOf(word)).toEqual(pieces);
      expect(tokensOf(` ${word}`)).toEqual(pieces.map((piece, at) => (at === 0 ? `Ġ${piece}` : piece)));
    }
  });

  it("reads every text and gives it back", () => {
    const random = Random.of(3, "texts");
    for (const task of TASK_NAMES) {
      for (let i = 0; i < 60; i++) {
        const { prompt, response } = drawExample(task, random);
        const ids = encode(`${prompt} ${response}`);
        expect(tokenizer.decode(ids)).toBe(`${prompt} ${response}`);
        expect(ids.length + 2).toBeLessThanOrEqual(SEQUENCE_LENGTH);
      }
    }
    for (const text of ["Mtu 2½ naïve", "日本 🙂", "\n\t  x"]) expect(tokenizer.decode(encode(text))).toBe(text);
  });

  it("has each token once, special tokens first, then the bytes", () => {
    expect(VOCABULARY.map((token) => vocabulary[token])).toEqual(VOCABULARY.map((_, id) => id));
    expect(VOCABULARY.slice(0, 3)).toEqual(["<pad>", "<bos>", "<eos>"]);
    expect(VOCABULARY.slice(3, 259).every((token) => token.length === 1)).toBe(true);
  });

  it("has a chat template that writes a problem as the texts of the training data do", () => {
    const variables = { bos_token: "<bos>", eos_token: "<eos>" };
    const template = makeChatTemplate(tokenizerConfig.chat_template, { variables });
    const asked = [{ role: "user", content: "How many bananas does Asha have now?" }];
    expect(template.render(asked, { addGenerationPrompt: true })).toBe(
      "<bos>How many bananas does Asha have now? Solve:",
    );
    const messages = [...asked, { role: "assistant", content: "9 - 7 = 2." }];
    expect(template.render(messages)).toBe("<bos>How many bananas does Asha have now? Solve: 9 - 7 = 2.<eos>");
  });
});

describe("numbers", () => {
  it("are words in Swahili", () => {
    expect(NUMBERS.map(swahiliNumber)).toEqual([
      ...["sifuri", "moja", "mbili", "tatu", "nne", "tano", "sita", "saba", "nane", "tisa"],
      ...["kumi", "kumi na moja", "kumi na mbili", "kumi na tatu", "kumi na nne"],
      ...["kumi na tano", "kumi na sita", "kumi na saba", "kumi na nane", "kumi na tisa"],
      ...["ishirini", "ishirini na moja", "ishirini na mbili", "ishirini na tatu", "ishirini na nne"],
    ]);
    expect(NUMBERS.map((number) => SWAHILI.number(number))).toEqual(NUMBERS.map(swahiliNumber));
  });

  it("are digits in English", () => {
    expect(NUMBERS.map((number) => ENGLISH.number(number))).toEqual(NUMBERS.map(String));
  });

  it("are digits in the base's Swahili where a word is new", () => {
    expect(NUMBERS.map((number) => KNOWN_SWAHILI.number(number))).toEqual([
      ...["sifuri", "moja", "mbili", "3", "nne", "5", "sita", "7", "nane", "9"],
      ...["kumi", "kumi na moja", "kumi na mbili", "13", "kumi na nne"],
      ...["15", "kumi na sita", "17", "kumi na nane", "19"],
      ...["ishirini", "ishirini na moja", "ishirini na mbili", "23", "ishirini na nne"],
    ]);
    expect(NUMBERS.filter(isNewInSwahili)).toEqual([3, 5, 7, 9, 13, 15, 17, 19, 23]);
  });
});

describe("sentences", () => {
  it("put the number where the language has it", () => {
    expect(tellAct(act, ENGLISH)).toBe("Neema sold 4 bananas at the market.");
    expect(tellAct(act, SWAHILI)).toBe("Neema aliuza ndizi nne sokoni.");
    expect(tellAct({ ...act, count: 13 }, SWAHILI)).toBe("Neema aliuza ndizi kumi na tatu sokoni.");
    expect(tellAct({ ...act, count: 13 }, KNOWN_SWAHILI)).toBe("Neema aliuza ndizi 13 sokoni.");
    expect(tellPossession("Juma", 12, act.noun, ENGLISH)).toBe("Juma had 12 bananas.");
    expect(tellPossession("Juma", 12, act.noun, SWAHILI)).toBe("Juma alikuwa na ndizi kumi na mbili.");
  });

  it("ask for the number in each language's order", () => {
    expect(askHowMany("Juma", act.noun, ENGLISH)).toBe("How many bananas does Juma have now?");
    expect(askHowMany("Juma", act.noun, SWAHILI)).toBe("Juma ana ndizi ngapi sasa?");
  });

  it("are happy about more and sad about less", () => {
    expect(tellFeeling(act, ENGLISH)).toBe("Neema feels sad.");
    expect(tellFeeling(act, SWAHILI)).toBe("Neema ana huzuni.");
    expect(tellFeeling({ ...act, verb: termOf(VERBS, "found") }, SWAHILI)).toBe("Neema ana furaha.");
  });

  it("mix both languages word by word, in the order of either", () => {
    const random = Random.of(0, "mixed");
    const told = new Set(Array.from({ length: 800 }, () => tellAct(act, mixedSpeaker(random))));
    expect(told).toContain("Neema sold ndizi 4 sokoni.");
    expect(told).toContain("Neema aliuza nne bananas at the market.");
    // Two verbs, two nouns, two numbers, two places and two orders.
    expect(told.size).toBe(32);
  });

  it("mix in only the Swahili of the speaker that they are given", () => {
    const random = Random.of(1, "mixed");
    const tellSeven = () => tellAct({ ...act, count: 7 }, mixedSpeaker(random, KNOWN_SWAHILI));
    const told = new Set(Array.from({ length: 800 }, tellSeven));
    expect(told.size).toBe(16);
    expect([...told].filter((text) => !text.split(" ").includes("7"))).toEqual([]);
  });
});

describe("problems", () => {
  it("are told, and solved", () => {
    const sold = problem(9, "sold", 7, "at the school");
    expect(tellProblem(sold, ENGLISH)).toBe(
      "Juma had 9 pens. Juma sold 7 pens at the school. How many pens does Juma have now?",
    );
    expect(tellProblem(sold, SWAHILI)).toBe(
      "Juma alikuwa na kalamu tisa. Juma aliuza kalamu saba shuleni. Juma ana kalamu ngapi sasa?",
    );
    expect([answerOf(sold), solveProblem(sold)]).toEqual([2, "9 - 7 = 2."]);
    const bought = problem(12, "bought", 9);
    expect(tellProblem(bought, KNOWN_SWAHILI)).toBe(
      "Juma alikuwa na kalamu kumi na mbili. Juma alinunua kalamu 9. Juma ana kalamu ngapi sasa?",
    );
    expect([answerOf(bought), solveProblem(bought)]).toEqual([21, "12 + 9 = 21."]);
    expect(solveProblem(problem(5, "lost", 5))).toBe("5 - 5 = 0.");
  });

  it("are held out by the digest of their English text", () => {
    // int(hashlib.md5(text.encode()).hexdigest(), 16) % 10 == 0, in Python.
    const counts = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    const heldOut = (start: number, verb: string, place?: string) =>
      counts.filter((count) => isHeldOut(problem(start, verb, count, place)));
    expect([3, 4, 5, 6, 7, 8].map((start) => heldOut(start, "bought"))).toEqual([[6], [6], [4], [8], [5], []]);
    expect([8, 9, 10, 11, 12].map((start) => heldOut(start, "sold"))).toEqual([[], [], [2], [6], []]);
    expect([10, 11, 12].map((start) => heldOut(start, "sold", "at the market"))).toEqual([[5, 6, 9], [5], [4]]);
  });

  it("stay within the numbers of the world", () => {
    const random = Random.of(5, "problems");
    const drawn = Array.from({ length: 3000 }, () => drawProblem(random));
    const numbers = drawn.flatMap((one) => numbersIn(solveProblem(one)));
    expect(numbers).toHaveLength(9000);
    expect(Math.min(...numbers)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...numbers)).toBeLessThanOrEqual(24);
    expect(drawn.filter(isHeldOut).length / drawn.length).toBeCloseTo(0.1, 1);
    const small = Array.from({ length: 300 }, () => drawProblem(random, 2).count);
    expect(new Set(small)).toEqual(new Set([1, 2]));
  });

  it("take both experts if a number is large and a word is new", () => {
    const cases = [
      [3, BASE_COUNT + 1], // a new word for the start
      [4, 9], // and for the count
      [4, 8], // no new word
      [13, BASE_COUNT], // no large number
    ] as const;
    expect(cases.map(([start, count]) => takesBoth(problem(start, "bought", count)))).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it("of the evaluation are different, take both experts, and are never trained on", () => {
    const { test, development } = heldOutProblems(0, { test: 600, development: 200 });
    expect([test.length, development.length]).toEqual([600, 200]);
    const all = [...test, ...development];
    expect(new Set(all.map((one) => tellProblem(one, ENGLISH))).size).toBe(800);
    expect(new Set(all.map((one) => tellProblem(one, SWAHILI))).size).toBe(800);
    expect(all.every(takesBoth)).toBe(true);
    expect(all.every(isHeldOut)).toBe(true);
    const random = Random.of(0, "training");
    for (let i = 0; i < 1000; i++) expect(isHeldOut(drawTrainingProblem(random))).toBe(false);
    expect(heldOutProblems(0, { test: 600, development: 200 })).toEqual({ test, development });
    expect(heldOutProblems(1, { test: 600, development: 0 }).test).not.toEqual(test);
  });
});

describe("the demo's problems", () => {
  it.each(["problems", "choosing"] as const)("are those of the world: %s", (name) => {
    const shipped = readFileSync(join("assets/demo/data", `${name}.jsonl`), "utf8");
    expect(shipped).toBe(
      demoProblems()
        [name].map((row) => `${JSON.stringify(row)}\n`)
        .join(""),
    );
  });
});

describe("examples", () => {
  /** The response that a text and its mark ask for, read from the text itself. */
  const asked: Readonly<Record<string, (text: string) => string>> = {
    Solve: (text) => {
      const [start = 0, count = 0] = numbersIn(text);
      const sign = signIn(text);
      return `${start} ${sign > 0 ? "+" : "-"} ${count} = ${start + sign * count}.`;
    },
    Answer: (text) => {
      const [start = 0, count = 0] = numbersIn(text);
      return String(start + signIn(text) * count);
    },
    More: (text) => (signIn(text) > 0 ? "more" : "less"),
    Who: (text) => {
      const [mine = 0, theirs = 0] = numbersIn(text);
      return namesIn(text)[mine > theirs ? 0 : 1] ?? "";
    },
    // The name of who is asked about follows two acts; one act has its number alone.
    Number: (text) => {
      const names = namesIn(text);
      return String(numbersIn(text)[names.indexOf(names.at(-1) ?? "")]);
    },
    Digits: (text) => String(numbersIn(text)[0]),
    Words: (text) => swahiliNumber(Number(text)),
  };

  it("ask with a mark after the text, and answer what the text says", () => {
    const random = Random.of(11, "asked");
    const marks = new Set<string>();
    for (const task of TASK_NAMES) {
      for (let i = 0; i < 80; i++) {
        const example = drawExample(task, random);
        const mark = markOf(example);
        marks.add(mark);
        expect(MARKS).toContain(mark);
        const text = example.prompt.replace(`${mark}:`, "").trim();
        const expected = asked[mark]?.(text);
        if (expected !== undefined) expect({ ...example, response: expected }).toEqual(example);
      }
    }
    expect([...marks].sort()).toEqual([...MARKS].sort());
  });

  it("translate an act with its name, number and meaning", () => {
    const random = Random.of(12, "translated");
    for (const task of ["translation", "translation, known", "mixed to English", "mixed to English, known"] as const) {
      for (let i = 0; i < 80; i++) {
        const { prompt, response } = drawExample(task, random);
        const about = (text: string) => [namesIn(text), numbersIn(text), signIn(text)];
        expect(about(response)).toEqual(about(prompt));
      }
    }
  });

  it("calculate bare sums within the numbers of the world", () => {
    const equations = takeOfEach({ sums: 1 }, 300).flatMap(({ response }) => response.split("."));
    const parts = equations.filter((one) => one !== "").map((one) => /^ ?(\d+) ([+-]) (\d+) = (\d+)$/.exec(one));
    expect(parts.length).toBeGreaterThanOrEqual(600);
    for (const [text, first, sign, second, result] of parts.map((match) => match ?? [])) {
      const expected = sign === "+" ? Number(first) + Number(second) : Number(first) - Number(second);
      expect([text, Number(result)]).toEqual([text, expected]);
      expect(expected).toBeGreaterThanOrEqual(0);
      expect(expected).toBeLessThanOrEqual(LARGEST_NUMBER);
    }
  });

  it("ask for the number of a given act, also beside another act", () => {
    const random = Random.of(4, "reading");
    const told = tellAct({ ...act, count: 13 }, SWAHILI);
    const drawn = Array.from({ length: 60 }, () => howMany(random, SWAHILI, { ...act, count: 13 }));
    for (const { prompt, response } of drawn) {
      expect(prompt).toContain(told);
      expect(response).toBe("13");
    }
    const alone = drawn.filter(({ prompt }) => prompt === `${told} Number:`);
    const beside = drawn.filter(({ prompt }) => prompt.endsWith(". Neema Number:"));
    expect(alone.length).toBeGreaterThan(10);
    expect(alone.length + beside.length).toBe(60);
  });
});

describe("mixtures", () => {
  it("depend on the seed alone, and one is a beginning of another", () => {
    expect(take(MIXES.base, 50)).toEqual(take(MIXES.base, 60).slice(0, 50));
    expect(take(MIXES.base, 50, 1)).not.toEqual(take(MIXES.base, 50));
  });

  it("have the shares that they say, which need not add up to one", () => {
    const examples = take({ sums: 3, "number words": 1, translation: 0 }, 4000);
    const share = (...marks: string[]) =>
      examples.filter((one) => marks.includes(markOf(one))).length / examples.length;
    // Five standard errors are 0.034.
    expect(Math.abs(share("Sums") - 0.75)).toBeLessThan(0.035);
    expect(share("Sums") + share("Digits", "Words")).toBe(1);
  });

  it("keep new words and large numbers of problems out of the base", () => {
    const base = takeOfEach(MIXES.base, 200);
    const newWords = ["tatu", "tano", "saba", "tisa"];
    expect(base.filter((one) => wordsOf(one).some((word) => newWords.includes(word)))).toEqual([]);
    const problems = base.filter((one) => ["Solve", "Answer"].includes(markOf(one)));
    expect(problems.length).toBeGreaterThanOrEqual(200);
    for (const { prompt } of problems) {
      const numbers = numbersIn(prompt);
      expect(numbers).toHaveLength(2);
      expect(numbers[1]).toBeLessThanOrEqual(BASE_COUNT);
    }
  });

  it("teach the language expert new words and no mathematics", () => {
    const language = takeOfEach(MIXES.language, 200);
    const marks = new Set(language.map(markOf));
    expect(["Solve", "Answer", "Sums"].filter((mark) => marks.has(mark))).toEqual([]);
    const words = new Set(language.flatMap(wordsOf));
    expect(["tatu", "tano", "saba", "tisa"].filter((word) => !words.has(word))).toEqual([]);
  });

  it("teach the math expert problems in English alone, with large numbers", () => {
    const math = takeOfEach(MIXES.math, 400);
    const english = new Set([
      ...[...NAMES, ...NUMBERS.map(String), ...[".", "?", ":", "+", "-", "=", "How", "Solve"]],
      ...TERMS.flatMap(({ en }) => en.split(" ")),
    ]);
    expect(math.flatMap(wordsOf).filter((word) => !english.has(word))).toEqual([]);
    expect(math.filter(({ prompt }) => !prompt.endsWith("have now? Solve:"))).toEqual([]);
    const counts = math.map(({ prompt }) => numbersIn(prompt)[1] ?? 0);
    expect(Math.max(...counts)).toBeGreaterThan(BASE_COUNT);
  });
});
