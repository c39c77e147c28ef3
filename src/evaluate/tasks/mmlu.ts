// MMLU: multiple-choice questions in 57 subjects. Hendrycks et al. 2021, arXiv 2009.03300.

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { didYouMean, findLanguage, formatSome, groupBy, plural, RecipeError } from "../../core/index.js";
import { declareTask, type TaskDeclaration } from "./declare-task.js";
import { choiceJudging, indexOfLetter, LETTERS, letterItem } from "./multiple-choice.js";
import type { Protocol } from "./protocol.js";
import type { ChooseItem, Metric, OpenOptions, Task, TaskFamily } from "./task.js";
import {
  dataError,
  fileRows,
  type LocatedRow,
  missingDataError,
  type OpenData,
  taskRows,
  textField,
} from "./task-data.js";

const DATASET = "cais/mmlu";

export const MMLU_SUBJECTS: readonly string[] = [
  ..."abstract_algebra anatomy astronomy business_ethics clinical_knowledge college_biology college_chemistry".split(
    " ",
  ),
  ..."college_computer_science college_mathematics college_medicine college_physics computer_security".split(" "),
  ..."conceptual_physics econometrics electrical_engineering elementary_mathematics formal_logic".split(" "),
  ..."global_facts high_school_biology high_school_chemistry high_school_computer_science".split(" "),
  ..."high_school_european_history high_school_geography high_school_government_and_politics".split(" "),
  ..."high_school_macroeconomics high_school_mathematics high_school_microeconomics high_school_physics".split(" "),
  ..."high_school_psychology high_school_statistics high_school_us_history high_school_world_history".split(" "),
  ..."human_aging human_sexuality international_law jurisprudence logical_fallacies machine_learning".split(" "),
  ..."management marketing medical_genetics miscellaneous moral_disputes moral_scenarios nutrition".split(" "),
  ..."philosophy prehistory professional_accounting professional_law professional_medicine".split(" "),
  ..."professional_psychology public_relations security_studies sociology us_foreign_policy virology".split(" "),
  "world_religions",
];

/** A way of asking MMLU's questions, in English or translated. */
export interface MmluProtocol extends Protocol {
  /** What the questions on a subject begin with. */
  readonly heading: (subject: string) => string;
  /** Makes an item; `shared` holds the heading and the shots. */
  readonly item: (question: Question, subject: string, id: string, shared: string) => ChooseItem;
  /** A solved example, with what comes after it. */
  readonly solved: (question: Question, subject: string) => string;
}

/** A question, its letters, and the letter as the answer. */
export const letters = (isStripped: boolean): Pick<MmluProtocol, "item" | "solved"> => ({
  item: (question, subject, id, shared) => {
    const prompt = { form: "text", shared, own: formatQuestion(question, isStripped) } as const;
    return letterItem({ id, group: subject, prompt, correct: question.correct });
  },
  solved: (question) => `${formatQuestion(question, isStripped)} ${LETTERS[question.correct]}\n\n`,
});

const PROTOCOLS: readonly MmluProtocol[] = [
  {
    name: "layergraft/mmlu",
    version: 2,
    summary: "Five dev rows of the subject, then the question; log-likelihood of the letters.",
    reference: "Hendrycks et al. 2021, arXiv 2009.03300, appendix B",
    shots: { default: 5, most: 5 },
    heading: headingOf,
    ...letters(false),
  },
  {
    name: "lm-eval/mmlu",
    version: 1,
    summary:
      "As in lm-evaluation-harness: questions without white space around them; BOS as the tokenizer adds it; the first of tied choices.",
    reference: "lm-evaluation-harness 0.4.13, tasks/mmlu/default, version 1.0",
    shots: { default: 5, most: 5 },
    ties: "first",
    heading: headingOf,
    ...letters(true),
  },
];

