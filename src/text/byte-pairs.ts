// Words to ids by merging pairs, as in `tokenizers` (src/models/bpe at 3ba8ad0).
import { CheckpointError } from "../kit/index.js";
import { LaterMerges, MergeTable } from "./merge-table.js";
import type { TokenIds } from "./token-table.js";
import { flagField, type Merges, problem, quoted, type TokenizerPart, textField } from "./tokenizer-json.js";

// A text is often a word when the tokenizer does not split it.
const MAX_CACHED_LENGTH = 256;
const MAX_CACHED = 10_000;

/**
 * Reads a model of byte pairs.
 * @param bytesOf ids of the bytes of a text, undefined where the vocabulary has not all of them
 * @throws CheckpointError if it is not valid or not supported
 */
export function bytePairs(
  model: TokenizerPart,
  vocabulary: TokenIds,
  bytesOf: (text: string) => readonly number[] | undefined,
): (word: string) => readonly number[] {
  const { dropout = null } = model;
  if (dropout !== null && dropout !== 0) {
    throw problem(`it drops merges at random (dropout ${quoted(dropout)}). Set dropout to null`, "model.dropout");
  }
  const prefix = textField(model, "continuing_subword_prefix", "");
  const suffix = textField(model, "end_of_word_suffix", "");
  const unknownToken = textField(model, "unk_token", "");
  const fusesUnknown = flagField(model, "fuse_unk");
  const ignoresMerges = flagField(model, "ignore_merges");
  const hasUnknown = model.unk_token !== undefined && model.unk_token !== null;
  const unknown = hasUnknown ? vocabulary.get(unknownToken) : undefined;
  const later = model.merges instanceof LaterMerges ? model.merges : undefined;
  let merges = later ? undefined : readMerges(model.merges as Merges, vocabulary, prefix.length);

  const pieces = (word: string): number[] => {
    const ids: number[] = [];
    // An unknown piece is added when a known one follows, and so after bytes that stand between.
    let hasPending = false;
    const flush = () => {
      if (hasPending) ids.push(unknown as number);
      hasPending = false;
    };
    for (let at = 0; at < word.length; ) {
      const next = at + ((word.codePointAt(at) as number) > 0xffff ? 2 : 1);
      const piece = `${at > 0 ? prefix : ""}${word.slice(at, next)}${next === word.length ? suffix : ""}`;
      at = next;
      const id = vocabulary.get(piece);
      const bytes = id === undefined ? bytesOf(piece) : undefined;
      if (bytes) ids.push(...bytes);
      else if (id !== undefined) {
        flush();
        ids.push(id);
      } else if (hasUnknown) {
        if (unknown === undefined) {
          throw new CheckpointError(`the tokenizer has no token for ${quoted(word)} and no unknown token`);
        }
        if (!fusesUnknown) flush();
        hasPending = true;
      }
    }
    flush();
    return ids;
  };

  const cache = new Map<string, readonly number[]>();
  return (word) => {
    const known = ignoresMerges ? vocabulary.get(word) : undefined;
    if (known !== undefined) return [known];
    const cached = cache.get(word);
    if (cached) return cached;
    merges ??= (later as LaterMerges).read();
    const ids = mergeAll(pieces(word), merges);
    if (word.length < MAX_CACHED_LENGTH) {
      if (cache.size >= MAX_CACHED) cache.clear();
      cache.set(word, ids);
    }
    return ids;
  };
}

/**
 * Reads the merges of a tokenizer.json.
 * @throws CheckpointError if they have tokens that are not in the vocabulary
 */
export function readMerges(list: Merges, vocabulary: TokenIds, prefixLength: number): MergeTable {
  const { length } = list;
  const [firsts, seconds, ids] = [new Int32Array(length), new Int32Array(length), new Int32Array(length)];
  for (const [rank, entry] of list.entries()) {
    const [first = "", second = "", more]: readonly string[] = typeof entry === "string" ? entry.split(" ") : entry;
    const [a, b] = [vocabulary.get(first), vocabulary.get(second)];
    const id = vocabulary.get(first + second.slice(prefixLength));
    if (a === undefined || b === undefined || id === undefined || more !== undefined) {
      throw problem(`merge ${rank}, ${quoted(entry)}, has tokens that are not in its vocabulary`, "model.merges");
    }
    firsts[rank] = a;
    seconds[rank] = b;
    ids[rank] = id;
  }
  return new MergeTable({ firsts, seconds, ids }, vocabulary.highestId);
}

/** Merges the pair of the lowest rank, the first of these, until there is none. */
function mergeAll(ids: number[], merges: MergeTable): number[] {
  const { length } = ids;
  // Neighbors by position; a merge leaves the position of its first token. -1 is none, and the end of a removed token.
  const next = Int32Array.from({ length }, (_, i) => (i + 1 < length ? i + 1 : -1));
  const previous = Int32Array.from({ length }, (_, i) => i - 1);
  /** The place of a pair among the merges; -1 if it does not merge. */
  const pairAt = (at: number): number => {
    const second = next[at] as number;
    return second < 0 ? -1 : merges.find(ids[at] as number, ids[second] as number);
  };
  // Keys order by rank, then by position.
  const queue = new Heap();
  const offer = (at: number) => {
    const pair = pairAt(at);
    if (pair >= 0) queue.push(merges.rankAt(pair) * length + at);
  };
  for (let at = 0; at < length; at++) offer(at);
  const isRemoved = new Uint8Array(length);
  for (let key = queue.pop(); key !== undefined; key = queue.pop()) {
    const at = key % length;
    const pair = isRemoved[at] ? -1 : pairAt(at);
    if (pair < 0 || merges.rankAt(pair) !== Math.floor(key / length)) continue;
    const second = next[at] as number;
    ids[at] = merges.idAt(pair);
    isRemoved[second] = 1;
    next[at] = next[second] as number;
    if ((next[at] as number) >= 0) previous[next[at] as number] = at;
    if ((previous[at] as number) >= 0) offer(previous[at] as number);
    offer(at);
  }
  return ids.filter((_, at) => !isRemoved[at]);
}

/** Numbers, the lowest first. */
class Heap {
  readonly #keys: number[] = [];

  push(key: number): void {
    const keys = this.#keys;
    let at = keys.length;
    for (let parent = (at - 1) >> 1; at > 0 && (keys[parent] as number) > key; parent = (at - 1) >> 1) {
      keys[at] = keys[parent] as number;
      at = parent;
    }
    keys[at] = key;
  }

  pop(): number | undefined {
    const keys = this.#keys;
    const [lowest] = keys;
    const key = keys.pop();
    if (keys.length === 0 || key === undefined) return lowest;
    let at = 0;
    for (let child = 1; child < keys.length; child = 2 * at + 1) {
      if (child + 1 < keys.length && (keys[child + 1] as number) < (keys[child] as number)) child++;
      if ((keys[child] as number) >= key) break;
      keys[at] = keys[child] as number;
      at = child;
    }
    keys[at] = key;
    return lowest;
  }
}
