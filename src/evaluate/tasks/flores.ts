// FLORES-200: translation of single sentences between any two of its languages, scored over the corpus.
// Costa-jussa et al. 2022, arXiv 2207.04672.
import { type Language, plural, RecipeError, requireLanguage } from "../../core/index.js";
import {
  type BleuOptions,
  type BleuTokenizer,
  bleuFromStatistics,
  bleuStatistics,
  CHRF_PLUS_PLUS,
  chrfFromStatistics,
  chrfStatistics,
} from "../metrics/index.js";
import { matchProtocol, type Protocol, shotsOf } from "./protocol.js";
import { type GenerateItem, limitItems, type Metric, type OpenOptions, type Task, type TaskFamily } from "./task.js";
import { type DataAccess, dataError, findFile, hubRows, readLines, textField } from "./task-data.js";

const DATASET = "openlanguagedata/flores_plus";
const SENTENCES = 1012;
/** The longest sentences of devtest have about 400 tokens in scripts that a vocabulary hardly knows. */
const MAX_NEW_TOKENS = 512;

const PROTOCOLS: readonly Protocol[] = [
  {
    name: "layergraft/flores",
    version: 1,
    summary: "One sentence, named by its language; the translation is the line that follows. devtest.",
    reference: "layergraft; 0-shot as in Bandarkar et al., arXiv 2410.01335",
    shots: { default: 0, most: 10 },
    specialTokens: true,
  },
];

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
      throw new RecipeError(`${name}: write two languages, as in flores_eng-swh`, [], { field: "tasks" });
    }
    if (second) return [openFlores(first, second, options)];
    const english = requireLanguage("eng_Latn", { task: name, field: "tasks" });
    if (first.code === english.code) {
      throw new RecipeError(`${name}: write the other language, as in flores_swh`, [], { field: "tasks" });
    }
    return [openFlores(english, first, options), openFlores(first, english, options)];
  },
};

function openFlores(source: Language, target: Language, options: OpenOptions): Task {
  const protocol = matchProtocol(options.protocol, PROTOCOLS) ?? (PROTOCOLS[0] as Protocol);
  const shots = shotsOf(protocol, options.shots);
  const pieces = options.pieces ? { pieces: options.pieces } : {};
  const bleu: BleuOptions = { tokenize: options.tokenize ?? bleuTokenizerFor(target.code), ...pieces };
  const subwordBleu: BleuOptions = { tokenize: "flores200", ...pieces };
  const statistics: Readonly<Record<string, (hypothesis: string, references: readonly string[]) => number[]>> = {
    bleu: bleuStatistics(bleu),
    "chrf++": chrfStatistics(CHRF_PLUS_PLUS),
    ...(options.pieces ? { spbleu: bleuStatistics(subwordBleu) } : {}),
  };
  return {
    name: `flores_${source.code}-${target.code}`,
    title: `FLORES ${source.name} to ${target.name}`,
    protocol,
    shots,
    metrics: [
      bleuMetric("bleu", "BLEU", bleu),
      chrfMetric("chrf++", "chrF++"),
      ...(options.pieces ? [bleuMetric("spbleu", "spBLEU", subwordBleu)] : []),
    ],
    executes: false,
    async load(data, { limit, signal } = {}) {
      const [sentences, translations] = await readPair(data, source, target, "devtest", signal);
      const [questions, answers] =
        shots === 0 ? [[], []] : await readPair(data, source, target, "dev", signal, "for shots");
      const ask = (text: string) => `${source.name} sentence: ${text}\n${target.name} sentence:`;
      const shared = questions
        .slice(0, shots)
        .map((text, i) => `${ask(text)} ${answers[i] ?? ""}\n\n`)
        .join("");
      const items = sentences.map(
        (text, i): GenerateItem => ({
          kind: "generate",
          id: String(i + 1),
          prompt: { form: "text", shared, own: ask(text) },
          gold: translations[i] ?? "",
          stop: ["\n"],
          maxNewTokens: MAX_NEW_TOKENS,
        }),
      );
      const notes =
        items.length === SENTENCES
          ? []
          : [`FLORES devtest has ${plural(items.length, "sentence")} here, not ${SENTENCES}`];
      return { items: limitItems(items, limit), notes };
    },
    read: (_, output) => (typeof output === "string" ? { translation: output.split("\n")[0]?.trim() ?? "" } : {}),
    async score(item, { translation }) {
      if (typeof translation !== "string") return undefined;
      return Object.fromEntries(
        Object.entries(statistics).map(([name, count]) => [name, count(translation, [item.gold])]),
      );
    },
  };
}

/** A metric whose verdicts are BLEU's statistics. */
export function bleuMetric(name: string, title: string, options: BleuOptions): Metric {
  const score = (sums: readonly number[]) => bleuFromStatistics(sums, options).score;
  const { signature } = bleuFromStatistics([], options);
  return { name, title, of: name, by: "corpus", scale: "points", score, signature };
}

/** A metric whose verdicts are the statistics of chrF++. */
export function chrfMetric(name: string, title: string): Metric {
  const score = (sums: readonly number[]) => chrfFromStatistics(sums, CHRF_PLUS_PLUS).score;
  const { signature } = chrfFromStatistics([], CHRF_PLUS_PLUS);
  return { name, title, of: name, by: "corpus", scale: "points", score, signature };
}

/** The sentences of both languages, line by line translations of each other. */
async function readPair(
  data: DataAccess,
  source: Language,
  target: Language,
  split: string,
  signal: AbortSignal | undefined,
  why = "",
): Promise<[readonly string[], readonly string[]]> {
  const sentences = await readSentences(data, source, split, signal, why);
  const translations = await readSentences(data, target, split, signal, why);
  if (sentences.length !== translations.length) {
    throw dataError(
      `FLORES ${split} has ${plural(sentences.length, "sentence")} in ${source.code} and ${translations.length} in ` +
        `${target.code}; they must be translations of each other, line by line`,
    );
  }
  return [sentences, translations];
}

async function readSentences(
  data: DataAccess,
  { code, name }: Language,
  split: string,
  signal: AbortSignal | undefined,
  why: string,
): Promise<string[]> {
  const what = `FLORES ${split} in ${name}${why === "" ? "" : `, ${why}`}`;
  const file = `${code}.${split}`;
  if (data.folder !== undefined) {
    const folders = ["", "flores200/", "flores200_dataset/", "flores/"].map((folder) => `${folder}${split}/`);
    return readLines(
      await findFile(
        data.folder,
        [...folders, ""].map((folder) => folder + file),
        what,
      ),
    );
  }
  // The data set's successor calls simplified and traditional Chinese by the code of Mandarin.
  const config = code.replace(/^zho_/, "cmn_");
  const rows = await hubRows(data, { dataset: DATASET, config, split, signal }, what, [`${split}/${file}`]);
  return rows.map((row, i) => textField(row, "text", `${DATASET}, ${config}, ${split}, row ${i + 1}`));
}
