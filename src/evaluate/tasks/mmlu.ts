// MMLU (Hendrycks, arXiv 2009.03300), Global-MMLU (Singh, arXiv 2412.03304) and AfriMMLU (Adelani, arXiv 2406.03368).
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { findLanguage, groupBy, RecipeError } from "../../kit/index.js";
import { didYouMean, formatSome, plural } from "../../kit/printing/index.js";
import { declareTask, type TaskDeclaration } from "./declare-task.js";
import { africanLanguage } from "./gsm.js";
import SUBJECTS from "./mmlu-subjects.json" with { type: "json" };
import { choiceJudging, indexOfLetter, LETTERS, letterItem } from "./multiple-choice.js";
import { type Protocol, protocolsOf } from "./protocol.js";
import { parsePythonList } from "./python-literal.js";
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

export const MMLU_SUBJECTS: readonly string[] = SUBJECTS;

interface MmluProtocol extends Protocol {
  /** Whether the questions on a subject begin with a sentence on it. Default: true. */
  readonly hasHeading?: boolean;
  /** Whether questions are without white space around them. Default: false. */
  readonly isStripped?: boolean;
  /** Whether the first prompt of lm-eval's afrimmlu asks, and a choice's text is the answer. Default: its letter. */
  readonly asksForText?: boolean;
}

const PROTOCOLS = protocolsOf<MmluProtocol>("mmlu");

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
    const open = (name: string, title: string, subjects = MMLU_SUBJECTS, folder = "mmlu") => {
      const isWhole = subjects.length > 1;
      const benchmark = { dataset: DATASET, task: isWhole ? "all" : (subjects[0] ?? "") };
      const task: MmluTask = {
        name,
        title,
        metrics: isWhole ? METRICS : METRICS.slice(0, 1),
        benchmark: folder === "mmlu" ? benchmark : undefined,
        shotSplit: "dev",
        read: (data, split) => readSplit(data, folder, split, subjects),
      };
      return [openQuestions(task, PROTOCOLS, options)];
    };
    if (name === "mmlu") return open(name, "MMLU");
    if (!name.startsWith("mmlu_")) return undefined;
    const part = name.slice("mmlu_".length);
    if (MMLU_SUBJECTS.includes(part)) return open(name, `MMLU ${spoken(part)}`, [part]);
    const language = findLanguage(part);
    if (!language) {
      const names = MMLU_SUBJECTS.map((subject) => `mmlu_${subject}`);
      const hint = didYouMean(name, names);
      throw RecipeError.at({ field: "tasks" }, `${name}: ${part} is neither a subject of MMLU nor a language${hint}`);
    }
    const { code, name: spokenName } = language;
    if (code === "eng_Latn") throw RecipeError.at({ field: "tasks" }, `${name}: MMLU in English is named mmlu`);
    return open(`mmlu_${code}`, `MMLU ${spokenName}`, MMLU_SUBJECTS, `mmlu_${code}`);
  },
};

const GLOBAL = protocolsOf<MmluProtocol>("global_mmlu");

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
      const known = `${didYouMean(asked, GLOBAL_CODES)} (languages: ${GLOBAL_CODES.join(", ")})`;
      const message = `${name}: Global-MMLU has no language ${asked}${known}`;
      throw RecipeError.at({ field: "tasks", actual: asked }, message);
    }
    const dataset = "CohereLabs/Global-MMLU";
    const title = `Global-MMLU ${findLanguage(code)?.name ?? code}`;
    const task: MmluTask = {
      name: `global_mmlu_${code}`,
      title,
      published: { what: title, count: 14_042, unit: "question" },
      benchmark: { dataset, task: code },
      shotSplit: "dev",
      async read(data, split) {
        const folders = [`global_mmlu/${code}/`, `Global-MMLU/${code}/`, `${code}/`];
        const endings = [".parquet", "-00000-of-00001.parquet", ".jsonl"];
        const files = folders.flatMap((folder) => endings.map((ending) => `${folder}${split}${ending}`));
        const what = `Global-MMLU in ${code}, ${split}`;
        return splitOf(await taskRows(data, { what, files, dataset, config: code, split }));
      },
    };
    return [openQuestions(task, GLOBAL, options)];
  },
};

const AFRICAN = protocolsOf<MmluProtocol>("afrimmlu");

export const afrimmlu: TaskFamily = {
  name: "afrimmlu",
  summary: "MMLU's questions on five subjects in 16 African languages, English and French, accuracy",
  protocols: AFRICAN,
  pattern: "afrimmlu_LANGUAGE",
  names: ["amh", "hau", "ibo", "swa", "yor", "zul"].map((code) => `afrimmlu_${code}`),
  open(asked, options) {
    if (!asked.startsWith("afrimmlu_")) return undefined;
    const { code, name } = africanLanguage(asked.slice("afrimmlu_".length), asked);
    const dataset = "masakhane/afrimmlu";
    const title = `AfriMMLU ${name}`;
    const task: MmluTask = {
      name: `afrimmlu_${code}`,
      title,
      published: { what: title, count: 500, unit: "question" },
      benchmark: { dataset, task: code },
      shotSplit: "validation",
      async read(data, split) {
        const names = split === "validation" ? ["val", "validation"] : [split];
        const folders = ["afrimmlu/data/", "afrimmlu/", "data/"];
        const files = folders.flatMap((folder) => names.map((one) => `${folder}${code}/${one}.tsv`));
        const what = `AfriMMLU in ${name}, ${split}`;
        return splitOf(await taskRows(data, { what, files, dataset, config: code, split, quotes: true }));
      },
    };
    return [openQuestions(task, AFRICAN, options)];
  },
};

