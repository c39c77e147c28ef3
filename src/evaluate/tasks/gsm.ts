// GSM8K, and AfriMGSM: 250 of its problems in 17 African languages, English and French. Cobbe et al. 2021,
// arXiv 2110.14168; Adelani et al. 2024, arXiv 2406.03368.
import { didYouMean, findLanguage, RecipeError, requireLanguage } from "../../core/index.js";
import { declareTask } from "./declare-task.js";
import {
  declareNumberTask,
  LM_EVAL_TOKENS,
  lmEvalReader,
  lmEvalStops,
  mgsmReader,
  type NumberReader,
  problemOf,
} from "./number-task.js";
import type { Protocol } from "./protocol.js";
import type { TaskFamily } from "./task.js";
import { type LocatedRow, type OpenData, taskRows, textField } from "./task-data.js";

interface GsmProtocol extends Protocol {
  /** What the answer comes after. */
  readonly heading: string;
  readonly maxNewTokens: number;
  readonly reader: NumberReader;
  /** Stops beside those of every declaration. */
  readonly alsoStops?: readonly string[];
}

const STEPS = "Step-by-Step Answer:";
const STEPS_TOKENS = 512;

/** 2: reads numbers as version 3 of MGSM's protocols. */
const READER_VERSION = 2;

const GSM8K: readonly GsmProtocol[] = [
  {
    name: "layergraft/gsm8k",
    version: READER_VERSION,
    summary: "The first training problems with their steps, then the problem; the answer comes after ####.",
    reference: "Cobbe et al. 2021, arXiv 2110.14168; prompt of lm-evaluation-harness 0.4.13",
    shots: { default: 5, most: 20 },
    heading: "Answer:",
    maxNewTokens: STEPS_TOKENS,
    reader: mgsmReader("en", { phrase: "####" }),
  },
  {
    name: "lm-eval/gsm8k",
    version: 3,
    summary: "As in lm-evaluation-harness; shots are the first training problems, which it draws at random.",
    reference: "lm-evaluation-harness 0.4.13, tasks/gsm8k, version 3.0",
    shots: { default: 5, most: 20 },
    heading: "Answer:",
    maxNewTokens: LM_EVAL_TOKENS,
    reader: lmEvalReader(/#### (-?[0-9.,]+)/, "gsm8k"),
  },
];

export const gsm8k: TaskFamily = {
  name: "gsm8k",
  summary: "grade-school mathematics in English, exact match",
  protocols: GSM8K,
  pattern: "gsm8k",
  names: ["gsm8k"],
  open(name, options) {
    if (name !== "gsm8k") return undefined;
    const read = (data: OpenData, split: "test" | "train") => {
      const folders = ["gsm8k/", "", "grade_school_math/data/", "gsm8k/grade_school_math/data/"];
      const files = folders.map((folder) => `${folder}${split}.jsonl`);
      return taskRows(data, { what: `GSM8K, ${split}`, files, dataset: "openai/gsm8k", config: "main", split });
    };
    const declare = ({ heading, maxNewTokens, reader }: GsmProtocol, shots: number) =>
      declareNumberTask({
        name,
        title: "GSM8K",
        reader,
        shots,
        maxNewTokens,
        published: { what: "GSM8K", count: 1319, unit: "problem" },
        benchmark: { dataset: "openai/gsm8k", task: "gsm8k" },
        answersIn: requireLanguage("en", { field: "tasks" }),
        ask: (question) => `Question: ${question}\n${heading}`,
        stop: lmEvalStops("Question:"),
        problems: async (data) =>
          (await read(data, "test")).map((row) =>
            problemOf(row, "answer", (text) => text.slice(text.lastIndexOf("####") + 4)),
          ),
        examples: async (data) =>
          (await read(data, "train")).map(
            (row) => `Question: ${textField(row, "question")}\n${heading} ${textField(row, "answer")}`,
          ),
      });
    return [declareTask(options, GSM8K, declare)];
  },
};

/** Languages of AfriMGSM by its codes, and how an answer is announced in each. Phrases: lm-eval, tasks/afrimgsm/utils.py. */
const AFRICAN: Readonly<Record<string, readonly [name: string, phrase: string]>> = {
  amh: ["Amharic", "መልሱ"],
  eng: ["English", "the answer is"],
  ewe: ["Ewe", "ŋuɖoɖoae nye"],
  fra: ["French", "la réponse est"],
  hau: ["Hausa", "amsar ita ce"],
  ibo: ["Igbo", "azịza ya bụ"],
  kin: ["Kinyarwanda", "igisubizo ni"],
  lin: ["Lingala", "eyano ezali"],
  lug: ["Luganda", "ansa eri"],
  orm: ["Oromo", "deebiin isaa"],
  sna: ["Shona", "mhinduro kumubvunzo ndi"],
  sot: ["Southern Sotho", "karabo ke"],
  swa: ["Swahili", "jibu ni"],
  twi: ["Twi", "ne nnyiano yɛ"],
  vai: ["Vai", "the answer is"],
  wol: ["Wolof", "tontu li"],
  xho: ["Xhosa", "impendulo ngu"],
  yor: ["Yoruba", "ìdáhùn náà ni"],
  zul: ["Zulu", "impendulo ithi"],
};

/** The code of a language of IrokoBench that a code or name means. @throws RecipeError where there is none */
export function africanCode(asked: string, task: string): string {
  const codes = [asked, ...(findLanguage(asked)?.codes ?? [])];
  const found = codes.find((code) => Object.hasOwn(AFRICAN, code));
  if (found !== undefined) return found;
  const known = Object.keys(AFRICAN);
  throw new RecipeError(
    `${task}: there is no language ${asked}${didYouMean(asked, known)} (languages: ${known.join(", ")})`,
    [],
    { field: "tasks", actual: asked },
  );
}

export const africanName = (code: string): string => AFRICAN[code]?.[0] ?? code;

const lmEvalAfriMgsm = (folder: string, heading: string, most: number, strict?: RegExp): GsmProtocol => ({
  name: `lm-eval/afrimgsm-${folder.replace("direct_", "")}`,
  version: 2,
  summary: "As the first prompt of lm-evaluation-harness, which is in English; shots are the first training rows.",
  reference: `lm-evaluation-harness 0.4.13, tasks/afrimgsm/${folder}/prompt_1, version 2.0`,
  shots: { default: 0, most },
  heading,
  maxNewTokens: LM_EVAL_TOKENS,
  reader: lmEvalReader(strict, "without punctuation"),
});

const AFRIMGSM: readonly GsmProtocol[] = [
  {
    name: "layergraft/afrimgsm",
    version: READER_VERSION,
    summary: "The training rows of the language with their steps, then the problem; prefixes in English.",
    reference: "Adelani et al. 2024, arXiv 2406.03368; prompt of lm-evaluation-harness 0.4.13",
    shots: { default: 8, most: 8 },
    heading: STEPS,
    maxNewTokens: STEPS_TOKENS,
    // Replaced by the language's own.
    reader: mgsmReader("en", { phrase: "the answer is" }),
  },
  { ...lmEvalAfriMgsm("direct_cot", STEPS, 8, /The answer is (-?[0-9.,]+)/), alsoStops: ["<|eot_id|>"] },
  // Its declaration has no rows for shots.
  lmEvalAfriMgsm("direct", "Answer:", 0),
];

export const afrimgsm: TaskFamily = {
  name: "afrimgsm",
  summary: "grade-school mathematics in 17 African languages, English and French, exact match",
  protocols: AFRIMGSM,
  pattern: "afrimgsm_LANGUAGE",
  names: Object.keys(AFRICAN).map((code) => `afrimgsm_${code}`),
  open(name, options) {
    if (!name.startsWith("afrimgsm_")) return undefined;
    const code = africanCode(name.slice("afrimgsm_".length), name);
    // The English phrase or the language's own.
    const phrase = `the answer is|${AFRICAN[code]?.[1] ?? ""}`;
    const read = (data: OpenData, split: "test" | "train") => {
      const file = `${code}/${split === "train" ? "dev" : split}.tsv`;
      const files = ["afrimgsm/data/", "afrimgsm/", "data/"].map((folder) => folder + file);
      const source = { what: `AfriMGSM in ${africanName(code)}, ${split}`, files, quotes: true };
      return taskRows(data, { ...source, dataset: "masakhane/afrimgsm", config: code, split });
    };
    const declare = ({ name: protocol, heading, maxNewTokens, reader, alsoStops = [] }: GsmProtocol, shots: number) =>
      declareNumberTask({
        name: `afrimgsm_${code}`,
        title: `AfriMGSM ${africanName(code)}`,
        shots,
        maxNewTokens,
        reader: protocol.startsWith("layergraft/") ? mgsmReader("en", { phrase }) : reader,
        published: { what: `AfriMGSM ${code}`, count: 250, unit: "problem" },
        benchmark: { dataset: "masakhane/afrimgsm", task: code },
        // Steps may be in English or in the language.
        answersIn: undefined,
        ask: (question) => `Question: ${question}\n${heading}`,
        stop: [...lmEvalStops("Question:"), ...alsoStops],
        problems: async (data) => (await read(data, "test")).map((row) => problemOf(row, "answer_number")),
        examples: async (data) => (await read(data, "train")).map((row) => exampleOf(row, heading)),
      });
    return [declareTask(options, AFRIMGSM, declare)];
  },
};

/** Rows for shots have the prefixes of question and answer in their text. */
function exampleOf(row: LocatedRow, heading: string): string {
  const answer = textField(row, "answer").slice(STEPS.length + 1);
  return `${textField(row, "question")}\n${heading} ${answer}`;
}
