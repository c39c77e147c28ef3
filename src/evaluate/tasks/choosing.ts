// What tasks with given choices have in common: the likeliest continuation is the answer.
import type { ChooseItem, GenerateItem, Item, Output, Reading, Verdict } from "./task.js";

export const LETTERS = ["A", "B", "C", "D"] as const;

/** " A" to " D": as tokens take the blank before a letter with them. */
export const LETTER_CHOICES: readonly string[] = LETTERS.map((letter) => ` ${letter}`);

/**
 * The choice with the highest log-likelihood, the first of equal ones. Where one is not known there is no choice: the
 * reading says which.
 */
export function readChoice(item: Item, output: Output): Reading {
  const { labels } = asChoose(item);
  if (typeof output === "string") return {};
  const missing = labels.filter((_, i) => !Number.isFinite(output[i] ?? Number.NaN));
  if (missing.length > 0) return { missing };
  const values = labels.map((_, i) => output[i] ?? Number.NEGATIVE_INFINITY);
  const choice = values.indexOf(Math.max(...values));
  return { choice, label: labels[choice] };
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
