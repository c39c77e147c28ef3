// What a misspelled word meant.
import { formatSome } from "./format.js";

/** Other tools' words. */
const SYNONYMS: ReadonlyMap<string, string> = new Map([
  ["r", "rank"],
  ["lora_alpha", "alpha"],
  ["learning_rate", "lr"],
  ["weight_decay", "decay"],
  ["max_grad_norm", "clip"],
  ["max_steps", "steps"],
  ["num_train_epochs", "epochs"],
  ["output_dir", "out"],
  ["fp16", "float16"],
  ["half", "float16"],
  ["bf16", "bfloat16"],
  ["fp32", "float32"],
]);

/** Letters of a word for each that may be wrong; a swap of two neighbours is one. */
const LETTERS_PER_ERROR = 4;

/**
 * The word that an unknown one probably meant: another tool's word for it, one that differs by a letter, or by two where it has
 * eight or more, or one that begins with it; case does not count. Never the word itself.
 */
export function closest(word: string, words: readonly string[]): string | undefined {
  const typed = word.toLowerCase();
  const synonym = SYNONYMS.get(typed);
  if (synonym !== undefined && words.includes(synonym)) return synonym;
  const others = words.filter((other) => other !== word);
  const most = word.length < 2 ? 0 : Math.min(2, Math.max(1, Math.floor(word.length / LETTERS_PER_ERROR)));
  const [best] = others
    .map((other) => ({ other, distance: editDistance(typed, other.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  if (best && best.distance <= most) return best.other;
  return word.length < 3 ? undefined : others.find((other) => other.toLowerCase().startsWith(typed));
}

/** `; did you mean swap?`, or nothing if no word is close. */
export function didYouMean(word: string, words: readonly string[]): string {
  const meant = closest(word, words);
  return meant === undefined ? "" : `; did you mean ${meant}?`;
}

/** What a word that is not among the names may mean, else which there are: `; there are a, b and 3 more`. */
export function suggestName(word: string, names: readonly string[], listed = names): string {
  return didYouMean(word, names) || `; there are ${formatSome(listed, 8)}`;
}

/** Letters to add, leave out or change, or neighbours to swap (the optimal string alignment); 3 for more than two. */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return 3;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        next[j] = Math.min(next[j] ?? 0, (before[j - 2] ?? 0) + 1);
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}
