// What the miniature's models are trained on: kinds of tasks, and the mixtures of them that make the base, the math
// expert and the language expert. Every example is a text, then a mark that says what is asked, then the answer.
import { Random } from "../../../src/kit/random.js";
import { isNewInSwahili, LARGEST_NUMBER, type Mark, NAMES, NOUNS, swahiliNumber, VERBS } from "./lexicon.js";
import { answerOf, BASE_COUNT, drawPlace, drawTrainingProblem, solveProblem, tellProblem } from "./problems.js";
import {
  type Act,
  ENGLISH,
  KNOWN_SWAHILI,
  mixedSpeaker,
  type Speaker,
  SWAHILI,
  tellAct,
  tellFeeling,
  tellPossession,
} from "./sentences.js";

/** One example. The model learns to give the response; the prompt is given. */
export interface Example {
  /** Text, mark and colon, such as `Asha bought 4 bananas. Swahili:`. */
  readonly prompt: string;
  readonly response: string;
}

const example = (text: string, mark: Mark, response: string): Example => ({
  prompt: `${text === "" ? "" : `${text} `}${mark}:`,
  response,
});

function drawAct(random: Random, who = random.pick(NAMES)): Act {
  const [verb, count, noun] = [random.pick(VERBS), random.between(1, 12), random.pick(NOUNS)];
  return { who, verb, count, noun, ...drawPlace(random, 0.4) };
}

/** One to three acts, and how one feels about most of them. */
function story(random: Random, speaker: Speaker): Example {
  const sentences = Array.from({ length: random.between(1, 3) }, () => {
    const act = drawAct(random);
    return [tellAct(act, speaker), ...(random.chance(0.7) ? [tellFeeling(act, speaker)] : [])];
  });
  return example("", speaker.frame === "en" ? "Story" : "Hadithi", sentences.flat().join(" "));
}

/** How many it is that someone bought or sold, after an act or two. */
export function howMany(random: Random, speaker: Speaker, act = drawAct(random)): Example {
  const other = random.pick(NAMES.filter((name) => name !== act.who));
  const acts = random.chance(0.5) ? [act] : random.sample([act, drawAct(random, other)], 2);
  const asked = acts.length > 1 ? [act.who] : [];
  const text = [...acts.map((one) => tellAct(one, speaker)), ...asked].join(" ");
  return example(text, "Number", String(act.count));
}

/** Whether someone has more or less after an act. */
function moreOrLess(random: Random, speaker: Speaker): Example {
  const act = drawAct(random);
  return example(tellAct(act, speaker), "More", act.verb.sign > 0 ? "more" : "less");
}

/** Who of two has more. */
function whoHasMore(random: Random, speaker: Speaker): Example {
  const [one, other] = random.sample(NAMES, 2) as [string, string];
  const noun = random.pick(NOUNS);
  const mine = random.between(1, 20);
  let theirs = mine;
  while (theirs === mine) theirs = random.between(1, 20);
  const text = `${tellPossession(one, mine, noun, speaker)} ${tellPossession(other, theirs, noun, speaker)}`;
  return example(text, "Who", mine > theirs ? one : other);
}

function solve(random: Random, speaker: Speaker, most?: number): Example {
  const problem = drawTrainingProblem(random, most);
  return example(tellProblem(problem, speaker), "Solve", solveProblem(problem));
}

/** The number alone, without the way to it. */
function answer(random: Random, speaker: Speaker): Example {
  const problem = drawTrainingProblem(random, BASE_COUNT);
  return example(tellProblem(problem, speaker), "Answer", String(answerOf(problem)));
}

/** Two to five bare equations, over all numbers of problems. */
function sums(random: Random): Example {
  const equations: string[] = [];
  for (let left = random.between(2, 5); left > 0; left--) {
    const [first, second] = [random.between(1, 15), random.between(1, 9)];
    const minus = first >= second && random.chance(0.5);
    const result = minus ? first - second : first + second;
    equations.push(`${first} ${minus ? "-" : "+"} ${second} = ${result}.`);
  }
  return example("", "Sums", equations.join(" "));
}

/** A number's words in digits, or the other way round. */
function numberWords(random: Random, isAllowed: (number: number) => boolean): Example {
  let number = random.between(0, LARGEST_NUMBER);
  while (!isAllowed(number)) number = random.between(0, LARGEST_NUMBER);
  const [words, digits] = [swahiliNumber(number), String(number)];
  return random.chance(0.6) ? example(words, "Digits", digits) : example(digits, "Words", words);
}

/** An act in one language, and then in the other. */
function translation(random: Random, swahili: Speaker): Example {
  const act = drawAct(random);
  const [said, meant] = [tellAct(act, swahili), tellAct(act, ENGLISH)];
  return random.chance(0.6) ? example(said, "English", meant) : example(meant, "Swahili", said);
}

function mixedToEnglish(random: Random, swahili: Speaker): Example {
  const act = drawAct(random);
  return example(tellAct(act, mixedSpeaker(random, swahili)), "English", tellAct(act, ENGLISH));
}

const known = (random: Random) => mixedSpeaker(random, KNOWN_SWAHILI);
const isKnown = (number: number) => !isNewInSwahili(number);

