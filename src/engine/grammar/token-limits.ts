// Which tokens may come next in an answer that a grammar limits.
import { usageError } from "../../kit/index.js";
import { bytesOfPart, type Tokenizer } from "../../text/index.js";
import { ByteReader, type Expression, type State } from "./byte-grammar.js";

/** The tokens of a vocabulary that have text, in the order of their bytes. */
export interface SortedTokens {
  readonly size: number;
  readonly ids: Int32Array;
  readonly bytes: readonly Uint8Array[];
  /** Bytes at the beginning that each token has in common with the one before. */
  readonly shared: Int32Array;
}

/** Characters with which JSON is written, whatever it says. */
const NEEDED = '{}[]",:-+.eE0123456789truefalsn\\/ ';

/**
 * Sorts the tokens of a vocabulary. Special tokens have no text.
 * @throws LayergraftError code `usage` if it lacks a character of JSON
 */
export function sortTokens(tokenizer: Tokenizer): SortedTokens {
  const texts = textsOf(tokenizer);
  const single = new Set([...texts.values()].flatMap((bytes) => (bytes.length === 1 ? [bytes[0]] : [])));
  const missing = Array.from(NEEDED).find((character) => !single.has(character.charCodeAt(0)));
  if (missing !== undefined) {
    throw usageError(`the tokenizer has no token for ${JSON.stringify(missing)}, so answers cannot be limited to JSON`);
  }
  const sorted = [...texts].sort(([, a], [, b]) => Buffer.compare(a, b));
  const shared = new Int32Array(sorted.length);
  for (const [i, [, own]] of sorted.entries()) {
    const before = sorted[i - 1]?.[1] ?? new Uint8Array();
    let at = 0;
    while (at < own.length && own[at] === before[at]) at++;
    shared[i] = at;
  }
  return {
    size: tokenizer.vocabularySize,
    ids: Int32Array.from(sorted, ([id]) => id),
    bytes: sorted.map(([, own]) => own),
    shared,
  };
}

const REPLACEMENT = "\ufffd";

/** The bytes that each token adds to a text that has begun. */
function textsOf(tokenizer: Tokenizer): Map<number, Uint8Array> {
  const found = new Map<number, Uint8Array>();
  const decoder = tokenizer.incremental({ skipSpecialTokens: true });
  // Between tokens, this one shows where a token that is part of a character ends.
  const [mark = 0] = tokenizer.encode("a");
  decoder.push(mark);
  for (let id = 0; id < tokenizer.vocabularySize; id++) {
    const text = (decoder.push(id) + decoder.push(mark)).slice(0, -1);
    const bytes = text.includes(REPLACEMENT) ? bytesOfPart(tokenizer.tokenOf(id) ?? "") : Buffer.from(text, "utf8");
    if (bytes.length > 0) found.set(id, bytes);
  }
  return found;
}

/** Marks by id of a model's tokens. */
type Marks = Uint8Array;

/** States whose marks are kept: those within texts come again and again. */
const KEPT_MARKS = 32;
/** States beyond which those of the answer so far are forgotten. */
const MOST_STATES = 20_000;

/** The limit of one answer. */
export class TokenLimit {
  readonly #tokens: SortedTokens;
  readonly #grammar: Expression;
  readonly #marks = new Map<State, Marks>();
  #reader: ByteReader;
  #state: State;
  readonly #read: number[] = [];

  constructor(tokens: SortedTokens, grammar: Expression) {
    this.#tokens = tokens;
    this.#grammar = grammar;
    this.#reader = new ByteReader(grammar);
    this.#state = this.#reader.start;
  }

  /**
   * Logits in which only tokens that may come are finite. Where no other may, those that end the answer are.
   * @param row by token
   */
  limit(row: Float32Array, stopIds: ReadonlySet<number>): Float32Array {
    const marks = this.#marksOf(this.#state);
    const limited = new Float32Array(row.length).fill(Number.NEGATIVE_INFINITY);
    let any = false;
    for (let id = 0; id < Math.min(row.length, marks.length); id++) {
      if (marks[id] !== 1) continue;
      limited[id] = row[id] as number;
      any = true;
    }
    if (this.#state.isComplete || !any) {
      for (const id of stopIds) {
        const logit = row[id];
        if (logit !== undefined) limited[id] = any ? logit : Math.max(logit, 0);
      }
    }
    return limited;
  }

  /** Adds a token to the answer. */
  accept(id: number): void {
    const at = this.#tokens.ids.indexOf(id);
    for (const byte of this.#tokens.bytes[at] ?? []) this.#take(byte);
    if (this.#reader.size <= MOST_STATES) return;
    this.#reader = new ByteReader(this.#grammar);
    this.#marks.clear();
    const read = this.#read.splice(0);
    this.#state = this.#reader.start;
    for (const byte of read) this.#take(byte);
  }

  #take(byte: number): void {
    this.#state = this.#reader.next(this.#state, byte) ?? this.#state;
    this.#read.push(byte);
  }

  /** Follows the bytes of all tokens, those that begin alike once. */
  #marksOf(state: State): Marks {
    const known = this.#marks.get(state);
    if (known) return known;
    const { ids, bytes, shared, size } = this.#tokens;
    const marks = new Uint8Array(size);
    const states: State[] = [state];
    let failed = Number.POSITIVE_INFINITY;
    for (let i = 0; i < ids.length; i++) {
      const same = shared[i] as number;
      if (same > failed) continue;
      failed = Number.POSITIVE_INFINITY;
      const own = bytes[i] as Uint8Array;
      for (let at = same; at < own.length; at++) {
        const next = this.#reader.next(states[at] as State, own[at] as number);
        if (next === null) {
          failed = at;
          break;
        }
        states[at + 1] = next;
      }
      if (failed === Number.POSITIVE_INFINITY) marks[ids[i] as number] = 1;
    }
    if (this.#marks.size >= KEPT_MARKS) this.#marks.delete(this.#marks.keys().next().value as State);
    this.#marks.set(state, marks);
    return marks;
  }
}
