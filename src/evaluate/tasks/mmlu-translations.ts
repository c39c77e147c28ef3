// Published translations of MMLU: Global-MMLU in 42 languages, AfriMMLU in 16 African ones, English and French.
// Singh et al. 2024, arXiv 2412.03304; Adelani et al. 2024, arXiv 2406.03368.
import { didYouMean, findLanguage, groupBy, RecipeError } from "../../core/index.js";
import { africanCode, africanName } from "./gsm.js";
import {
  headingOf,
  letters,
  type MmluProtocol,
  type MmluQuestions,
  openQuestions,
  type Question,
  type Split,
} from "./mmlu.js";
import { indexOfLetter, LETTERS } from "./multiple-choice.js";
import { parsePythonList } from "./python-literal.js";
import type { TaskFamily } from "./task.js";
import { dataError, type LocatedRow, taskRows, textField } from "./task-data.js";

const mmluProtocol = (name: string, reference: string): MmluProtocol => ({
  name,
  version: 2,
  summary: "Five questions of the subject in the same language, then the question; log-likelihood of the letters.",
  reference,
  shots: { default: 5, most: 5 },
  heading: headingOf,
  ...letters(false),
});

const SINGH = "Singh et al. 2024, arXiv 2412.03304; prompt of Hendrycks et al. 2021, arXiv 2009.03300";

const GLOBAL: readonly MmluProtocol[] = [
  mmluProtocol("layergraft/global-mmlu", SINGH),
  {
    name: "lm-eval/global-mmlu-full",
    version: 0,
    summary:
      "As in lm-evaluation-harness: no heading, questions without white space around them; the first of tied choices.",
    reference: "lm-evaluation-harness 0.4.13, tasks/global_mmlu/full, version 0.0",
    shots: { default: 0, most: 5 },
    ties: "first",
    heading: () => "",
    ...letters(true),
  },
];

/** Codes of Global-MMLU, which are the names of its configurations. */
const GLOBAL_CODES =
  "am ar bn cs de el en es fa fil fr ha he hi id ig it ja ko ky lt mg ms ne nl ny pl pt ro ru si sn so sr sv sw te tr uk vi yo zh".split(
    " ",
  );

export const globalMmlu: TaskFamily = {
  name: "global_mmlu",
  summary: "MMLU translated into 42 languages, accuracy",
  protocols: GLOBAL,
  pattern: "global_mmlu_LANGUAGE",
  names: ["ja", "bn", "sw", "te"].map((code) => `global_mmlu_${code}`),
  open(name, options) {
    if (!name.startsWith("global_mmlu_")) return undefined;
    const asked = name.slice("global_mmlu_".length);
    const code = [asked, findLanguage(asked)?.short ?? ""].find((one) => GLOBAL_CODES.includes(one));
    if (code === undefined) {
      throw new RecipeError(
        `${name}: Global-MMLU has no language ${asked}${didYouMean(asked, GLOBAL_CODES)} (languages: ${GLOBAL_CODES.join(", ")})`,
        [],
        { field: "tasks", actual: asked },
      );
    }
    const read: MmluQuestions["read"] = async (data, split) => {
      const folders = [`global_mmlu/${code}/`, `Global-MMLU/${code}/`, `${code}/`];
      const endings = [".parquet", "-00000-of-00001.parquet", ".jsonl"];
      const files = folders.flatMap((folder) => endings.map((ending) => `${folder}${split}${ending}`));
      const what = `Global-MMLU in ${code}, ${split}`;
      const source = { what, files, dataset: "CohereLabs/Global-MMLU", config: code, split };
      return splitOf(await taskRows(data, source));
    };
    const title = `Global-MMLU ${findLanguage(code)?.name ?? code}`;
    const published = { what: title, count: 14_042, unit: "question" };
    const benchmark = { dataset: "CohereLabs/Global-MMLU", task: code };
    const task = { name: `global_mmlu_${code}`, title, published, benchmark, shotSplit: "dev", read };
    return [openQuestions(task, GLOBAL, options)];
  },
};

