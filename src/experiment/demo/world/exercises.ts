// What the miniature's models are trained on: kinds of tasks, and the mixtures of them that make the base, the math
// expert and the language expert. Every example is a text, then a mark that says what is asked, then the answer.
import { Random } from "../../../core/index.js";
import {
  LARGEST_NUMBER,
  type Language,
  type Mark,
  NAMES,
  NOUNS,
  numberWords,
  PLACES,
  TIMES,
  VERBS,
} from "./lexicon.js";
import { drawTrainingProblem, solveProblem, tellProblem } from "./problems.js";
import {
  type Act,
  answerAct,
  answerMore,
  askAct,
  askMore,
  aspectsOf,
  drawActs,
  MOST_AT_ONCE,
  mixedSpeaker,
  type Speaker,
  speakerOf,
  tellAct,
  tellPossession,
} from "./sentences.js";

/** One example. The model learns to give the response; the prompt is given. */
export interface Example {
  /** Text, mark and colon, such as `asha bought 4 mangoes . [swahili] :`. */
  readonly prompt: string;
  readonly response: string;
}

const KNOWN_VERBS = VERBS.filter(({ known }) => known);

const example = (text: string, mark: Mark, response: string): Example => ({
  prompt: `${text === "" ? "" : `${text} `}${mark} :`,
  response,
});

const tell = (acts: readonly Act[], speaker: Speaker) => acts.map((act) => tellAct(act, speaker)).join(" ");

/** Two acts, told without being asked for anything. */
function story(random: Random, speaker: Speaker, verbs = VERBS): Example {
  const mark = speaker.frame === "en" ? "[story]" : "[hadithi]";
  return example("", mark, tell(drawActs(random, 2, verbs), speaker));
}

/** A question about one of two acts; asked and answered in `asked`, by default in the text's own language. */
function question(random: Random, speaker: Speaker, verbs = VERBS, asked: Speaker = speaker): Example {
  const acts = drawActs(random, 2, verbs);
  const act = random.pick(acts);
  const aspect = random.pick(aspectsOf(act));
  const text = `${tell(acts, speaker)} ${askAct(act, aspect, asked)}`;
  return example(text, "[answer]", answerAct(act, aspect, asked.frame));
}

/** Whether someone has more after an act; the text may be in one language and the question in another. */
function moreOrFewer(random: Random, speaker: Speaker, verbs = VERBS, asked: Speaker = speaker): Example {
  const [act] = drawActs(random, 1, verbs) as [Act];
  const first = random.chance(0.5)
    ? `${tellPossession(act.who, random.between(MOST_AT_ONCE, 15), act.noun, speaker)} `
    : "";
  const { place: _, time: __, ...plain } = act;
  const text = `${first}${tellAct(random.chance(0.5) ? act : plain, speaker)} ${askMore(act.who, act.noun, asked)}`;
  return example(text, "[answer]", answerMore(act.verb, asked.frame));
}

function problem(random: Random, speaker: Speaker, verbs = VERBS): Example {
  const drawn = drawTrainingProblem(random, verbs);
  return example(tellProblem(drawn, speaker), "[solve]", solveProblem(drawn));
}

/** A sum within the numbers of the world. */
function drawSum(random: Random): { text: string; result: number } {
  const left = random.between(0, LARGEST_NUMBER - 8);
  const right = random.between(0, 8);
  const minus = left >= right && random.chance(0.5);
  return { text: `${left} ${minus ? "-" : "+"} ${right}`, result: minus ? left - right : left + right };
}

function sums(random: Random): Example {
  const drawn = [drawSum(random), drawSum(random), drawSum(random)];
  return example(
    drawn.map(({ text }) => `${text} .`).join(" "),
    "[sums]",
    drawn.map(({ text, result }) => `${text} = ${result} .`).join(" "),
  );
}

function sumQuestion(random: Random): Example {
  const { text, result } = drawSum(random);
  return example(`what is ${text} ?`, "[answer]", String(result));
}

function copy(random: Random): Example {
  const terms = [...NOUNS, ...PLACES, ...TIMES, ...VERBS, ...NAMES.map((name) => ({ en: name, sw: name }))];
  const text = random
    .sample(terms, random.between(2, 5))
    .map((term) => (random.chance(0.5) ? term.en : term.sw))
    .join(" ");
  return example(text, "[repeat]", text);
}

