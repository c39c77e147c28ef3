// Texts by their prefixes, to find which of them occurs at a position of another text.
import { problem } from "./tokenizer-json.js";

// A search takes as many steps as the longest text has characters. Published pieces have up to some 250.
export const MAX_LENGTH = 1000;
// 250,000 published pieces make about a million nodes; this many take some 300 MB.
export const MAX_NODES = 5_000_000;

/** A prefix; where a text ends, its value. */
export class TrieNode<T> {
  value: T | undefined;
  // Most nodes have one child. A map for each would take five times the memory and time.
  #unit = -1;
  #child: TrieNode<T> | undefined;
  #others: Map<number, TrieNode<T>> | undefined;

  get hasChildren(): boolean {
    return this.#child !== undefined;
  }

  /** The prefix that is one UTF-16 unit longer. */
  child(unit: number): TrieNode<T> | undefined {
    return unit === this.#unit ? this.#child : this.#others?.get(unit);
  }

  addChild(unit: number): TrieNode<T> {
    const child = new TrieNode<T>();
    if (this.#child === undefined) {
      this.#unit = unit;
      this.#child = child;
    } else {
      this.#others ??= new Map();
      this.#others.set(unit, child);
    }
    return child;
  }
}

export class Trie<T> {
  readonly root = new TrieNode<T>();
  #nodes = 0;

  get isEmpty(): boolean {
    return !this.root.hasChildren;
  }

  /** @throws CheckpointError if the text is too long, or there are too many of them */
  set(text: string, value: T): void {
    if (text.length > MAX_LENGTH) {
      throw problem(`a token has ${text.length} characters; at most ${MAX_LENGTH} are supported`, "vocab");
    }
    let node = this.root;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      let next = node.child(unit);
      if (!next) {
        if (++this.#nodes > MAX_NODES) throw problem(`its tokens need more than ${MAX_NODES} nodes`, "vocab");
        next = node.addChild(unit);
      }
      node = next;
    }
    node.value = value;
  }

  /** The longest text that occurs at a position of another, with its end. */
  longest(text: string, from: number): { readonly value: T; readonly end: number } | undefined {
    let found: { readonly value: T; readonly end: number } | undefined;
    for (let node: TrieNode<T> | undefined = this.root, end = from; node; ) {
      if (node.value !== undefined) found = { value: node.value, end };
      node = end < text.length ? node.child(text.charCodeAt(end++)) : undefined;
    }
    return found;
  }
}