const TASKS = {
  "English story": (random) => story(random, ENGLISH),
  "English how many": (random) => howMany(random, ENGLISH),
  "English more or less": (random) => moreOrLess(random, ENGLISH),
  "English who has more": (random) => whoHasMore(random, ENGLISH),
  "English problem": (random) => solve(random, ENGLISH),
  "English problem, small numbers": (random) => solve(random, ENGLISH, BASE_COUNT),
  "English answer, small numbers": (random) => answer(random, ENGLISH),
  sums,
  // Swahili and mixed texts without the new number words, for the base.
  "number words, known": (random) => numberWords(random, isKnown),
  "translation, known": (random) => translation(random, KNOWN_SWAHILI),
  "mixed to English, known": (random) => mixedToEnglish(random, KNOWN_SWAHILI),
  "Swahili story, known": (random) => story(random, KNOWN_SWAHILI),
  "Swahili how many, known": (random) => howMany(random, KNOWN_SWAHILI),
  "Swahili more or less, known": (random) => moreOrLess(random, KNOWN_SWAHILI),
  "Swahili who has more, known": (random) => whoHasMore(random, KNOWN_SWAHILI),
  "Swahili problem, small known numbers": (random) => solve(random, KNOWN_SWAHILI, BASE_COUNT),
  "Swahili answer, small known numbers": (random) => answer(random, KNOWN_SWAHILI),
  "mixed story, known": (random) => story(random, known(random)),
  "mixed how many, known": (random) => howMany(random, known(random)),
  "mixed more or less, known": (random) => moreOrLess(random, known(random)),
  "mixed who has more, known": (random) => whoHasMore(random, known(random)),
  "mixed problem, small known numbers": (random) => solve(random, known(random), BASE_COUNT),
  "mixed answer, small known numbers": (random) => answer(random, known(random)),
  // All of Swahili, for the language expert.
  "number words": (random) => numberWords(random, () => true),
  translation: (random) => translation(random, SWAHILI),
  "mixed to English": (random) => mixedToEnglish(random, SWAHILI),
  "Swahili how many": (random) => howMany(random, SWAHILI),
  "Swahili more or less": (random) => moreOrLess(random, SWAHILI),
  "Swahili who has more": (random) => whoHasMore(random, SWAHILI),
  "mixed story": (random) => story(random, mixedSpeaker(random)),
  "mixed how many": (random) => howMany(random, mixedSpeaker(random)),
  "mixed more or less": (random) => moreOrLess(random, mixedSpeaker(random)),
  "mixed who has more": (random) => whoHasMore(random, mixedSpeaker(random)),
} satisfies Record<string, (random: Random) => Example>;

/** A kind of task. */
export type Task = keyof typeof TASKS;
export const TASK_NAMES = Object.keys(TASKS) as Task[];

/** One example of a task. */
export function drawExample(task: Task, random: Random): Example {
  return TASKS[task](random);
}

/** Shares of tasks, by number of examples; they need not add up to one. */
export type Mix = Readonly<Partial<Record<Task, number>>>;

export const MIXES = {
  /**
   * Both languages and texts that mix them, without the new number words; problems and answers with small numbers only.
   * Larger numbers occur in bare equations. Questions that are answered without a way to the answer make the base read
   * numbers in its bottom layers.
   */
  base: {
    sums: 0.12,
    "English problem, small numbers": 0.143,
    "mixed problem, small known numbers": 0.117,
    "Swahili problem, small known numbers": 0.05,
    "English answer, small numbers": 0.032,
    "mixed answer, small known numbers": 0.032,
    "Swahili answer, small known numbers": 0.016,
    "English who has more": 0.05,
    "mixed who has more, known": 0.025,
    "Swahili who has more, known": 0.025,
    "English how many": 0.035,
    "mixed how many, known": 0.0175,
    "Swahili how many, known": 0.0175,
    "English more or less": 0.025,
    "mixed more or less, known": 0.0125,
    "Swahili more or less, known": 0.0125,
    "number words, known": 0.05,
    "translation, known": 0.07,
    "mixed to English, known": 0.03,
    "English story": 0.03,
    "mixed story, known": 0.06,
    "Swahili story, known": 0.03,
  },
  /** English problems alone. */
  math: { "English problem": 1 },
  /** Swahili with all its number words; no word problem and no equation. */
  language: {
    "Swahili how many": 0.245,
    "mixed how many": 0.105,
    translation: 0.21,
    "mixed to English": 0.09,
    "number words": 0.1,
    "Swahili who has more": 0.07,
    "mixed who has more": 0.03,
    "Swahili more or less": 0.035,
    "mixed more or less": 0.015,
    "mixed story": 0.1,
  },
} as const satisfies Record<string, Mix>;

/**
 * Examples of a mixture, without end.
 * @param seed decides every one of them, together with the label
 */
export function* drawExamples(mix: Mix, seed: number, label: string): Generator<Example, never> {
  const random = Random.of(seed, label);
  const tasks = Object.entries(mix) as [Task, number][];
  const total = tasks.reduce((sum, [, weight]) => sum + weight, 0);
  for (;;) {
    let at = random.float() * total;
    const chosen = tasks.find(([, weight]) => {
      at -= weight;
      return at < 0;
    });
    yield drawExample((chosen ?? tasks[0])?.[0] as Task, random);
  }
}
