// Words to pieces by Unigram, as in `tokenizers` (src/models at 3ba8ad0). The package's own takes quadratic time and memory
// in the length of a word.
import { problem } from "./tokenizer-json.js";
import { Trie } from "./trie.js";

/** Difference between the lowest score and that of an unknown character (models/unigram/model.rs, K_UNK_PENALTY). */
const UNKNOWN_PENALTY = 10;

/** The pieces of a word with the highest sum of scores; unknown characters are returned singly. */
export function unigramPieces(
  entries: readonly (readonly [piece: string, score: number])[],
): (word: string) => string[] {
  if (entries.length === 0) throw problem("its vocabulary is empty", "model.vocab");
  const trie = new Trie<number>();
  let lowest = Number.POSITIVE_INFINITY;
  for (const [piece, score] of entries) {
    if (piece !== "") trie.set(piece, score);
    lowest = Math.min(lowest, score);
  }
  const unknown = lowest - UNKNOWN_PENALTY;
  return (word) => {
    // By position in the word: the best sum up to there, and the start of its last piece; -1 where there is none.
    const best = new Float64Array(word.length + 1);
    const starts = new Int32Array(word.length + 1).fill(-1);
    const offer = (start: number, end: number, score: number) => {
      const sum = (best[start] as number) + score;
      if (starts[end] !== -1 && sum <= (best[end] as number)) return;
      best[end] = sum;
      starts[end] = start;
    };
    for (let at = 0; at < word.length; ) {
      const next = at + ((word.codePointAt(at) as number) > 0xffff ? 2 : 1);
      let isKnown = false;
      let node = trie.root.child(word.charCodeAt(at));
      for (let end = at + 1; node; end++) {
        if (node.value !== undefined) {
          offer(at, end, node.value);
          isKnown ||= end === next;
        }
        node = end < word.length ? node.child(word.charCodeAt(end)) : undefined;
      }
      if (!isKnown) offer(at, next, unknown);
      at = next;
    }
    const pieces: string[] = [];
    for (let end = word.length; end > 0; end = starts[end] as number) pieces.push(word.slice(starts[end], end));
    return pieces.reverse();
  };
}