function numbers(random: Random): Example {
  const number = random.between(0, LARGEST_NUMBER);
  const language: Language = random.chance(0.5) ? "en" : "sw";
  const words = numberWords(number, language);
  if (random.chance(0.5)) return example(words, "[digits]", String(number));
  return example(String(number), language === "en" ? "[words]" : "[maneno]", words);
}

/** One act or two, in one language and then in the other. */
function translation(random: Random, verbs = VERBS): Example {
  const acts = drawActs(random, random.between(1, 2), verbs);
  const swahili = tell(acts, speakerOf("sw"));
  // Numbers stand before the noun in English that is answered, so that there is one right answer.
  if (random.chance(2 / 3)) return example(swahili, "[english]", tell(acts, speakerOf("en")));
  return example(tell(acts, speakerOf("en", random)), "[swahili]", swahili);
}

function mixedToEnglish(random: Random, verbs = VERBS): Example {
  const acts = drawActs(random, random.between(1, 2), verbs);
  return example(tell(acts, mixedSpeaker(random)), "[english]", tell(acts, speakerOf("en")));
}

const english = (random: Random) => speakerOf("en", random);
const swahili = speakerOf("sw");

const TASKS = {
  "English question": (random) => question(random, english(random)),
  "English more or fewer": (random) => moreOrFewer(random, english(random)),
  "English problem": (random) => problem(random, english(random)),
  sums,
  "sum question": sumQuestion,
  copy,
  numbers,
  translation: (random) => translation(random),
  "translation, known verbs": (random) => translation(random, KNOWN_VERBS),
  "Swahili question, known verbs": (random) => question(random, swahili, KNOWN_VERBS),
  "Swahili text, English question": (random) => question(random, swahili, VERBS, english(random)),
  "Swahili text, English question, known verbs": (random) => question(random, swahili, KNOWN_VERBS, english(random)),
  "Swahili more or fewer, known verbs": (random) => moreOrFewer(random, swahili, KNOWN_VERBS),
  "Swahili text, English more or fewer": (random) => moreOrFewer(random, swahili, VERBS, english(random)),
  "Swahili text, English more or fewer, known verbs": (random) =>
    moreOrFewer(random, swahili, KNOWN_VERBS, english(random)),
  "Swahili problem, known verbs": (random) => problem(random, swahili, KNOWN_VERBS),
  "mixed story or question, known verbs": (random) =>
    random.chance(0.5)
      ? story(random, mixedSpeaker(random), KNOWN_VERBS)
      : question(random, mixedSpeaker(random), KNOWN_VERBS),
  "mixed question": (random) => question(random, mixedSpeaker(random)),
  "mixed more or fewer": (random) => moreOrFewer(random, mixedSpeaker(random)),
  "mixed more or fewer, known verbs": (random) => moreOrFewer(random, mixedSpeaker(random), KNOWN_VERBS),
  "mixed to English": (random) => mixedToEnglish(random),
  "mixed to English, known verbs": (random) => mixedToEnglish(random, KNOWN_VERBS),
  "mixed problem, known verbs": (random) => problem(random, mixedSpeaker(random), KNOWN_VERBS),
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
   * Both languages, mathematics mostly in English, and little of it: the base leaves something to learn. Verbs that are
   * not known occur in Swahili where there is no counting alone.
   */
  base: {
    "English question": 0.1,
    "English more or fewer": 0.12,
    "English problem": 0.03,
    sums: 0.05,
    "sum question": 0.03,
    copy: 0.02,
    numbers: 0.01,
    "translation, known verbs": 0.05,
    translation: 0.04,
    "Swahili question, known verbs": 0.02,
    "Swahili text, English question, known verbs": 0.05,
    "Swahili text, English question": 0.03,
    "Swahili more or fewer, known verbs": 0.03,
    "Swahili text, English more or fewer, known verbs": 0.04,
    "Swahili problem, known verbs": 0.015,
    "mixed story or question, known verbs": 0.04,
    "mixed more or fewer, known verbs": 0.06,
    "mixed to English, known verbs": 0.04,
    "mixed to English": 0.04,
    "mixed problem, known verbs": 0.03,
  },
  /** English problems alone. */
  math: { "English problem": 1 },
  /** Swahili with all its verbs, what they mean and whether one has more after them; no word problem. */
  language: {
    translation: 0.3,
    "mixed to English": 0.2,
    "Swahili text, English more or fewer": 0.2,
    "mixed more or fewer": 0.2,
    "mixed question": 0.1,
    "English more or fewer": 0.05,
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
