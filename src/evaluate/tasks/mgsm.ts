// MGSM: 250 grade-school problems in eleven languages, answered by a number. Shi et al. 2022, arXiv 2210.03057.
import { findLanguage, RecipeError } from "../../kit/index.js";
import { MGSM_LANGUAGES, type MgsmLanguage } from "../answers/numbers.js";
import { isMgsmLanguage } from "../answers/read-mgsm-answer.js";
import { declareTask } from "./declare-task.js";
import WORDS from "./mgsm-words.json" with { type: "json" };
import {
  declareNumberTask,
  lmEvalReader,
  lmEvalStops,
  mgsmReader,
  type NumberTask,
  problemOf,
  textPrompter,
} from "./number-task.js";
import { type Protocol, protocolsOf } from "./protocol.js";
import { parsePythonDictionary } from "./python-literal.js";
import type { Message, OpenOptions, Task, TaskFamily } from "./task.js";
import { dataError, findFile, type LocatedRow, type OpenData, readText, taskRows, textField } from "./task-data.js";

interface MgsmProtocol extends Protocol {
  readonly form: "steps" | "number" | "chat";
  /** Language of the steps and of the answer phrase: the problem's, or English. */
  readonly answersIn: "native" | "en";
  readonly maxNewTokens: number;
}

/**
 * Version 2: the strict reading takes the result of an equation, and both readings know 1e3. 3: it takes the value of a name
 * (x = 9); spaces separate thousands in every language; times and dates are not numbers. 4: a mixed number (3 1/2) is read whole. 5: words scale a number (2 million, elfu 2). Steps take the more tokens the rarer a
 * script is in the vocabulary; 512 is enough for the exemplars in Telugu.
 */
const PROTOCOLS = protocolsOf<MgsmProtocol>("mgsm");

interface Edition {
  /** What its tasks are called: `mgsm` of `mgsm_sw`. */
  readonly name: string;
  readonly title: string;
  readonly dataset: string;
  readonly folders: readonly string[];
}

const DATASET = "juletxara/mgsm";

/** The longer name first. */
const EDITIONS: readonly Edition[] = [
  // Peter et al. 2025, arXiv 2511.05162: translations corrected. It has no exemplars; tasks take those of the first edition.
  { name: "mgsm_rev2", title: "MGSM-Rev2", dataset: "lightonai/mgsm-rev2", folders: ["mgsm_rev2/", "MGSM-Rev2/"] },
  { name: "mgsm", title: "MGSM", dataset: DATASET, folders: ["", "mgsm/"] },
];

export const mgsm: TaskFamily = {
  name: "mgsm",
  summary: "grade-school mathematics in eleven languages, exact match",
  protocols: PROTOCOLS,
  pattern: "mgsm_LANGUAGE, mgsm_rev2_LANGUAGE",
  names: EDITIONS.flatMap(({ name }) => MGSM_LANGUAGES.map((language) => `${name}_${language}`)),
  open(name, options) {
    const edition = EDITIONS.find((one) => name === one.name || name.startsWith(`${one.name}_`));
    if (edition === undefined) return undefined;
    if (name === edition.name) return MGSM_LANGUAGES.map((language) => openMgsm(edition, language, options));
    const asked = name.slice(edition.name.length + 1);
    const code = isMgsmLanguage(asked) ? asked : findLanguage(asked)?.short;
    if (code !== undefined && isMgsmLanguage(code)) return [openMgsm(edition, code, options)];
    const message = `${name}: MGSM has no language ${asked}; it has ${MGSM_LANGUAGES.join(", ")}`;
    throw RecipeError.at({ field: "tasks" }, message);
  },
};

function openMgsm({ name, title, dataset, folders }: Edition, language: MgsmLanguage, options: OpenOptions): Task {
  return declareTask(options, PROTOCOLS, (protocol, shots) =>
    declareNumberTask({
      name: `${name}_${language}`,
      title: `${title} ${WORDS[language].name}`,
      published: { what: `${title} ${language}`, count: 250, unit: "problem" },
      benchmark: { dataset, task: language },
      shots,
      maxNewTokens: protocol.maxNewTokens,
      async problems(data) {
        const rows = await taskRows(data, {
          what: `${title} in ${language}`,
          files: folders.map((folder) => `${folder}mgsm_${language}.tsv`),
          read: { header: ["question", "answer_number"] },
          dataset,
          config: language,
          split: "test",
        });
        return rows.map((located) => problemOf(located, "answer_number"));
      },
      ...(protocol.name.startsWith("lm-eval/") ? askAsLmEval(protocol, language) : ask(protocol, language)),
    }),
  );
}

type Asking = Pick<NumberTask<Exemplar>, "answersIn" | "reader" | "stop" | "examples" | "prompter">;

/**
 * As in the paper: prefixes of questions and steps are those of its exemplars, character by character. Chinese and Japanese
 * have the full-width colon, and no space after it.
 */
