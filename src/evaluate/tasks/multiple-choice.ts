// What tasks with given choices share: the likeliest continuation is the answer.
import type { ChooseItem, GenerateItem, Item, Output, Reading, Verdict } from "./task.js";

export const LETTERS = ["A", "B", "C", "D"] as const;

/** " A" to " D": tokens include the space before a letter. */
const LETTER_CHOICES: readonly string[] = LETTERS.map((letter) => ` ${letter}`);

/** An item with four choices, which is answered by a letter. */
export function letterItem(
  item: Pick<ChooseItem, "id" | "group" | "prompt"> & { readonly correct: number },
): ChooseItem {
  const gold = LETTERS[item.correct] ?? "";
  return { kind: "choose", ...item, choices: LETTER_CHOICES, labels: LETTERS, gold };
}

/** The letter of a choice, given as a letter or as an index from 0; undefined for anything else. */
export function indexOfLetter(answer: unknown): number | undefined {
  const index = typeof answer === "string" ? (LETTERS as readonly string[]).indexOf(answer) : Number(answer);
  return index in LETTERS ? index : undefined;
}

/**
 * The choice with the highest log-likelihood, the first of equal ones. If one is not known, the reading names it and has no
 * choice.
 */
export function readChoice(item: Item, output: Output): Reading {
  const { labels } = asChoose(item);
  if (typeof output === "string") return {};
  const missing = labels.filter((_, i) => !Number.isFinite(output[i] ?? Number.NaN));
  if (missing.length > 0) return { missing };
  const choice = indexOfMost(output);
  return { choice, label: labels[choice] };
}

function indexOfMost(values: readonly (number | null)[]): number {
  const known = values.map((value) => value ?? Number.NEGATIVE_INFINITY);
  return known.indexOf(Math.max(...known));
}

/** The length of a choice that its log-likelihood is divided by, so that long choices are not the losers. */
const LENGTHS: Readonly<Record<string, (choice: string) => number>> = {
  // As lm-evaluation-harness names them and counts (0.4.13, api/task.py): without the blank that joins choice and prompt.
  acc_norm: (choice) => [...choice.slice(1)].length,
  acc_bytes: (choice) => Buffer.byteLength(choice.slice(1)),
};

/** As `readChoice`, and beside it the choice with the highest log-likelihood for its length. */
export function readChoiceOfLength(item: Item, output: Output): Reading {
  const reading = readChoice(item, output);
  if (reading.choice === undefined || typeof output === "string") return reading;
  const { choices } = asChoose(item);
  const perLength = Object.entries(LENGTHS).map(([name, length]) => [
    name,
    indexOfMost(choices.map((choice, i) => (output[i] ?? Number.NaN) / length(choice))),
  ]);
  return { ...reading, ...Object.fromEntries(perLength) };
}

/** accuracy, and acc_norm and acc_bytes: that of the choices that are likeliest for their length. */
export async function scoreChoiceOfLength(item: Item, reading: Reading): Promise<Verdict | undefined> {
  const verdict = await scoreChoice(item, reading);
  const isRight = (name: string) => [name, reading[name] === asChoose(item).correct ? 1 : 0];
  return verdict && { ...verdict, ...Object.fromEntries(Object.keys(LENGTHS).map(isRight)) };
}

/** accuracy: 1 where the right choice was the likeliest. */
export async function scoreChoice(item: Item, reading: Reading): Promise<Verdict | undefined> {
  if (typeof reading.choice !== "number") return undefined;
  return { accuracy: reading.choice === asChoose(item).correct ? 1 : 0 };
}

export function asChoose(item: Item): ChooseItem {
  if (item.kind === "choose") return item;
  throw new TypeError(`item ${item.id} has no choices`);
}

export function asGenerate(item: Item): GenerateItem {
  if (item.kind === "generate") return item;
  throw new TypeError(`item ${item.id} is not answered by text`);
}