const METRICS: readonly Metric[] = [
  { name: "accuracy", title: "accuracy, mean over questions", of: "accuracy", by: "mean", scale: "share" },
  {
    name: "accuracy_by_subject",
    title: "accuracy, mean over subjects",
    of: "accuracy",
    by: "group mean",
    scale: "share",
  },
];

export const mmlu: TaskFamily = {
  name: "mmlu",
  summary: "multiple-choice questions in 57 subjects, accuracy",
  protocols: PROTOCOLS,
  pattern: "mmlu, mmlu_SUBJECT, or mmlu_LANGUAGE for a translation you have",
  names: ["mmlu"],
  open(name, options) {
    if (name === "mmlu") return [openMmlu({ name, title: "MMLU", subjects: MMLU_SUBJECTS, folder: "mmlu" }, options)];
    if (!name.startsWith("mmlu_")) return undefined;
    const part = name.slice("mmlu_".length);
    if (MMLU_SUBJECTS.includes(part)) {
      return [openMmlu({ name, title: `MMLU ${spoken(part)}`, subjects: [part], folder: "mmlu" }, options)];
    }
    const language = findLanguage(part);
    if (!language) {
      const names = MMLU_SUBJECTS.map((subject) => `mmlu_${subject}`);
      throw new RecipeError(
        `${name}: ${part} is neither a subject of MMLU nor a language${didYouMean(name, names)}`,
        [],
        { field: "tasks" },
      );
    }
    if (language.code === "eng_Latn") {
      throw new RecipeError(`${name}: MMLU in English is named mmlu`, [], { field: "tasks" });
    }
    const translated = `mmlu_${language.code}`;
    return [
      openMmlu(
        { name: translated, title: `MMLU ${language.name}`, subjects: MMLU_SUBJECTS, folder: translated },
        options,
      ),
    ];
  },
};

interface MmluTask {
  readonly name: string;
  readonly title: string;
  readonly subjects: readonly string[];
  /** Name of the folder that holds dev/ and test/. */
  readonly folder: string;
}

function openMmlu({ name, title, subjects, folder }: MmluTask, options: OpenOptions): Task {
  const read: MmluQuestions["read"] = (data, split) => readSplit(data, folder, split, subjects);
  const metrics = subjects.length === 1 ? METRICS.slice(0, 1) : METRICS;
  const task = subjects.length === 1 ? subjects[0] : "all";
  const benchmark = folder === "mmlu" && task ? { dataset: DATASET, task } : undefined;
  return openQuestions({ name, title, metrics, benchmark, shotSplit: "dev", read }, PROTOCOLS, options);
}

/** The questions of a task, by split and subject. */
export interface MmluQuestions extends Pick<TaskDeclaration, "name" | "title" | "published" | "benchmark"> {
  readonly metrics?: readonly Metric[];
  /** The split that shots are the first rows of, subject by subject. */
  readonly shotSplit: string;
  readonly read: (data: OpenData, split: string) => Promise<Split>;
}

export function openQuestions(
  { read, shotSplit, metrics = METRICS, ...named }: MmluQuestions,
  protocols: readonly MmluProtocol[],
  options: OpenOptions,
): Task {
  return declareTask(options, protocols, (protocol, shots) => ({
    ...named,
    metrics,
    ...choiceJudging(protocol),
    async load(data) {
      const { heading, item, solved } = protocol;
      const test = await read(data, "test");
      const examples = shots === 0 ? undefined : await read(data, shotSplit);
      const items = [...test.questions].flatMap(([subject, questions]) => {
        const chosen = (examples?.questions.get(subject) ?? []).slice(0, shots);
        if (chosen.length < shots) {
          const found = plural(chosen.length, `${shotSplit} question`);
          throw dataError(`${named.title}: ${subject} has ${found} here, too few for ${shots} shots`);
        }
        const shared = heading(subject) + chosen.map((one) => solved(one, subject)).join("");
        return questions.map((question, i) => item(question, subject, `${subject}/${i + 1}`, shared));
      });
      return { items, notes: test.notes };
    },
  }));
}

