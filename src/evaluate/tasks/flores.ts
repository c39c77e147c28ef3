// FLORES-200 (Costa-jussa et al. 2022, arXiv 2207.04672): translation of single sentences, scored over the corpus.
import { type Language, RecipeError, requireLanguage } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { type BleuOptions, bleuFromStatistics, bleuStatistics } from "../metrics/bleu.js";
import type { BleuTokenizer } from "../metrics/bleu-tokenizers.js";
import { CHRF_PLUS_PLUS, type ChrfOptions, chrfFromStatistics, chrfStatistics } from "../metrics/chrf.js";
import { declareTask } from "./declare-task.js";
import { LM_EVAL_TOKENS } from "./number-task.js";
import { protocolsOf } from "./protocol.js";
import { type Metric, type OpenOptions, type Task, type TaskFamily, textItems } from "./task.js";
import { dataError, type OpenData, taskRows, textField } from "./task-data.js";

const DATASET = "openlanguagedata/flores_plus";
const SENTENCES = 1012;
/** The longest sentences of devtest have about 400 tokens in scripts that a vocabulary hardly knows. */
const MAX_NEW_TOKENS = 512;

const PROTOCOLS = protocolsOf("flores");

/** Scripts without spaces between words, where tokens are characters. Chinese has a tokenizer of its own. */
const UNSPACED_SCRIPTS = ["Jpan", "Thai", "Laoo", "Khmr", "Mymr", "Tibt"];

/** The tokenizer that BLEU has for a language: 13a unless words have no spaces between them. */
export function bleuTokenizerFor(code: string): BleuTokenizer {
  const script = code.slice(4);
  if (script === "Hans" || script === "Hant") return "zh";
  return UNSPACED_SCRIPTS.includes(script) ? "char" : "13a";
}

export const flores: TaskFamily = {
  name: "flores",
  summary: "translation between any two of 200 languages, BLEU and chrF++",
  protocols: PROTOCOLS,
  pattern: "flores_SOURCE-TARGET, or flores_LANGUAGE for both directions with English",
  names: ["jpn", "ben", "swh", "tel"].flatMap((code) => [`flores_eng-${code}`, `flores_${code}-eng`]),
  open(name, options) {
    if (!name.startsWith("flores_")) return undefined;
    const codes = name.slice("flores_".length).split("-");
    const [first, second] = codes.map((code) => requireLanguage(code, { task: name, field: "tasks" }));
    if (!first || codes.length > 2 || first.code === second?.code) {
      throw RecipeError.at({ field: "tasks" }, `${name}: write two languages, as in flores_eng-swh`);
    }
    if (second) return [openFlores(first, second, options)];
    const english = requireLanguage("eng_Latn", { task: name, field: "tasks" });
    if (first.code === english.code) {
      throw RecipeError.at({ field: "tasks" }, `${name}: write the other language, as in flores_swh`);
    }
    return [openFlores(english, first, options), openFlores(first, english, options)];
  },
};

interface FloresMetric {
  readonly metric: Metric;
  /** Of one sentence, to be summed over the corpus. */
  readonly count: (hypothesis: string, reference: string) => number[];
}

function metricsOf(isLmEval: boolean, target: Language, { tokenize }: OpenOptions): FloresMetric[] {
  const bleu = { tokenize: tokenize ?? (isLmEval ? "13a" : bleuTokenizerFor(target.code)) };
  const chrf = isLmEval ? {} : CHRF_PLUS_PLUS;
  return [
    { metric: bleuMetric("bleu", "BLEU", bleu), count: bleuStatistics(bleu) },
    {
      metric: isLmEval ? chrfMetric("chrf", "chrF", chrf) : chrfMetric("chrf++", "chrF++"),
      count: chrfStatistics(chrf),
    },
  ];
}

function openFlores(source: Language, target: Language, options: OpenOptions): Task {
  return declareTask(options, PROTOCOLS, (protocol, shots) => {
    const isLmEval = protocol.name.startsWith("lm-eval/");
    const metrics = metricsOf(isLmEval, target, options);
    // lm-eval's declarations join an answer to its prompt without a space.
    const delimiter = isLmEval ? "" : " ";
    return {
      name: `flores_${source.code}-${target.code}`,
      title: `FLORES ${source.name} to ${target.name}`,
      answersIn: target,
      metrics: metrics.map(({ metric }) => metric),
      published: { what: "FLORES devtest", count: SENTENCES, unit: "sentence" },
      async load(data) {
        const pairs = await readPairs(data, source, target, "devtest");
        const examples = shots === 0 ? [] : await readPairs(data, source, target, "dev", ", for shots");
        const ask = (text: string) => `${source.name} sentence: ${text}\n${target.name} sentence:`;
        const shared = examples
          .slice(0, shots)
          .map(([text, translation]) => `${ask(text)}${delimiter}${translation}\n\n`)
          .join("");
        const asked = pairs.map(([text, gold]) => {
          return { prompt: { form: "text" as const, shared, own: ask(text) }, gold };
        });
        const maxNewTokens = isLmEval ? LM_EVAL_TOKENS : MAX_NEW_TOKENS;
        return { items: textItems(asked, { stop: ["\n"], maxNewTokens }) };
      },
      read(_, output) {
        if (typeof output !== "string") return {};
        return { translation: isLmEval ? output : (output.split("\n")[0]?.trim() ?? "") };
      },
      async score(item, { translation }) {
        if (typeof translation !== "string") return undefined;
        return Object.fromEntries(metrics.map(({ metric, count }) => [metric.of, count(translation, item.gold)]));
      },
    };
  });
}

/** A metric whose verdicts are BLEU's statistics. */
export function bleuMetric(name: string, title: string, options: BleuOptions): Metric {
  const score = (sums: readonly number[]) => bleuFromStatistics(sums, options).score;
  const { signature } = bleuFromStatistics([], options);
  return { name, title, of: name, by: "corpus", scale: "points", score, signature };
}

/** A metric whose verdicts are the statistics of chrF, chrF++ by default. */
export function chrfMetric(name: string, title: string, options: ChrfOptions = CHRF_PLUS_PLUS): Metric {
  const score = (sums: readonly number[]) => chrfFromStatistics(sums, options).score;
  const { signature } = chrfFromStatistics([], options);
  return { name, title, of: name, by: "corpus", scale: "points", score, signature };
}

async function readPairs(
  data: OpenData,
  source: Language,
  target: Language,
  split: string,
  purpose = "",
): Promise<(readonly [string, string])[]> {
  const read = async ({ code, name }: Language): Promise<string[]> => {
    const folders = ["flores200/", "flores200_dataset/", "flores/"].map((folder) => `${folder}${split}/`);
    const rows = await taskRows(data, {
      what: `FLORES ${split} in ${name}${purpose}`,
      files: [`${split}/`, ...folders, ""].map((folder) => `${folder}${code}.${split}`),
      read: { format: "text" },
      dataset: DATASET,
      // The data set's successor calls simplified and traditional Chinese by the code of Mandarin.
      config: code.replace(/^zho_/, "cmn_"),
      split,
    });
    return rows.map((row) => textField(row, "text"));
  };
  const [sentences, translations] = [await read(source), await read(target)];
  if (sentences.length !== translations.length) {
    throw dataError(
      `FLORES ${split} has ${plural(sentences.length, "sentence")} in ${source.code} and ${translations.length} in ` +
        `${target.code}; they must be translations of each other, line by line`,
    );
  }
  return sentences.map((text, i) => [text, translations[i] ?? ""]);
}
