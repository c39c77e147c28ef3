import { dirname, resolve } from "node:path";
import { isFile } from "../../kit/files/index.js";
import { findLanguage, GuardError, guardedPatterns, type Language, RecipeError } from "../../kit/index.js";
import { didYouMean, formatSome, plural } from "../../kit/printing/index.js";
import { fillTemplate, parseTemplate, scalarText, valueAt } from "../../kit/settings/index.js";
import { sameNumber } from "../answers/numbers.js";
import { isMgsmLanguage, readMgsmAnswer } from "../answers/read-mgsm-answer.js";
import { bleuStatistics } from "../metrics/bleu.js";
import { CHRF_PLUS_PLUS, chrfStatistics } from "../metrics/chrf.js";
import { type ChooseDeclaration, type Declaration, type GenerateDeclaration, readDeclaration } from "./custom-file.js";
import { bleuMetric, chrfMetric } from "./flores.js";
import { withFidelity } from "./language-fidelity.js";
import { choiceJudging, LETTERS } from "./multiple-choice.js";
import { shotsOf } from "./protocol.js";
import {
  type Item,
  limitItems,
  type Message,
  type Metric,
  type OpenOptions,
  type Prompt,
  type Task,
  type Verdict,
} from "./task.js";
import { type DataAccess, dataError, fileRows, findFile, type LocatedRow } from "./task-data.js";

/**
 * The task that a file declares. Its rows are in a file beside it, or in the folder of the data.
 * @throws RecipeError with every problem of the declaration
 */
export async function openCustomTask(file: string, options: OpenOptions): Promise<Task> {
  const declaration = await readDeclaration(file);
  const folder = dirname(resolve(file));
  const protocol = {
    name: `custom/${declaration.task}`,
    version: declaration.version,
    summary: "declared in a file",
    reference: "the declaration; results store the digest of its prompts",
    shots: { default: declaration.shots, most: 100 },
    specialTokens: declaration.special_tokens,
  };
  const shots = shotsOf(protocol, options.shots);
  const common = {
    name: declaration.task,
    title: declaration.title ?? declaration.task,
    protocol,
    shots,
    executes: false,
    load: async (data: DataAccess, { limit }: { limit?: number | undefined } = {}) => ({
      items: limitItems(await loadItems(declaration, folder, data, shots), limit),
      notes: [],
    }),
  };
  const answersIn = declaration.answer === "generate" && declaration.answers_in !== undefined ? "by item" : undefined;
  return declaration.answer === "choose"
    ? { ...common, metrics: CHOICE_METRICS, judging: CHOICE_READER, ...choiceJudging({ perLength: true }) }
    : { ...common, ...withFidelity(readingOf(declaration, options), answersIn) };
}

/** Version of how numbers are read; raised whenever an answer could be read differently. */
const NUMBER_READER = 2;

/** As `NUMBER_READER`, of choices. 2: ties are worth 1/k; before, the first of tied choices was the answer. */
const CHOICE_READER = 2;

const CHOICE_METRICS: readonly Metric[] = [
  { name: "accuracy", title: "accuracy", of: "accuracy", by: "mean", scale: "share" },
  { name: "acc_norm", title: "accuracy per character", of: "acc_norm", by: "mean", scale: "share" },
  { name: "acc_bytes", title: "accuracy per byte", of: "acc_bytes", by: "mean", scale: "share" },
];

function readingOf(
  declaration: GenerateDeclaration,
  { tokenize }: OpenOptions,
): Pick<Task, "judging" | "metrics" | "read" | "score"> {
  const bleu = { tokenize: tokenize ?? declaration.tokenize ?? "13a" };
  const [countBleu, countChrf] = [bleuStatistics(bleu), chrfStatistics(CHRF_PLUS_PLUS)];
  const { language, score } = declaration;
  const isNumber = declaration.read === "number";
  const read = readerOf(declaration);
  const isRight = (answer: string, gold: string) => (isNumber ? sameNumber(answer, gold) : answer === gold.trim());
  const verdicts: Readonly<Record<string, (answer: string | undefined, gold: string) => Verdict[string]>> = {
    exact: (answer, gold) => (answer !== undefined && isRight(answer, gold) ? 1 : 0),
    bleu: (answer, gold) => countBleu(answer ?? "", gold),
    "chrf++": (answer, gold) => countChrf(answer ?? "", gold),
  };
  const metrics: Readonly<Record<string, () => Metric>> = {
    exact: () => ({ name: "exact", title: "exact match", of: "exact", by: "mean", scale: "share" }),
    bleu: () => bleuMetric("bleu", "BLEU", bleu),
    "chrf++": () => chrfMetric("chrf++", "chrF++"),
  };
  return {
    // What decides a verdict, metrics aside.
    judging: { read: declaration.read, score, ...(isNumber ? { language, reader: NUMBER_READER } : {}) },
    metrics: score.flatMap((name) => metrics[name]?.() ?? []),
    read: (_, output) => {
      const answer = typeof output === "string" ? read(output) : undefined;
      return answer === undefined ? {} : { answer };
    },
    async score({ gold }, { answer }) {
      const found = typeof answer === "string" ? answer : undefined;
      return Object.fromEntries(score.map((name) => [name, verdicts[name]?.(found, gold) ?? 0]));
    },
  };
}

