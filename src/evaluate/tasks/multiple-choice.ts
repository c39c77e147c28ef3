import type { Protocol } from "./protocol.js";
import type { ChooseItem, GenerateItem, Item, Output, Reading, Task } from "./task.js";

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

/** Indices of the highest values: several where choices are tied. A value that is not known makes none the highest. */
function indicesOfMost(values: readonly (number | null)[]): number[] {
  const known = values.map((value) => value ?? Number.NaN);
  const most = Math.max(...known);
  return known.flatMap((value, i) => (value === most ? [i] : []));
}

/** Whether several choices of an answer are the likeliest. */
export function isTie(output: Output | null): boolean {
  return Array.isArray(output) && indicesOfMost(output).length > 1;
}

/**
 * What the log-likelihood of a choice is divided by, so that long choices are not at a disadvantage. The lengths are those of
 * lm-evaluation-harness (0.4.13, api/task.py), which leaves out the blank that joins choice and prompt.
 */
const LENGTHS = {
  acc_norm: (choice: string) => [...choice.slice(1)].length,
  acc_bytes: (choice: string) => Buffer.byteLength(choice.slice(1)),
} as const;

interface ChoiceRule {
  readonly ties?: Protocol["ties"];
  /** Whether to judge acc_norm and acc_bytes, too. */
  readonly perLength?: boolean;
}

/**
 * Reads the choice with the highest log-likelihood, and scores it: accuracy, and per length acc_norm and acc_bytes. A tie of k
 * choices with the right one among them is worth 1/k, or where the first counts, as numpy's argmax has it, 1 or 0.
 * If a log-likelihood is not known, the reading names the choice in `missing`, and there is no verdict.
 */
export function choiceJudging({ ties, perLength = false }: ChoiceRule): Pick<Task, "read" | "score"> {
  const lengths = perLength ? Object.entries(LENGTHS) : [];
  const chosen = (values: readonly (number | null)[]): number | readonly number[] => {
    const most = indicesOfMost(values);
    return ties === "first" || most.length === 1 ? (most[0] ?? -1) : most;
  };
  return {
    read(item, output) {
      const { labels, choices } = asChoose(item);
      if (typeof output === "string") return {};
      const missing = labels.filter((_, i) => !Number.isFinite(output[i] ?? Number.NaN));
      if (missing.length > 0) return { missing };
      const choice = chosen(output);
      const ofLengths = lengths.map(([name, length]) => [
        name,
        chosen(choices.map((text, i) => (output[i] ?? Number.NaN) / length(text))),
      ]);
      const label = [choice].flat().map((index) => labels[index]);
      return { choice, label: label.join(", "), ...Object.fromEntries(ofLengths) };
    },
    async score(item, reading) {
      if (reading.choice === undefined) return undefined;
      const { correct } = asChoose(item);
      const worth = (read: Reading[string]) => {
        const tied: readonly unknown[] = [read].flat();
        return tied.includes(correct) ? 1 / tied.length : 0;
      };
      const ofLengths = lengths.map(([name]) => [name, worth(reading[name])]);
      return { accuracy: worth(reading.choice), ...Object.fromEntries(ofLengths) };
    },
  };
}

export function asChoose(item: Item): ChooseItem {
  if (item.kind === "choose") return item;
  throw new TypeError(`item ${item.id} has no choices`);
}

export function asGenerate(item: Item): GenerateItem {
  if (item.kind === "generate") return item;
  throw new TypeError(`item ${item.id} is not answered by text`);
}