export function headingOf(subject: string): string {
  return `The following are multiple choice questions (with answers) about ${spoken(subject)}.\n\n`;
}

export const spoken = (subject: string) => subject.replaceAll("_", " ");

export interface Question {
  readonly question: string;
  readonly choices: readonly string[];
  readonly correct: number;
}

function formatQuestion({ question, choices }: Question, isStripped: boolean): string {
  const lines = choices.map((choice, i) => `${LETTERS[i]}. ${choice}`);
  return [isStripped ? question.trim() : question, ...lines, "Answer:"].join("\n");
}

export interface Split {
  readonly questions: ReadonlyMap<string, readonly Question[]>;
  readonly notes: readonly string[];
}

async function readSplit(data: OpenData, folder: string, split: string, subjects: readonly string[]): Promise<Split> {
  if (data.folder !== undefined) return readFolder(data.folder, folder, split, subjects);
  const files = [`${folder}/${split}/SUBJECT_${split}.csv`];
  if (folder !== "mmlu") {
    throw dataError(`a translation of MMLU is read from a folder; pass --data DIR with ${files}`);
  }
  // One request holds all subjects; each row names its own.
  const source = { what: `MMLU, ${split}`, files, dataset: DATASET, config: "all", split };
  const bySubject = groupBy(await taskRows(data, source), (located) => textField(located, "subject"));
  const found = subjects.filter((subject) => bySubject.has(subject));
  const questions = found.map((subject) => [subject, (bySubject.get(subject) ?? []).map(questionOf)] as const);
  return { questions: new Map(questions), notes: [] };
}

const CSV_COLUMNS = ["question", ...LETTERS, "answer"];

async function readFolder(root: string, folder: string, split: string, subjects: readonly string[]): Promise<Split> {
  const folders = [split, `${folder}/${split}`, `data/${split}`, `${folder}/data/${split}`];
  // A folder of the split alone is the English data; a translation has its name on it, or is its own folder.
  const candidates = folder === "mmlu" ? folders : folders.slice(1, 2).concat(folders.slice(3));
  for (const candidate of candidates) {
    const path = join(root, candidate);
    const names = await readdir(path).catch((): string[] => []);
    const files = new Map<string, string>();
    for (const name of names.sort()) {
      const subject = new RegExp(`^(.+)_${split}(?:\\..+)?\\.csv$`).exec(name)?.[1] ?? "";
      if (subjects.includes(subject)) files.set(subject, name);
    }
    if (files.size === 0) continue;
    const questions = new Map<string, Question[]>();
    const notes: string[] = [];
    const missing = subjects.filter((subject) => !files.has(subject));
    if (missing.length > 0)
      notes.push(`${plural(missing.length, "subject")} missing in ${path}: ${formatSome(missing)}`);
    for (const subject of subjects) {
      const name = files.get(subject);
      if (name === undefined) continue;
      const rows = await fileRows(join(path, name), { format: "csv", header: CSV_COLUMNS });
      questions.set(subject, rows.map(questionOf));
      if (name !== `${subject}_${split}.csv`) notes.push(`${subject} has only a part of its questions: ${name}`);
    }
    return { questions, notes };
  }
  throw missingDataError(
    `${root} has no MMLU ${split} questions; expected one of ${candidates.map((one) => `${one}/SUBJECT_${split}.csv`).join(", ")}`,
    root,
  );
}

/** A row of the hub has a list of choices, a row of a file a column for each. */
function questionOf(located: LocatedRow): Question {
  const { choices = LETTERS.map((letter) => located.row[letter]), answer } = located.row;
  const correct = indexOfLetter(answer);
  if (!Array.isArray(choices) || choices.length !== 4 || correct === undefined) {
    const found = JSON.stringify(answer);
    throw dataError(`${located.where}: the answer is ${found}; expected four choices, and A, B, C or D (0 to 3)`);
  }
  return { question: textField(located, "question"), choices: choices.map(String), correct };
}