/** The first prompt of lm-eval, its indentation included; the continuation is a choice's text. */
function iroko({ question, choices }: Question, subject: string): string {
  const [a, b, c, d] = choices;
  const lines = [
    "You are a highly knowledgeable and intelligent artificial intelligence",
    `                model answers multiple-choice questions about ${subject}`,
    "",
    `                Question: ${question}`,
    "",
    "                Choices:",
    ...Object.entries({ A: a, B: b, C: c, D: d }).map(([letter, text]) => `                        ${letter}: ${text}`),
    "",
    "                Answer:  ",
  ];
  return lines.join("\n");
}

const AFRICAN: readonly MmluProtocol[] = [
  mmluProtocol("layergraft/afrimmlu", "Adelani et al. 2024, arXiv 2406.03368; prompt of arXiv 2009.03300"),
  {
    name: "lm-eval/afrimmlu-direct",
    version: 1,
    summary:
      "As the first prompt of lm-evaluation-harness, in English; log-likelihood of the choices' texts; the first of tied choices.",
    reference: "lm-evaluation-harness 0.4.13, tasks/afrimmlu/direct/prompt_1, version 1.0",
    shots: { default: 0, most: 5 },
    ties: "first",
    heading: () => "",
    item: (question, subject, id, shared) => ({
      kind: "choose",
      id,
      group: subject,
      prompt: { form: "text", shared, own: iroko(question, subject) },
      choices: question.choices.map((choice) => ` ${choice}`),
      labels: LETTERS,
      correct: question.correct,
      gold: LETTERS[question.correct] ?? "",
    }),
    solved: (question, subject) => `${iroko(question, subject)} ${question.choices[question.correct]}\n\n`,
  },
];

export const afrimmlu: TaskFamily = {
  name: "afrimmlu",
  summary: "MMLU's questions on five subjects in 16 African languages, English and French, accuracy",
  protocols: AFRICAN,
  pattern: "afrimmlu_LANGUAGE",
  names: ["amh", "hau", "ibo", "swa", "yor", "zul"].map((code) => `afrimmlu_${code}`),
  open(name, options) {
    if (!name.startsWith("afrimmlu_")) return undefined;
    const code = africanCode(name.slice("afrimmlu_".length), name);
    const read: MmluQuestions["read"] = async (data, split) => {
      const names = split === "validation" ? ["val", "validation"] : [split];
      const folders = ["afrimmlu/data/", "afrimmlu/", "data/"];
      const files = folders.flatMap((folder) => names.map((one) => `${folder}${code}/${one}.tsv`));
      const what = `AfriMMLU in ${africanName(code)}, ${split}`;
      const source = { what, files, dataset: "masakhane/afrimmlu", config: code, split, quotes: true };
      return splitOf(await taskRows(data, source));
    };
    const title = `AfriMMLU ${africanName(code)}`;
    const published = { what: title, count: 500, unit: "question" };
    const benchmark = { dataset: "masakhane/afrimmlu", task: code };
    const task = { name: `afrimmlu_${code}`, title, published, benchmark, shotSplit: "validation", read };
    return [openQuestions(task, AFRICAN, options)];
  },
};

function splitOf(rows: readonly LocatedRow[]): Split {
  const bySubject = [...groupBy(rows, (row) => textField(row, "subject"))];
  return { questions: new Map(bySubject.map(([subject, own]) => [subject, own.map(questionOf)])), notes: [] };
}

/** A row of Global-MMLU has a column for each choice, a row of AfriMMLU a list as Python writes it. */
function questionOf(located: LocatedRow): Question {
  const { row, where } = located;
  const choices =
    row.choices === undefined
      ? LETTERS.map((letter) => textField(located, `option_${letter.toLowerCase()}`))
      : parsePythonList(textField(located, "choices"), where);
  const correct = indexOfLetter(row.answer);
  if (choices.length !== 4 || correct === undefined) {
    throw dataError(`${where}: expected four choices and an answer from A to D, not ${JSON.stringify(row.answer)}`);
  }
  return { question: textField(located, "question"), choices, correct };
}