function ask({ form, answersIn }: MgsmProtocol, language: MgsmLanguage): Asking {
  const answers = answersIn === "en" ? "en" : language;
  const { question: prefix, direct, instruction } = WORDS[language];
  const { steps } = WORDS[answers];
  const isDirect = form === "number";
  const heading = isDirect ? direct : steps;
  const stops = { steps: [prefix], number: ["\n"], chat: [] };
  return {
    answersIn: isDirect ? undefined : findLanguage(answers),
    reader: mgsmReader(answers, { form: isDirect ? "number" : "reasoning" }),
    stop: stops[form],
    async examples(data) {
      const exemplars = await readExemplars(data, language);
      if (answers === language) return exemplars;
      const solved = await readExemplars(data, answers);
      return exemplars.flatMap((one, i) => (solved[i] ? [{ ...one, answer: solved[i].answer }] : []));
    },
    prompter(exemplars) {
      if (form !== "chat") {
        const written = exemplars.map(
          ({ question, answer, number }) => `${question}\n${isDirect ? prefixed(heading, number) : answer}`,
        );
        return textPrompter((question) => `${prefixed(prefix, question)}\n${heading}`, written);
      }
      const asked = (question: string): Message => ({ role: "user", content: `${question}\n\n${instruction}` });
      const turns = exemplars.flatMap(({ question, answer }): Message[] => [
        asked(withoutPrefix(question, prefix)),
        { role: "assistant", content: withoutPrefix(answer, steps) },
      ]);
      return (question) => ({ form: "chat", messages: [...turns, asked(question)], shared: turns.length });
    },
  };
}

/** A prefix before a text, with a space between them except after a full-width colon. */
const prefixed = (prefix: string, text: string) => (prefix.endsWith("：") ? prefix + text : `${prefix} ${text}`);

const withoutPrefix = (text: string, prefix: string) =>
  text.startsWith(prefix) ? text.slice(prefix.length).trimStart() : text;

/**
 * As lm-evaluation-harness asks and reads it (tasks/mgsm/utils.py), its slips included: another answer prefix in Japanese,
 * Chinese and Russian, an English phrase in Bengali, and examples that lose the first character of unspaced scripts.
 */
function askAsLmEval({ form, answersIn }: MgsmProtocol, language: MgsmLanguage): Asking {
  const { question: prefix, lmEval: own } = WORDS[language];
  const isDirect = form === "number";
  const words = answersIn === "en" ? { ...WORDS.en.lmEval, steps: WORDS.en.steps } : own;
  const heading = isDirect ? own.direct : words.steps;
  // An example's answer begins after its own prefix and the space that lm-eval takes to be there.
  const skipped = [...own.steps].length + 1;
  const targetOf = ({ answer, number }: Exemplar) => (isDirect ? number : ` ${[...answer].slice(skipped).join("")}`);
  return {
    answersIn: isDirect ? undefined : findLanguage(answersIn === "en" ? "en" : language),
    reader: lmEvalReader(isDirect ? undefined : words.strict, "without punctuation"),
    stop: lmEvalStops(prefix),
    examples: (data) => readExemplars(data, language),
    prompter: (exemplars) =>
      textPrompter(
        (question) => `${prefix} ${question}\n${heading}`,
        exemplars.map((one) => `${one.question}\n${heading}${targetOf(one)}`),
      ),
  };
}

interface Exemplar {
  /** With its prefix. */
  readonly question: string;
  /** Steps, with their prefix. */
  readonly answer: string;
  readonly number: string;
}

/** The exemplars of a language, in their order: of exemplars.json or exemplars.py, or rows of the hub. */
async function readExemplars(data: OpenData, language: MgsmLanguage): Promise<Exemplar[]> {
  const what = "the exemplars of MGSM";
  const names = ["exemplars.json", "exemplars.py"];
  const files = [...names, ...names.map((name) => `mgsm/${name}`)];
  if (data.folder === undefined) {
    const rows = await taskRows(data, { what, files, dataset: DATASET, config: language, split: "train" });
    return rows.map((row) => exemplarOf(row, "question", "answer", "answer_number"));
  }
  const file = await findFile(data.folder, files, what);
  const source = await readText(file);
  if (!file.endsWith(".py")) {
    const value = parseJson(source, file) as { exemplars?: unknown; number_answers?: unknown } | null;
    return exemplarsOf(value?.exemplars, value?.number_answers, language, file);
  }
  const [exemplars, numbers] = ["MGSM_EXEMPLARS", "EXEMPLAR_NUMBER_ANSWERS"].map((name) =>
    parsePythonDictionary(source, name, file),
  );
  return exemplarsOf(exemplars, numbers, language, file);
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw dataError(`${file} is not JSON: ${(error as Error).message}`, { file }, error);
  }
}

/** Exemplars as a list, or under the keys "1" to "8"; each with q and a. */
function exemplarsOf(exemplars: unknown, numbers: unknown, language: MgsmLanguage, file: string): Exemplar[] {
  const ofLanguage = (exemplars as Record<string, unknown> | null | undefined)?.[language];
  if (typeof ofLanguage !== "object" || ofLanguage === null || !Array.isArray(numbers)) {
    throw dataError(
      `${file} has no exemplars in ${language}; expected number_answers, and exemplars by language (${MGSM_LANGUAGES.join(", ")}), each with q and a`,
      { file },
    );
  }
  return Object.values(ofLanguage as Record<string, unknown>).map((value, i) => {
    const where = `${file}, ${language}, exemplar ${i + 1}`;
    const located = { row: { ...(value as object | null), number: numbers[i] }, where };
    return exemplarOf(located, "q", "a", "number");
  });
}

function exemplarOf(row: LocatedRow, question: string, answer: string, number: string): Exemplar {
  return { question: textField(row, question), answer: textField(row, answer), number: textField(row, number) };
}
