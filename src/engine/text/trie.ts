// Texts by their beginnings, for finding which of them stands at a place of another text.
import { problem } from "./tokenizer-json.js";

// Finding one takes as many steps as the longest has characters. Published pieces have up to some 250.
const MOST_LENGTH = 1000;
// Nodes of 250,000 published pieces are about a million; this many take some 600 MB.
const MOST_NODES = 5_000_000;

/** A beginning of texts; where a text ends, its value. */
export interface TrieNode<T> {
  /** By UTF-16 unit. */
  next: Map<number, TrieNode<T>> | undefined;
  value: T | undefined;
}

export class Trie<T> {
  readonly root: TrieNode<T> = { next: undefined, value: undefined };
  #nodes = 0;

  get isEmpty(): boolean {
    return this.root.next === undefined;
  }

  /** @throws {CheckpointError} if the text is too long, or there are too many of them */
  set(text: string, value: T): void {
    if (text.length > MOST_LENGTH) {
      throw problem(`a token has ${text.length} characters; at most ${MOST_LENGTH} are supported`, "vocab");
    }
    let node = this.root;
    for (let i = 0; i < text.length; i++) {
      node.next ??= new Map();
      const unit = text.charCodeAt(i);
      let next = node.next.get(unit);
      if (!next) {
        if (++this.#nodes > MOST_NODES) throw problem(`its tokens need more than ${MOST_NODES} nodes`, "vocab");
        next = { next: undefined, value: undefined };
        node.next.set(unit, next);
      }
      node = next;
    }
    node.value = value;
  }

  /** The node of a beginning. */
  nodeOf(text: string): TrieNode<T> | undefined {
    let node: TrieNode<T> | undefined = this.root;
    for (let i = 0; node && i < text.length; i++) node = node.next?.get(text.charCodeAt(i));
    return node;
  }
}

/** The longest text that stands at a place of another, with its end. @param root where to begin */
export function longest<T>(root: TrieNode<T> | undefined, text: string, from: number) {
  let found: { readonly value: T; readonly end: number } | undefined;
  for (let node = root, end = from; node; ) {
    if (node.value !== undefined) found = { value: node.value, end };
    node = end < text.length ? node.next?.get(text.charCodeAt(end++)) : undefined;
  }
  return found;
}
