// Belebele (Bandarkar et al. 2023, arXiv 2308.16884): reading comprehension over FLORES passages, four choices.
import { type Language, requireLanguage } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { declareTask } from "./declare-task.js";
import { choiceJudging, LETTERS, letterItem } from "./multiple-choice.js";
import { type Protocol, protocolsOf } from "./protocol.js";
import type { OpenOptions, Task, TaskFamily } from "./task.js";
import { dataError, type LocatedRow, type OpenData, taskRows, textField } from "./task-data.js";

interface BelebeleProtocol extends Protocol {
  readonly shotsIn: "native" | "eng_Latn";
}

const DATASET = "facebook/belebele";
const QUESTIONS = 900;

const PROTOCOLS = protocolsOf<BelebeleProtocol>("belebele");

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
  return declareTask(options, PROTOCOLS, (protocol, shots) => ({
    name: `belebele_${code}`,
    title: `Belebele ${name}`,
    metrics: [{ name: "accuracy", title: "accuracy", of: "accuracy", by: "mean", scale: "share" }],
    published: { what: `Belebele ${code}`, count: QUESTIONS, unit: "question" },
    benchmark: { dataset: DATASET, task: code },
    async load(data) {
      const { shotsIn } = protocol;
      const rows = await readQuestions(data, code);
      const pool = shots === 0 || shotsIn === "native" ? rows : await readQuestions(data, shotsIn);
      if (pool.length <= shots) {
        throw dataError(`Belebele ${code} has ${plural(pool.length, "row")} here, too few for ${shots} shots`);
      }
      // Most rows have the same shots, and then the same string.
      const prefixes = new Map<string, string>();
      const items = rows.map(({ id, link, text, correct }) => {
        const others = pool.filter((shot) => (shotsIn === "native" ? shot.id !== id : shot.link !== link));
        const chosen = others.slice(0, shots);
        const key = chosen.map((shot) => shot.id).join(" ");
        const shared = prefixes.get(key) ?? chosen.map((shot) => `${shot.text} ${LETTERS[shot.correct]}\n\n`).join("");
        prefixes.set(key, shared);
        return letterItem({ id, prompt: { form: "text", shared, own: text }, correct });
      });
      return { items };
    },
    ...choiceJudging(protocol),
  }));
}

interface Question {
  readonly id: string;
  readonly link: string;
  /** The prompt up to `Answer:`. */
  readonly text: string;
  readonly correct: number;
}

async function readQuestions(data: OpenData, code: string): Promise<Question[]> {
  const folders = ["", "belebele/", "Belebele/", "data/", "belebele/data/"];
  const files = folders.map((folder) => `${folder}${code}.jsonl`);
  const source = { what: `Belebele in ${code}`, files, dataset: DATASET, config: code, split: "test" };
  return (await taskRows(data, source)).map(questionOf);
}

function questionOf(located: LocatedRow): Question {
  const field = (name: string) => textField(located, name);
  const answers = [1, 2, 3, 4].map((number) => field(`mc_answer${number}`));
  const correct = Number(field("correct_answer_num")) - 1;
  if (!(correct in answers)) {
    throw dataError(`${located.where}: correct_answer_num is ${field("correct_answer_num")}; expected 1, 2, 3 or 4`);
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
