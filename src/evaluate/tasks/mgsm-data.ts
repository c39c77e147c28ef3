// The files of MGSM: problems as headerless TSV, exemplars as exemplars.json or the exemplars.py they come from, or the
// rows of the hub.
import { plural } from "../../core/index.js";
import { MGSM_LANGUAGES, type MgsmLanguage, parseDecimal } from "../answers/index.js";
import { parsePythonDictionary } from "./python-literal.js";
import { type DataAccess, dataError, findFile, hubRows, readLines, readText, textField } from "./task-data.js";

export interface MgsmProblem {
  readonly question: string;
  /** In canonical decimal form. */
  readonly answer: string;
}

export interface MgsmExemplar {
  /** With its prefix. */
  readonly question: string;
  /** Steps, with their prefix. */
  readonly answer: string;
  readonly number: string;
}

const DATASET = "juletxara/mgsm";
export const MGSM_PROBLEMS = 250;
export const MGSM_EXEMPLARS = 8;

/** The problems of a language, in the order of the file. */
export async function readMgsmProblems(
  data: DataAccess,
  language: MgsmLanguage,
  signal?: AbortSignal,
): Promise<MgsmProblem[]> {
  const what = `MGSM in ${language}`;
  const files = [`mgsm_${language}.tsv`, `mgsm/mgsm_${language}.tsv`];
  if (data.folder === undefined) {
    const rows = await hubRows(data, { dataset: DATASET, config: language, split: "test", signal }, what, [
      `mgsm_${language}.tsv`,
    ]);
    return rows.map((row, i) => {
      const where = `${DATASET}, ${language}, test, row ${i + 1}`;
      return problem(textField(row, "question", where), textField(row, "answer_number", where), where);
    });
  }
  const file = await findFile(data.folder, files, what);
  return (await readLines(file)).map((line, i) => {
    const fields = line.split("\t");
    if (fields.length !== 2) {
      throw dataError(
        `${file}, line ${i + 1} has ${plural(fields.length, "field")}; expected a question, a tab, and the number`,
        { file },
      );
    }
    return problem(fields[0] ?? "", fields[1] ?? "", `${file}, line ${i + 1}`);
  });
}

function problem(question: string, answer: string, where: string): MgsmProblem {
  const number = parseDecimal(answer);
  if (number === undefined) throw dataError(`${where}: the answer ${JSON.stringify(answer)} is not a number`);
  return { question, answer: number };
}

/** The exemplars of a language, in their order. */
export async function readMgsmExemplars(
  data: DataAccess,
  language: MgsmLanguage,
  signal?: AbortSignal,
): Promise<MgsmExemplar[]> {
  const what = "the exemplars of MGSM";
  if (data.folder === undefined) {
    const request = { dataset: DATASET, config: language, split: "train", signal };
    const rows = await hubRows(data, request, what, ["exemplars.json"]);
    return rows.map((row, i) => {
      const where = `${DATASET}, ${language}, train, row ${i + 1}`;
      return {
        question: textField(row, "question", where),
        answer: textField(row, "answer", where),
        number: textField(row, "answer_number", where),
      };
    });
  }
  const names = ["exemplars.json", "exemplars.py"];
  const file = await findFile(data.folder, [...names, ...names.map((name) => `mgsm/${name}`)], what);
  const content = file.endsWith(".py") ? fromPython(await readText(file), file) : fromJson(await readText(file), file);
  return exemplarsOf(content, language, file);
}

interface Exemplars {
  readonly exemplars: unknown;
  readonly numbers: unknown;
}

function fromJson(text: string, file: string): Exemplars {
  let value: { exemplars?: unknown; number_answers?: unknown } | null;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw dataError(`${file} is not JSON: ${(error as Error).message}`, { file }, error);
  }
  return { exemplars: value?.exemplars, numbers: value?.number_answers };
}

function fromPython(text: string, file: string): Exemplars {
  return {
    exemplars: parsePythonDictionary(text, "MGSM_EXEMPLARS", file),
    numbers: parsePythonDictionary(text, "EXEMPLAR_NUMBER_ANSWERS", file),
  };
}

/** Exemplars as a list, or under the keys "1" to "8"; each with q and a. */
function exemplarsOf({ exemplars, numbers }: Exemplars, language: MgsmLanguage, file: string): MgsmExemplar[] {
  const ofLanguage = (exemplars as Record<string, unknown> | null | undefined)?.[language];
  if (typeof ofLanguage !== "object" || ofLanguage === null || !Array.isArray(numbers)) {
    throw dataError(
      `${file} has no exemplars in ${language}; expected number_answers, and exemplars by language (${MGSM_LANGUAGES.join(", ")}), each with q and a`,
      { file },
    );
  }
  return Object.values(ofLanguage as Record<string, unknown>).map((value, i) => {
    const where = `${file}, ${language}, exemplar ${i + 1}`;
    const { q, a } = (value ?? {}) as Record<string, unknown>;
    return {
      question: textField({ q }, "q", where),
      answer: textField({ a }, "a", where),
      number: textField({ number: numbers[i] }, "number", where),
    };
  });
}