function readerOf({ read, language }: GenerateDeclaration): (output: string) => string | undefined {
  if (read === "text") return (output) => output.trim();
  if (read === "line") return (output) => output.trim().split("\n")[0]?.trim();
  if (read === "number") {
    const code = findLanguage(language)?.short ?? language;
    if (!isMgsmLanguage(code)) {
      throw RecipeError.at({ field: "language" }, `read: number knows the languages of MGSM, not ${language}`);
    }
    return (output) => readMgsmAnswer(output, code).flexible;
  }
  const { pattern } = read;
  try {
    new RegExp(pattern, "gu");
  } catch (error) {
    const message = `read.pattern is not a regular expression: ${(error as Error).message}`;
    throw RecipeError.at({ field: "read.pattern" }, message);
  }
  // The first group of the last match, as an answer comes after the reasoning.
  return (output) => {
    const match = lastMatch(pattern, output);
    return match && (match[1] ?? match[0] ?? "").trim();
  };
}

/** @throws RecipeError where the expression takes too much time or memory */
function lastMatch(pattern: string, output: string): (string | undefined)[] | undefined {
  try {
    return guardedPatterns("lastMatch", [pattern, "gu", output]);
  } catch (error) {
    if (!(error instanceof GuardError)) throw error;
    const message = `read.pattern ${error.message} on an answer; write a simpler expression`;
    throw RecipeError.at({ field: "read.pattern" }, message);
  }
}

async function loadItems(declaration: Declaration, folder: string, data: DataAccess, shots: number): Promise<Item[]> {
  const rows = await readRows(declaration.data, folder, data);
  const own = declaration.shots_from === undefined;
  const pool = own ? rows : await readRows(declaration.shots_from ?? "", folder, data);
  const seen = new Set<string>();
  return rows.map((located, index): Item => {
    // Shots of the same file are the first rows but for the row itself.
    const chosen = (own ? pool.slice(0, shots + 1).filter((one) => one !== located) : pool).slice(0, shots);
    if (chosen.length < shots) {
      throw dataError(`${declaration.task}: ${plural(pool.length, "row")} are too few for ${shots} shots`);
    }
    const prompt = promptOf(declaration, located, chosen);
    const id = declaration.id === undefined ? String(index + 1) : fill(declaration.id, located);
    if (seen.has(id)) throw dataError(`${located.where}: the id ${id} is used twice; ids must differ`);
    seen.add(id);
    const group = declaration.group === undefined ? {} : { group: fill(declaration.group, located) };
    if (declaration.answer === "generate") {
      const { chat, stop = chat ? [] : ["\n"], max_new_tokens: maxNewTokens, answers_in: asked } = declaration;
      const answersIn = asked === undefined ? undefined : languageOf(fill(asked, located), located);
      const gold = fill(declaration.gold, located);
      return { kind: "generate", id, ...group, prompt, gold, stop, maxNewTokens, ...(answersIn ? { answersIn } : {}) };
    }
    const { choices, labels, correct } = choicesOf(declaration, located);
    return { kind: "choose", id, ...group, prompt, gold: labels[correct] ?? "", choices, labels, correct };
  });
}

/** @param shots solved examples, as text before the question or as turns of a chat */
function promptOf(declaration: Declaration, located: LocatedRow, shots: readonly LocatedRow[]): Prompt {
  const { description, separator } = declaration;
  const own = fill(declaration.prompt, located);
  const solved = shots.map((shot) => [fill(declaration.prompt, shot), solution(declaration, shot)] as const);
  if (declaration.answer === "choose" || !declaration.chat) {
    const shared = description + solved.map(([question, answer]) => question + answer + separator).join("");
    return { form: "text", shared, own };
  }
  const turns = solved.flatMap(([question, answer]): Message[] => [
    { role: "user", content: question },
    { role: "assistant", content: answer.trim() },
  ]);
  // Not a system message, which some templates refuse.
  const messages = [...turns, { role: "user", content: own } as const].map((message, i) =>
    i === 0 ? { ...message, content: description + message.content } : message,
  );
  return { form: "chat", messages, shared: turns.length };
}

