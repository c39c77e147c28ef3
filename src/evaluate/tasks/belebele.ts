// Belebele: reading comprehension over FLORES passages in 122 languages, four choices. Bandarkar et al. 2023,
// arXiv 2308.16884.
import { type Language, plural, requireLanguage } from "../../core/index.js";
import { LETTER_CHOICES, LETTERS, readChoice, scoreChoice } from "./choosing.js";
import { matchProtocol, type Protocol, shotsOf } from "./protocol.js";
import { type ChooseItem, limitItems, type OpenOptions, type Task, type TaskFamily } from "./task.js";
import { type DataAccess, dataError, findFile, hubRows, type Row, readJsonLines, textField } from "./task-data.js";

interface BelebeleProtocol extends Protocol {
  readonly shotsIn: "native" | "eng_Latn";
}

const DATASET = "facebook/belebele";
const QUESTIONS = 900;

const PROTOCOLS: readonly BelebeleProtocol[] = [
  {
    name: "layergraft/belebele",
    version: 1,
    summary: "Shots are the first rows of the same language, never the row itself; log-likelihood of the letters.",
    reference: "prompt and shots of lm-evaluation-harness 0.4.13",
    shots: { default: 5, most: 20 },
    specialTokens: true,
    shotsIn: "native",
  },
  {
    name: "layergraft/belebele-english-shots",
    version: 1,
    summary: "As layergraft/belebele, with the shots in English and never on the passage that is asked about.",
    reference: "Bandarkar et al. 2023, arXiv 2308.16884, section 4: English shots; rows instead of its training set",
    shots: { default: 5, most: 20 },
    specialTokens: true,
    shotsIn: "eng_Latn",
  },
  {
    name: "lm-eval/belebele",
    version: 0,
    summary: "As lm-evaluation-harness asks it: first rows of the same language; BOS where the tokenizer puts it.",
    reference: "lm-evaluation-harness 0.4.13, tasks/belebele, version 0.0",
    shots: { default: 5, most: 20 },
    specialTokens: true,
    shotsIn: "native",
  },
];

export const belebele: TaskFamily = {
  name: "belebele",
  summary: "reading comprehension in 122 languages, accuracy",
  protocols: PROTOCOLS,
  pattern: "belebele_LANGUAGE",
  names: ["eng", "jpn", "ben", "swh", "tel"].map((code) => `belebele_${code}`),
  open(name, options) {
    if (!name.startsWith("belebele_")) return undefined;
    return [openBelebele(requireLanguage(name.slice("belebele_".length), { task: name, field: "tasks" }), options)];
  },
};

function openBelebele({ code, name }: Language, options: OpenOptions): Task {
  const protocol = (matchProtocol(options.protocol, PROTOCOLS) ?? PROTOCOLS[0]) as BelebeleProtocol;
  const shots = shotsOf(protocol, options.shots);
  return {
    name: `belebele_${code}`,
    title: `Belebele ${name}`,
    protocol,
    shots,
    metrics: [{ name: "accuracy", title: "accuracy", of: "accuracy", by: "mean", scale: "share" }],
    executes: false,
    async load(data, { limit, signal } = {}) {
      const rows = await readRows(data, code, signal);
      const pool = shots === 0 || protocol.shotsIn === "native" ? rows : await readRows(data, protocol.shotsIn, signal);
      if (pool.length <= shots) {
        throw dataError(`Belebele ${code} has ${plural(pool.length, "row")} here, too few for ${shots} shots`);
      }
      // Most rows have the same shots, and then the same string.
      const prefixes = new Map<string, string>();
      const items = rows.map((row): ChooseItem => {
        const isOther =
          protocol.shotsIn === "native"
            ? (shot: Question) => shot.id !== row.id
            : (shot: Question) => shot.link !== row.link;
        const chosen = pool.filter(isOther).slice(0, shots);
        const key = chosen.map(({ id }) => id).join(" ");
        const shared = prefixes.get(key) ?? chosen.map((shot) => `${shot.text} ${LETTERS[shot.correct]}\n\n`).join("");
        prefixes.set(key, shared);
        return {
          kind: "choose",
          id: row.id,
          prompt: { form: "text", shared, own: row.text },
          choices: LETTER_CHOICES,
          labels: LETTERS,
          correct: row.correct,
          gold: LETTERS[row.correct] ?? "",
        };
      });
      const notes =
        items.length === QUESTIONS
          ? []
          : [`Belebele ${code} has ${plural(items.length, "question")} here, not ${QUESTIONS}`];
      return { items: limitItems(items, limit), notes };
    },
    read: readChoice,
    score: scoreChoice,
  };
}

interface Question {
  readonly id: string;
  readonly link: string;
  /** The prompt up to `Answer:`. */
  readonly text: string;
  readonly correct: number;
}

async function readRows(data: DataAccess, code: string, signal: AbortSignal | undefined): Promise<Question[]> {
  const what = `Belebele in ${code}`;
  const file = `${code}.jsonl`;
  if (data.folder === undefined) {
    const rows = await hubRows(data, { dataset: DATASET, config: code, split: "test", signal }, what, [file]);
    return rows.map((row, i) => questionOf(row, `${DATASET}, ${code}, row ${i + 1}`));
  }
  const folders = ["", "belebele/", "Belebele/", "data/", "belebele/data/"];
  const path = await findFile(
    data.folder,
    folders.map((folder) => folder + file),
    what,
  );
  return (await readJsonLines(path)).map((row, i) => questionOf(row, `${path}, row ${i + 1}`));
}

function questionOf(row: Row, where: string): Question {
  const field = (name: string) => textField(row, name, where);
  const answers = [1, 2, 3, 4].map((number) => field(`mc_answer${number}`));
  const correct = Number(field("correct_answer_num")) - 1;
  if (!(correct in answers)) {
    throw dataError(`${where}: correct_answer_num is ${field("correct_answer_num")}; expected 1, 2, 3 or 4`);
  }
  const link = field("link");
  const choices = answers.map((answer, i) => `${LETTERS[i]}: ${answer}`).join("\n");
  return {
    // The same in every language, as the rows are parallel.
    id: `${link}#${field("question_number")}`,
    link,
    text: `P: ${field("flores_passage")}\nQ: ${field("question").trim()}\n${choices}\nAnswer:`,
    correct,
  };
}