interface MmluTask extends Pick<TaskDeclaration, "name" | "title" | "published" | "benchmark"> {
  readonly metrics?: readonly Metric[];
  /** The split that shots are the first rows of, subject by subject. */
  readonly shotSplit: string;
  readonly read: (data: OpenData, split: string) => Promise<Split>;
}

function openQuestions(
  { read, shotSplit, metrics = METRICS, ...named }: MmluTask,
  protocols: readonly MmluProtocol[],
  options: OpenOptions,
): Task {
  return declareTask(options, protocols, (protocol, shots) => ({
    ...named,
    metrics,
    ...choiceJudging(protocol),
    async load(data) {
      const test = await read(data, "test");
      const examples = shots === 0 ? undefined : await read(data, shotSplit);
      const items = [...test.questions].flatMap(([subject, questions]) => {
        const chosen = (examples?.questions.get(subject) ?? []).slice(0, shots);
        if (chosen.length < shots) {
          const found = plural(chosen.length, `${shotSplit} question`);
          throw dataError(`${named.title}: ${subject} has ${found} here, too few for ${shots} shots`);
        }
        const about = `The following are multiple choice questions (with answers) about ${spoken(subject)}.\n\n`;
        const heading = protocol.hasHeading === false ? "" : about;
        const shared = heading + chosen.map((one) => solved(one, subject, protocol)).join("");
        return questions.map((question, i) => {
          const prompt = { form: "text", shared, own: asked(question, subject, protocol) } as const;
          return itemOf(question, { id: `${subject}/${i + 1}`, group: subject, prompt }, protocol);
        });
      });
      return { items, notes: test.notes };
    },
  }));
}

interface Question {
  readonly question: string;
  readonly choices: readonly string[];
  readonly correct: number;
}

const spoken = (subject: string) => subject.replaceAll("_", " ");

function asked({ question, choices }: Question, subject: string, { isStripped, asksForText }: MmluProtocol): string {
  if (!asksForText) {
    const lines = choices.map((choice, i) => `${LETTERS[i]}. ${choice}`);
    return [isStripped ? question.trim() : question, ...lines, "Answer:"].join("\n");
  }
  // The indentation is lm-eval's.
  return [
    "You are a highly knowledgeable and intelligent artificial intelligence",
    `                model answers multiple-choice questions about ${subject}`,
    "",
    `                Question: ${question}`,
    "",
    "                Choices:",
    ...choices.map((choice, i) => `                        ${LETTERS[i]}: ${choice}`),
    "",
    "                Answer:  ",
  ].join("\n");
}

/** A solved example, with what comes after it. */
function solved(question: Question, subject: string, protocol: MmluProtocol): string {
  const answer = (protocol.asksForText ? question.choices : LETTERS)[question.correct];
  return `${asked(question, subject, protocol)} ${answer}\n\n`;
}

function itemOf(
  { choices, correct }: Question,
  item: Pick<ChooseItem, "id" | "group" | "prompt">,
  { asksForText }: MmluProtocol,
): ChooseItem {
  const lettered = letterItem({ ...item, correct });
  return asksForText ? { ...lettered, choices: choices.map((choice) => ` ${choice}`) } : lettered;
}

interface Split {
  readonly questions: ReadonlyMap<string, readonly Question[]>;
  readonly notes: readonly string[];
}

/** The questions of rows that name their subjects. @param order of the subjects; default that of the rows */
function splitOf(rows: readonly LocatedRow[], order?: readonly string[]): Split {
  const bySubject = groupBy(rows, (row) => textField(row, "subject"));
  const subjects = order?.filter((subject) => bySubject.has(subject)) ?? [...bySubject.keys()];
  const questions = subjects.map((subject) => [subject, (bySubject.get(subject) ?? []).map(questionOf)] as const);
  return { questions: new Map(questions), notes: [] };
}

async function readSplit(data: OpenData, folder: string, split: string, subjects: readonly string[]): Promise<Split> {
  if (data.folder !== undefined) return readFolder(data.folder, folder, split, subjects);
  const files = [`${folder}/${split}/SUBJECT_${split}.csv`];
  if (folder !== "mmlu") {
    throw dataError(`a translation of MMLU is read from a folder with ${files}`, { option: "data" });
  }
  // One request holds all subjects; each row names its own.
  const source = { what: `MMLU, ${split}`, files, dataset: DATASET, config: "all", split };
  return splitOf(await taskRows(data, source), subjects);
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

/** A row has a list of choices, as the hub has them, or as Python writes it (AfriMMLU), or a column for each. */
function questionOf(located: LocatedRow): Question {
  const { row, where } = located;
  const columns = LETTERS.map((letter) => row[letter] ?? row[`option_${letter.toLowerCase()}`]);
  const choices = typeof row.choices === "string" ? parsePythonList(row.choices, where) : (row.choices ?? columns);
  const correct = indexOfLetter(row.answer);
  const isWhole = Array.isArray(choices) && choices.length === 4 && !choices.includes(undefined);
  if (!isWhole || correct === undefined) {
    const found = JSON.stringify(row.answer);
    throw dataError(`${where}: the answer is ${found}; expected four choices, and A, B, C or D (0 to 3)`);
  }
  return { question: textField(located, "question"), choices: choices.map(String), correct };
}
