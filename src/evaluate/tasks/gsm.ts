// GSM8K (Cobbe et al. 2021, arXiv 2110.14168) and AfriMGSM (Adelani et al. 2024, arXiv 2406.03368).

import { findLanguage, own, RecipeError, requireLanguage } from "../../kit/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import AFRICAN from "./african-languages.json" with { type: "json" };
import { declareTask } from "./declare-task.js";
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
import type { OpenOptions, Task, TaskFamily } from "./task.js";
import { type LocatedRow, type OpenData, taskRows, textField } from "./task-data.js";

interface GsmProtocol extends Protocol {
  readonly heading: string;
  readonly maxNewTokens: number;
  /** lm-eval's pattern of `strict-match`. */
  readonly strict?: string;
  readonly alsoStops?: readonly string[];
}

/** What the two families differ in. */
interface GsmTask extends Pick<NumberTask<string>, "name" | "title" | "published" | "benchmark" | "answersIn"> {
  /** What an answer is announced by. */
  readonly phrase: string;
  readonly compares: Parameters<typeof lmEvalReader>[1];
  read(data: OpenData, split: "test" | "train"): Promise<readonly LocatedRow[]>;
  problemOf(row: LocatedRow): ReturnType<typeof problemOf>;
  exampleOf(row: LocatedRow, heading: string): string;
}

function openGsm(task: GsmTask, protocols: readonly GsmProtocol[], options: OpenOptions): Task {
  const { phrase, compares, read, problemOf, exampleOf, ...named } = task;
  return declareTask(options, protocols, ({ name, heading, maxNewTokens, strict, alsoStops = [] }, shots) =>
    declareNumberTask({
      ...named,
      shots,
      maxNewTokens,
      reader: name.startsWith("layergraft/") ? mgsmReader("en", { phrase }) : lmEvalReader(strict, compares),
      stop: [...lmEvalStops("Question:"), ...alsoStops],
      problems: async (data) => (await read(data, "test")).map(problemOf),
      examples: async (data) => (await read(data, "train")).map((row) => exampleOf(row, heading)),
      prompter: (examples) => textPrompter((question) => `Question: ${question}\n${heading}`, examples),
    }),
  );
}

const GSM8K = protocolsOf<GsmProtocol>("gsm8k");

export const gsm8k: TaskFamily = {
  name: "gsm8k",
  summary: "grade-school mathematics in English, exact match",
  protocols: GSM8K,
  pattern: "gsm8k",
  names: ["gsm8k"],
  open(name, options) {
    if (name !== "gsm8k") return undefined;
    const task: GsmTask = {
      name,
      title: "GSM8K",
      published: { what: "GSM8K", count: 1319, unit: "problem" },
      benchmark: { dataset: "openai/gsm8k", task: "gsm8k" },
      answersIn: requireLanguage("en", { field: "tasks" }),
      phrase: "####",
      compares: "gsm8k",
      read(data, split) {
        const folders = ["gsm8k/", "", "grade_school_math/data/", "gsm8k/grade_school_math/data/"];
        const files = folders.map((folder) => `${folder}${split}.jsonl`);
        return taskRows(data, { what: `GSM8K, ${split}`, files, dataset: "openai/gsm8k", config: "main", split });
      },
      problemOf: (row) => problemOf(row, "answer", (text) => text.slice(text.lastIndexOf("####") + 4)),
      exampleOf: (row, heading) => `Question: ${textField(row, "question")}\n${heading} ${textField(row, "answer")}`,
    };
    return [openGsm(task, GSM8K, options)];
  },
};

/** A language of IrokoBench, and how an answer is announced in it. Phrases: lm-eval, tasks/afrimgsm/utils.py. */
interface AfricanLanguage {
  readonly code: string;
  readonly name: string;
  readonly answer: string;
}

/** The language of IrokoBench that a code or name means. @throws RecipeError where there is none */
export function africanLanguage(asked: string, task: string): AfricanLanguage {
  for (const code of [asked, ...(findLanguage(asked)?.codes ?? [])]) {
    const found = own(AFRICAN as Readonly<Record<string, Omit<AfricanLanguage, "code">>>, code);
    if (found) return { code, ...found };
  }
  const known = Object.keys(AFRICAN);
  const message = `${task}: there is no language ${asked}${didYouMean(asked, known)} (languages: ${known.join(", ")})`;
  throw RecipeError.at({ field: "tasks", actual: asked }, message);
}

const AFRIMGSM = protocolsOf<GsmProtocol>("afrimgsm");
/** What the answer of a row for shots begins with. */
const STEPS = "Step-by-Step Answer:";

export const afrimgsm: TaskFamily = {
  name: "afrimgsm",
  summary: "grade-school mathematics in 17 African languages, English and French, exact match",
  protocols: AFRIMGSM,
  pattern: "afrimgsm_LANGUAGE",
  names: Object.keys(AFRICAN).map((code) => `afrimgsm_${code}`),
  open(asked, options) {
    if (!asked.startsWith("afrimgsm_")) return undefined;
    const { code, name, answer } = africanLanguage(asked.slice("afrimgsm_".length), asked);
    const dataset = "masakhane/afrimgsm";
    const task: GsmTask = {
      name: `afrimgsm_${code}`,
      title: `AfriMGSM ${name}`,
      published: { what: `AfriMGSM ${code}`, count: 250, unit: "problem" },
      benchmark: { dataset, task: code },
      // Steps may be in English or in the language, and so may the phrase.
      answersIn: undefined,
      phrase: `the answer is|${answer}`,
      compares: "without punctuation",
      read(data, split) {
        const file = `${code}/${split === "train" ? "dev" : split}.tsv`;
        const files = ["afrimgsm/data/", "afrimgsm/", "data/"].map((folder) => folder + file);
        return taskRows(data, {
          what: `AfriMGSM in ${name}, ${split}`,
          files,
          quotes: true,
          dataset,
          config: code,
          split,
        });
      },
      problemOf: (row) => problemOf(row, "answer_number"),
      // Rows for shots have the prefixes of question and answer in their text.
      exampleOf: (row, heading) =>
        `${textField(row, "question")}\n${heading} ${textField(row, "answer").slice(STEPS.length + 1)}`,
    };
    return [openGsm(task, AFRIMGSM, options)];
  },
};
