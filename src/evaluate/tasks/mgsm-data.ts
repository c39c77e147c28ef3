// The data of MGSM: problems as TSV without a header, exemplars as exemplars.json or exemplars.py, or rows of the hub.
import { MGSM_LANGUAGES, type MgsmLanguage } from "../answers/mgsm-announcements.js";
import { MGSM_WORDS } from "./mgsm-language.js";
import { type Problem, problemOf } from "./number-task.js";
import { parsePythonDictionary } from "./python-literal.js";
import { dataError, findFile, type LocatedRow, type OpenData, readText, taskRows, textField } from "./task-data.js";

export interface MgsmExemplar {
  /** With its prefix. */
  readonly question: string;
  /** Steps, with their prefix. */
  readonly answer: string;
  readonly number: string;
}

export interface MgsmEdition {
  /** What its tasks are called: `mgsm` of `mgsm_sw`. */
  readonly name: string;
  readonly title: string;
  readonly dataset: string;
  /** Where its files may be in a folder. */
  readonly folders: readonly string[];
}

const DATASET = "juletxara/mgsm";
export const MGSM_EXEMPLARS = 8;

/** The longer name first. */
export const MGSM_EDITIONS: readonly MgsmEdition[] = [
  // Peter et al. 2025, arXiv 2511.05162: translations corrected. It has no exemplars; tasks take those of the first edition.
  { name: "mgsm_rev2", title: "MGSM-Rev2", dataset: "lightonai/mgsm-rev2", folders: ["mgsm_rev2/", "MGSM-Rev2/"] },
  { name: "mgsm", title: "MGSM", dataset: DATASET, folders: ["", "mgsm/"] },
];

/** The task of an edition in a language, as far as it does not depend on how it is asked. */
export function mgsmTask({ name, title, dataset, folders }: MgsmEdition, language: MgsmLanguage) {
  const file = `mgsm_${language}.tsv`;
  return {
    name: `${name}_${language}`,
    title: `${title} ${MGSM_WORDS[language].name}`,
    published: { what: `${title} ${language}`, count: 250, unit: "problem" },
    benchmark: { dataset, task: language },
    /** In the order of the file. */
    async problems(data: OpenData): Promise<Problem[]> {
      const rows = await taskRows(data, {
        what: `${title} in ${language}`,
        files: folders.map((folder) => folder + file),
        read: { header: ["question", "answer_number"] },
        dataset,
        config: language,
        split: "test",
      });
      return rows.map((located) => problemOf(located, "answer_number"));
    },
  };
}

/** The exemplars of a language, in their order. */
export async function readMgsmExemplars(data: OpenData, language: MgsmLanguage): Promise<MgsmExemplar[]> {
  const what = "the exemplars of MGSM";
  const names = ["exemplars.json", "exemplars.py"];
  const files = [...names, ...names.map((name) => `mgsm/${name}`)];
  if (data.folder === undefined) {
    const rows = await taskRows(data, { what, files, dataset: DATASET, config: language, split: "train" });
    return rows.map((row) => exemplarOf(row, "question", "answer", "answer_number"));
  }
  const file = await findFile(data.folder, files, what);
  const source = await readText(file);
  if (!file.endsWith(".py")) {
    const value = parseJson(source, file) as { exemplars?: unknown; number_answers?: unknown } | null;
    return exemplarsOf(value?.exemplars, value?.number_answers, language, file);
  }
  const [exemplars, numbers] = ["MGSM_EXEMPLARS", "EXEMPLAR_NUMBER_ANSWERS"].map((name) =>
    parsePythonDictionary(source, name, file),
  );
  return exemplarsOf(exemplars, numbers, language, file);
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw dataError(`${file} is not JSON: ${(error as Error).message}`, { file }, error);
  }
}

/** Exemplars as a list, or under the keys "1" to "8"; each with q and a. */
function exemplarsOf(exemplars: unknown, numbers: unknown, language: MgsmLanguage, file: string): MgsmExemplar[] {
  const ofLanguage = (exemplars as Record<string, unknown> | null | undefined)?.[language];
  if (typeof ofLanguage !== "object" || ofLanguage === null || !Array.isArray(numbers)) {
    throw dataError(
      `${file} has no exemplars in ${language}; expected number_answers, and exemplars by language (${MGSM_LANGUAGES.join(", ")}), each with q and a`,
      { file },
    );
  }
  return Object.values(ofLanguage as Record<string, unknown>).map((value, i) => {
    const where = `${file}, ${language}, exemplar ${i + 1}`;
    const located = { row: { ...(value as object | null), number: numbers[i] }, where };
    return exemplarOf(located, "q", "a", "number");
  });
}

function exemplarOf(row: LocatedRow, question: string, answer: string, number: string): MgsmExemplar {
  return { question: textField(row, question), answer: textField(row, answer), number: textField(row, number) };
}
