// Finds which of many texts occur in another one, in time that grows with its length alone: the automaton of Aho and Corasick
// (Communications of the ACM 18, 1975) over the texts read backwards, which gives the longest text that starts at a place.

import { problem } from "./tokenizer-json.js";
import { MAX_LENGTH, MAX_NODES } from "./trie.js";

export interface Match<T> {
  readonly value: T;
  /** First UTF-16 unit, and the one after the last. */
  readonly start: number;
  readonly end: number;
}

/** The end of some texts: all of one where it has a length. */
interface Node<T> {
  readonly children: Map<number, Node<T>>;
  /** The longest shorter end of what leads here that is a node, too. */
  shorter: Node<T> | undefined;
  /** The longest whole text among what leads here and its ends. */
  whole: { readonly value: T; readonly length: number } | undefined;
}

const makeNode = <T>(): Node<T> => ({ children: new Map(), shorter: undefined, whole: undefined });

export class Matcher<T> {
  readonly #root: Node<T> = makeNode();
  readonly isEmpty: boolean;

  /** @throws CheckpointError if a text is too long, or there are too many of them */
  constructor(texts: Iterable<readonly [text: string, value: T]>) {
    let nodes = 0;
    for (const [text, value] of texts) {
      if (text.length > MAX_LENGTH) {
        throw problem(`a token has ${text.length} characters; at most ${MAX_LENGTH} are supported`, "vocab");
      }
      let node = this.#root;
      for (let i = text.length - 1; i >= 0; i--) {
        const unit = text.charCodeAt(i);
        let next = node.children.get(unit);
        if (!next) {
          if (++nodes > MAX_NODES) throw problem(`its tokens need more than ${MAX_NODES} nodes`, "vocab");
          next = makeNode();
          node.children.set(unit, next);
        }
        node = next;
      }
      if (node !== this.#root) node.whole = { value, length: text.length };
    }
    this.isEmpty = nodes === 0;
    this.#link();
  }

  /** Shorter nodes are linked before longer ones, which go by their links. */
  #link(): void {
    const level: Node<T>[] = [this.#root];
    for (const node of level) {
      for (const [unit, child] of node.children) {
        const shorter = node.shorter && this.#after(node.shorter, unit);
        child.shorter = shorter ?? this.#root;
        child.whole ??= child.shorter.whole;
        level.push(child);
      }
    }
  }

  #after(from: Node<T>, unit: number): Node<T> {
    for (let node: Node<T> | undefined = from; node; node = node.shorter) {
      const next = node.children.get(unit);
      if (next) return next;
    }
    return this.#root;
  }

  /** The longest text at each place where one starts, by place. Texts may overlap. */
  longest(text: string): Match<T>[] {
    const found: Match<T>[] = [];
    let node = this.#root;
    for (let start = text.length - 1; start >= 0; start--) {
      node = this.#after(node, text.charCodeAt(start));
      if (node.whole) found.push({ value: node.whole.value, start, end: start + node.whole.length });
    }
    return found.reverse();
  }
}
