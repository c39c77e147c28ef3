// MMLU: multiple-choice questions in 57 subjects. Hendrycks et al. 2021, arXiv 2009.03300.

import { join } from "node:path";
import { closest, findLanguage, formatSome, groupBy, plural, RecipeError } from "../../core/index.js";
import { LETTER_CHOICES, LETTERS, readChoice, scoreChoice } from "./choosing.js";
import { parseCsv } from "./csv.js";
import { matchProtocol, type Protocol, shotsOf } from "./protocol.js";
import { type ChooseItem, limitItems, type Metric, type OpenOptions, type Task, type TaskFamily } from "./task.js";
import {
  type DataAccess,
  dataError,
  hubRows,
  listFiles,
  missingDataError,
  type Row,
  readText,
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

const PROTOCOLS: readonly Protocol[] = [
  {
    name: "layergraft/mmlu",
    version: 1,
    summary: "Five dev rows of the subject, then the question; log-likelihood of the letters.",
    reference: "Hendrycks et al. 2021, arXiv 2009.03300, appendix B",
    shots: { default: 5, most: 5 },
    specialTokens: true,
  },
  {
    name: "lm-eval/mmlu",
    version: 1,
    summary: "As lm-evaluation-harness asks it: white space around questions off; BOS where the tokenizer puts it.",
    reference: "lm-evaluation-harness 0.4.13, tasks/mmlu/default, version 1.0",
    shots: { default: 5, most: 5 },
    specialTokens: true,
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
      const meant = closest(part, MMLU_SUBJECTS);
      throw new RecipeError(
        `${name}: MMLU has no subject ${part}, nor is it a language${meant ? `; did you mean mmlu_${meant}?` : ""}`,
        [],
        { field: "tasks" },
      );
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
  const protocol = matchProtocol(options.protocol, PROTOCOLS) ?? (PROTOCOLS[0] as Protocol);
  const shots = shotsOf(protocol, options.shots);
  const isStripped = protocol.name.startsWith("lm-eval/");
  return {
    name,
    title,
    protocol,
    shots,
    metrics: subjects.length === 1 ? METRICS.slice(0, 1) : METRICS,
    executes: false,
    async load(data, { limit, signal } = {}) {
      const test = await readSplit(data, folder, "test", subjects, signal);
      const dev = shots === 0 ? undefined : await readSplit(data, folder, "dev", subjects, signal);
      const format = (question: Question) => formatQuestion(question, isStripped);
      const items = [...test.questions].flatMap(([subject, questions]) => {
        const examples = dev?.questions.get(subject) ?? [];
        if (examples.length < shots) {
          throw dataError(
            `MMLU ${subject} has ${plural(examples.length, "dev question")} here, too few for ${shots} shots`,
          );
        }
        const heading = `The following are multiple choice questions (with answers) about ${spoken(subject)}.\n\n`;
        const solved = examples.slice(0, shots).map((one) => `${format(one)} ${LETTERS[one.correct]}\n\n`);
        const shared = heading + solved.join("");
        return questions.map(
          (question, i): ChooseItem => ({
            kind: "choose",
            id: `${subject}/${i + 1}`,
            group: subject,
            prompt: { form: "text", shared, own: format(question) },
            choices: LETTER_CHOICES,
            labels: LETTERS,
            correct: question.correct,
            gold: LETTERS[question.correct] ?? "",
          }),
        );
      });
      return { items: limitItems(items, limit), notes: test.notes };
    },
    read: readChoice,
    score: scoreChoice,
  };
}

const spoken = (subject: string) => subject.replaceAll("_", " ");

interface Question {
  readonly question: string;
  readonly choices: readonly string[];
  readonly correct: number;
}

function formatQuestion({ question, choices }: Question, isStripped: boolean): string {
  const lines = choices.map((choice, i) => `${LETTERS[i]}. ${choice}`);
  return [isStripped ? question.trim() : question, ...lines, "Answer:"].join("\n");
}

interface Split {
  readonly questions: ReadonlyMap<string, readonly Question[]>;
  readonly notes: readonly string[];
}

async function readSplit(
  data: DataAccess,
  folder: string,
  split: "dev" | "test",
  subjects: readonly string[],
  signal: AbortSignal | undefined,
): Promise<Split> {
  if (data.folder !== undefined) return readFolder(data.folder, folder, split, subjects);
  const what = `MMLU, ${split}`;
  const expected = `${folder}/${split}/SUBJECT_${split}.csv`;
  if (folder !== "mmlu") {
    throw dataError(`a translation of MMLU is read from a folder: give --data DIR with ${expected}`);
  }
  // One request holds all subjects; each row names its own.
  const rows = await hubRows(data, { dataset: DATASET, config: "all", split, signal }, what, [expected]);
  const bySubject = groupBy(rows, (row) => textField(row, "subject", `${DATASET}, ${split}`));
  const questions = subjects.map((subject): [string, Question[]] => [
    subject,
    (bySubject.get(subject) ?? []).map((row, i) => questionOf(row, `${DATASET}, ${subject}, ${split}, row ${i + 1}`)),
  ]);
  return { questions: new Map(questions.filter(([, rows]) => rows.length > 0)), notes: [] };
}

async function readFolder(root: string, folder: string, split: string, subjects: readonly string[]): Promise<Split> {
  const folders = [split, `${folder}/${split}`, `data/${split}`, `${folder}/data/${split}`];
  // A folder of the split alone is the English data; a translation has its name on it, or is its own folder.
  const candidates = folder === "mmlu" ? folders : folders.slice(1, 2).concat(folders.slice(3));
  for (const candidate of candidates) {
    const path = join(root, candidate);
    const files = await listFiles(path);
    const found = (files ?? []).flatMap((file) => {
      const match = /^(.+)_(dev|test)(\..+)?\.csv$/.exec(file);
      return match?.[2] === split && subjects.includes(match[1] ?? "")
        ? [{ subject: match[1] ?? "", file, part: match[3] }]
        : [];
    });
    if (found.length === 0) continue;
    const questions = new Map<string, Question[]>();
    for (const { subject, file } of found) questions.set(subject, await readCsvFile(join(path, file)));
    const missing = subjects.filter((subject) => !questions.has(subject));
    const cut = found.filter(({ part }) => part !== undefined);
    return {
      questions: new Map(
        subjects.flatMap((subject) => (questions.has(subject) ? [[subject, questions.get(subject) ?? []]] : [])),
      ),
      notes: [
        ...(missing.length > 0
          ? [`${plural(missing.length, "subject")} missing in ${path}: ${formatSome(missing)}`]
          : []),
        ...cut.map(({ subject, file }) => `${subject} is a part of its questions: ${file}`),
      ],
    };
  }
  throw missingDataError(
    `${root} has no MMLU ${split} questions; expected one of ${candidates.map((one) => `${one}/SUBJECT_${split}.csv`).join(", ")}`,
    root,
  );
}

async function readCsvFile(file: string): Promise<Question[]> {
  return parseCsv(await readText(file)).map((fields, i) => {
    const [question = "", ...rest] = fields;
    const correct = (LETTERS as readonly string[]).indexOf(rest[4] ?? "");
    if (fields.length !== 6 || correct < 0) {
      throw dataError(
        `${file}, row ${i + 1} has ${plural(fields.length, "field")}, the last ${JSON.stringify(fields.at(-1))}; ` +
          "expected the question, four choices, and A, B, C or D",
        { file },
      );
    }
    return { question, choices: rest.slice(0, 4), correct };
  });
}

function questionOf(row: Row, where: string): Question {
  const { choices, answer } = row;
  const correct = typeof answer === "string" ? (LETTERS as readonly string[]).indexOf(answer) : Number(answer);
  if (!Array.isArray(choices) || choices.length !== 4 || !(correct in LETTERS)) {
    throw dataError(`${where}: expected four choices, and an answer from 0 to 3`);
  }
  return { question: textField(row, "question", where), choices: choices.map(String), correct };
}