/** @throws LayergraftError code "data" for an unknown language */
function languageOf(code: string, { where }: LocatedRow): Language {
  const found = findLanguage(code);
  if (found) return found;
  throw dataError(`${where}: unknown language ${JSON.stringify(code)} in answers_in; write a code such as sw`, {
    field: "answers_in",
  });
}

/**
 * A template with a row's fields.
 * @throws LayergraftError code "data" where the row lacks a field, or it is neither text nor a number
 */
function fill(template: string, { row, where }: LocatedRow): string {
  return fillTemplate(parseTemplate(template), (name) => {
    const value = valueAt(row, name);
    const text = scalarText(value);
    if (text !== undefined) return text;
    if (value === undefined || value === null) throw missingField(name, { row, where });
    throw dataError(`${where} has no text at ${name}`, { field: name });
  });
}

function missingField(name: string, { row, where }: LocatedRow): Error {
  if (valueAt(row, name) === null)
    return dataError(`${where} has null or NaN at ${name}. Write a value, or remove the row`, { field: name });
  const brace = /^[\w.[\]]+$/.test(name) ? "" : "; {{ and }} are literal braces";
  const names = Object.keys(row);
  const known = `${didYouMean(name, names)} (its fields are ${formatSome(names, 12)}${brace})`;
  return dataError(`${where} has no field ${name}${known}`, { field: name });
}

async function readRows(file: string, folder: string, data: DataAccess): Promise<LocatedRow[]> {
  const isBeside = data.folder === undefined || (await isFile(resolve(folder, file)));
  const path = await findFile(isBeside ? folder : resolve(data.folder), [file], "this task");
  const rows = await fileRows(path, { format: "jsonl" });
  if (rows.length === 0) throw dataError(`${path} has no rows`, { file: path });
  return rows;
}

/** The answer after a shot's prompt; by default a space comes before it. */
function solution(declaration: Declaration, located: LocatedRow): string {
  if (declaration.answer === "generate") {
    const { shot_answer: answer, gold } = declaration;
    return fill(answer ?? ` ${gold}`, located);
  }
  const { choices, correct } = choicesOf(declaration, located);
  return choices[correct] ?? "";
}

/** The choices of a row as continuations, and the right one: by its label, its text, or its index from 0. */
function choicesOf(
  declaration: ChooseDeclaration,
  located: LocatedRow,
): { choices: string[]; labels: readonly string[]; correct: number } {
  const { where } = located;
  const texts = textsOf(declaration, located);
  const labels = declaration.labels ?? texts.map((_, i) => LETTERS[i] ?? String(i));
  if (labels.length !== texts.length) {
    throw dataError(`${where} has ${plural(texts.length, "choice")}, and there are ${plural(labels.length, "label")}`);
  }
  const right = fill(declaration.correct, located).trim();
  const byLabel = labels.indexOf(right);
  const byText = texts.map((text) => text.trim()).indexOf(right);
  const byIndex = /^\d+$/.test(right) && Number(right) in texts ? Number(right) : -1;
  if (byLabel < 0 && byText >= 0 && byIndex >= 0 && byText !== byIndex) {
    throw dataError(
      `${where}: the right choice ${right} is the text of one choice and the index of another; give its label (${labels.join(", ")})`,
    );
  }
  const correct = [byLabel, byText, byIndex].find((index) => index >= 0) ?? -1;
  if (correct < 0) {
    throw dataError(
      `${where}: the right choice is ${JSON.stringify(right)}; expected one of ${labels.join(", ")}, the text of a choice, or an index from 0`,
    );
  }
  return { choices: texts.map((text) => ` ${text}`), labels, correct };
}

function textsOf({ choices }: ChooseDeclaration, located: LocatedRow): string[] {
  if (typeof choices !== "string") return choices.map((choice) => fill(choice, located));
  const list = valueAt(located.row, choices);
  if (list === undefined || list === null) throw missingField(choices, located);
  if (!Array.isArray(list) || list.length < 2 || list.some((choice) => typeof choice !== "string")) {
    throw dataError(`${located.where}: the field ${choices} must be a list of at least two texts, the choices`);
  }
  return list;
}
