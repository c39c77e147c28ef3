// Reports choices that a tokenizer cannot tell apart, or has no tokens for, before a model is asked.
import type { PromptTokenizer } from "../engine/index.js";
import type { ChooseItem } from "./tasks/index.js";

/** Notes on the choices of a task's items, in sentences; none where the tokenizer has tokens for all. */
export function choiceNotes(
  items: readonly Pick<ChooseItem, "id" | "choices">[],
  tokenizer: Pick<PromptTokenizer, "encode" | "unknown">,
): string[] {
  const { unknown } = tokenizer;
  const known = new Map<string, readonly number[]>();
  const idsOf = (choice: string): readonly number[] => {
    const ids = known.get(choice) ?? tokenizer.encode(choice);
    known.set(choice, ids);
    return ids;
  };
  const alike = items.flatMap(({ id, choices }) => {
    const texts = choices.map((choice) => idsOf(choice).join(" "));
    const second = texts.findIndex((text, i) => texts.indexOf(text) < i);
    if (second < 0) return [];
    const [one, other] = [texts.indexOf(texts[second] ?? ""), second].map((i) => JSON.stringify(choices[i]?.trim()));
    return [`${one} and ${other} of item ${id}`];
  });
  const unclear = items.flatMap(({ id, choices }) => {
    const found = unknown === undefined ? undefined : choices.find((choice) => idsOf(choice).includes(unknown));
    return found === undefined ? [] : [`${JSON.stringify(found.trim())} of item ${id}`];
  });
  const share = ({ length }: readonly string[]) => `${length} of ${items.length} items`;
  return [
    ...(alike.length === 0
      ? []
      : [`choices with the same tokens in ${share(alike)}, such as ${alike[0]}; the model cannot tell them apart`]),
    ...(unclear.length === 0
      ? []
      : [`choices with unknown tokens in ${share(unclear)}, such as ${unclear[0]}; scores of such items mean little`]),
  ];
}
