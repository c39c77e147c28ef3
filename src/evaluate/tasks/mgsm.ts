// MGSM: 250 grade-school problems in eleven languages, answered by a number. Shi et al. 2022, arXiv 2210.03057.
import { findLanguage, plural, RecipeError } from "../../core/index.js";
import { MGSM_LANGUAGES, type MgsmLanguage } from "../answers/mgsm-announcements.js";
import { isMgsmLanguage } from "../answers/read-mgsm-answer.js";
import { declareTask } from "./declare-task.js";
import {
  MGSM_EDITIONS,
  MGSM_EXEMPLARS,
  type MgsmEdition,
  type MgsmExemplar,
  mgsmTask,
  readMgsmExemplars,
} from "./mgsm-data.js";
import { MGSM_WORDS, type MgsmWords, prefixed } from "./mgsm-language.js";
import { declareLmEvalMgsm, isLmEvalMgsm, LM_EVAL_MGSM } from "./mgsm-lm-eval.js";
import { mgsmReader } from "./number-task.js";
import type { Protocol } from "./protocol.js";
import { type Message, type OpenOptions, type Prompt, type Task, type TaskFamily, textItems } from "./task.js";

interface MgsmProtocol extends Protocol {
  readonly form: "steps" | "number" | "chat";
  /** Language of the steps and of the answer phrase: the problem's, or English. */
  readonly answersIn: "native" | "en";
  readonly maxNewTokens: number;
}

const SHI = "Shi et al. 2022, arXiv 2210.03057";

// Steps take the more tokens the rarer a script is in the vocabulary; 512 is enough for the exemplars in Telugu.
const STEPS_TOKENS = 512;
/** Chats write longer. */
const CHAT_TOKENS = 1024;
/** A number in Telugu digits, a currency, and what follows until the line ends. */
const NUMBER_TOKENS = 48;

/**
 * 2: the strict reading takes the result of an equation, and both readings know 1e3. 3: it takes the value of a name
 * (x = 9); spaces separate thousands in every language; times and dates are not numbers.
 */
const VERSION = 3;

/** The usual fields of a protocol, some of which others replace. */
const IN_STEPS = {
  version: VERSION,
  shots: { default: 8, most: MGSM_EXEMPLARS },
  form: "steps",
  answersIn: "native",
  maxNewTokens: STEPS_TOKENS,
} as const;

const PROTOCOLS: readonly MgsmProtocol[] = [
  {
    ...IN_STEPS,
    name: "layergraft/mgsm-native-cot",
    summary: "Exemplars, problem and steps in the language; the answer is announced in a sentence.",
    reference: `${SHI}, NATIVE-COT`,
  },
  {
    ...IN_STEPS,
    name: "layergraft/mgsm-en-cot",
    summary: "Exemplars' questions and the problem in the language, steps and answer in English.",
    reference: `${SHI}, EN-COT`,
    answersIn: "en",
  },
  {
    ...IN_STEPS,
    name: "layergraft/mgsm-direct",
    summary: "The number alone, without steps.",
    reference: `${SHI}, DIRECT`,
    form: "number",
    maxNewTokens: NUMBER_TOKENS,
  },
  {
    ...IN_STEPS,
    name: "layergraft/mgsm-chat",
    summary: "As a chat in the model's own template: the problem and an instruction in the language; shots as turns.",
    reference: "layergraft; the answer sentence is that of the exemplars",
    shots: { default: 0, most: MGSM_EXEMPLARS },
    form: "chat",
    maxNewTokens: CHAT_TOKENS,
  },
];

export const mgsm: TaskFamily = {
  name: "mgsm",
  summary: "grade-school mathematics in eleven languages, exact match",
  protocols: [...PROTOCOLS, ...LM_EVAL_MGSM],
  pattern: "mgsm_LANGUAGE, mgsm_rev2_LANGUAGE",
  names: MGSM_EDITIONS.flatMap(({ name }) => MGSM_LANGUAGES.map((language) => `${name}_${language}`)),
  open(name, options) {
    const edition = MGSM_EDITIONS.find((one) => name === one.name || name.startsWith(`${one.name}_`));
    if (edition === undefined) return undefined;
    if (name === edition.name) return MGSM_LANGUAGES.map((language) => openMgsm(edition, language, options));
    const asked = name.slice(edition.name.length + 1);
    const code = isMgsmLanguage(asked) ? asked : findLanguage(asked)?.short;
    if (code === undefined || !isMgsmLanguage(code)) {
      throw new RecipeError(`${name}: MGSM has no language ${asked}; it has ${MGSM_LANGUAGES.join(", ")}`, [], {
        field: "tasks",
      });
    }
    return [openMgsm(edition, code, options)];
  },
};

function openMgsm(edition: MgsmEdition, language: MgsmLanguage, options: OpenOptions): Task {
  const { problems: readProblems, ...task } = mgsmTask(edition, language);
  return declareTask(options, [...PROTOCOLS, ...LM_EVAL_MGSM], (protocol, shots) => {
    if (isLmEvalMgsm(protocol)) return declareLmEvalMgsm(protocol, edition, language, shots);
    const answers = protocol.answersIn === "en" ? "en" : language;
    const form = protocol.form === "number" ? "number" : "reasoning";
    return {
      ...task,
      answersIn: form === "number" ? undefined : findLanguage(answers),
      ...mgsmReader(answers, { form }),
      async load(data) {
        const problems = await readProblems(data);
        const exemplars = shots === 0 ? [] : await readMgsmExemplars(data, language);
        const steps = answers === language || shots === 0 ? exemplars : await readMgsmExemplars(data, answers);
        if (exemplars.length < shots || steps.length < shots) {
          throw new RecipeError(`there are ${plural(exemplars.length, "exemplar")} in ${language}, not ${shots}`);
        }
        const pairs = exemplars.slice(0, shots).map((one, i) => ({ ...one, answer: steps[i]?.answer ?? "" }));
        const ask = prompter(protocol, MGSM_WORDS[language], MGSM_WORDS[answers], pairs);
        const asked = problems.map(({ question, answer: gold }) => ({ prompt: ask(question), gold }));
        const stop = stopsOf(protocol, MGSM_WORDS[language]);
        return { items: textItems(asked, { stop, maxNewTokens: protocol.maxNewTokens }) };
      },
    };
  });
}

function stopsOf({ form }: MgsmProtocol, { question }: MgsmWords): string[] {
  if (form === "chat") return [];
  return form === "number" ? ["\n"] : [question];
}

/** The function that makes a problem's prompt; what comes before the problem is made once. */
function prompter(
  protocol: MgsmProtocol,
  words: MgsmWords,
  answerWords: MgsmWords,
  exemplars: readonly MgsmExemplar[],
): (question: string) => Prompt {
  if (protocol.form === "chat") {
    const ask = (question: string): Message => ({ role: "user", content: `${question}\n\n${words.instruction}` });
    const turns = exemplars.flatMap(({ question, answer }): Message[] => [
      ask(withoutPrefix(question, words.question)),
      { role: "assistant", content: withoutPrefix(answer, answerWords.steps) },
    ]);
    return (question) => ({ form: "chat", messages: [...turns, ask(question)], shared: turns.length });
  }
  const isDirect = protocol.form === "number";
  const heading = isDirect ? words.direct : answerWords.steps;
  const shared = exemplars
    .map(({ question, answer, number }) => `${question}\n${isDirect ? prefixed(heading, number) : answer}\n\n`)
    .join("");
  return (question) => ({ form: "text", shared, own: `${prefixed(words.question, question)}\n${heading}` });
}

function withoutPrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length).trimStart() : text;
}
