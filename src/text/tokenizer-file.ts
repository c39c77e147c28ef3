// Reads a tokenizer.json whose vocabulary and merges have their usual form without a value for each token and merge. JSON.parse
// takes longer for these of Gemma than everything else until the first token.

import { isUtf8 } from "node:buffer";
import { CheckpointError, isObject } from "../kit/index.js";
import { readMerges } from "./byte-pairs.js";
import { LaterMerges, MergeTable } from "./merge-table.js";
import { hashOf, TokenTable } from "./token-table.js";
import { checkMerges, MAX_IDS } from "./tokenizer-json.js";

/** The file has another form, or is not JSON: JSON.parse reads it, or says what is wrong. */
class NotPlain extends Error {}

/**
 * The value of a tokenizer.json. Where they have their usual form, `vocab` is a `TokenTable`, and `merges` are `LaterMerges`.
 * @param file names it in errors of the merges
 * @throws SyntaxError if it is not JSON
 */
export function parseTokenizer(bytes: Buffer, file: string): unknown {
  return parsePlain(bytes, file) ?? JSON.parse(bytes.toString("utf8"));
}

function parsePlain(bytes: Buffer, file: string): unknown {
  if (!isUtf8(bytes)) return undefined;
  try {
    const scanner = new Scanner(bytes);
    let vocab: TokenTable | undefined;
    let merges: Buffer | undefined;
    const cuts: [from: number, to: number][] = [];
    const readField = (name: string): void => {
      if (name !== "vocab" && name !== "merges") {
        scanner.skip();
        return;
      }
      if (name === "vocab" ? vocab : merges || scanner.peek() !== OPEN_LIST) throw new NotPlain();
      const from = scanner.at;
      if (name === "vocab") vocab = readVocabulary(scanner);
      else scanner.skip();
      if (name === "merges") merges = bytes.subarray(from, scanner.at);
      cuts.push([from, scanner.at]);
    };
    scanner.object((name) => (name === "model" ? scanner.object(readField) : scanner.skip()));
    if (!vocab || scanner.peek() !== undefined) return undefined;
    const rest = JSON.parse(without(bytes, cuts)) as unknown;
    // There can be two models, of which the last counts.
    if (!isObject(rest) || !isObject(rest.model) || rest.model.vocab !== null) return undefined;
    if (rest.model.merges !== (merges && null)) return undefined;
    if ((rest.model.continuing_subword_prefix ?? "") !== "") return undefined;
    return { ...rest, model: { ...rest.model, vocab, ...(merges && { merges: mergesLater(merges, vocab, file) }) } };
  } catch (error) {
    if (error instanceof NotPlain || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The text of a file with null for some of its values. */
function without(bytes: Buffer, cuts: readonly (readonly [from: number, to: number])[]): string {
  let [text, at] = ["", 0];
  for (const [from, to] of cuts) {
    text += `${bytes.toString("utf8", at, from)}null`;
    at = to;
  }
  return text + bytes.toString("utf8", at);
}

/** `{"token": id, ...}` */
function readVocabulary(scanner: Scanner): TokenTable {
  const length = scanner.bytes.length - scanner.at;
  const bytes = Buffer.alloc(length);
  // An entry has at least five bytes: "":0,
  const starts = new Int32Array(Math.ceil(length / 5) + 1);
  const ids = new Int32Array(starts.length);
  let [count, end] = [0, 0];
  scanner.list(OPEN_OBJECT, CLOSE_OBJECT, () => {
    scanner.string();
    const { source, start } = scanner;
    for (let i = start; i < scanner.end; i++) bytes[end++] = source[i] as number;
    scanner.expect(COLON);
    ids[count++] = scanner.integer(MAX_IDS);
    starts[count] = end;
  });
  const table = TokenTable.of(Buffer.from(bytes.subarray(0, end)), starts.slice(0, count + 1), ids.slice(0, count));
  if (!table) throw new NotPlain();
  return table;
}

function mergesLater(bytes: Buffer, vocabulary: TokenTable, file: string): LaterMerges {
  return new LaterMerges(() => {
    try {
      return readPlainMerges(new Scanner(bytes), vocabulary);
    } catch (error) {
      if (!(error instanceof NotPlain || error instanceof SyntaxError)) throw error;
    }
    try {
      const list = JSON.parse(bytes.toString("utf8")) as unknown;
      checkMerges(list);
      return readMerges(list, vocabulary, 0);
    } catch (error) {
      if (error instanceof SyntaxError) {
        throw new CheckpointError(`${file} is not valid JSON: ${error.message}`, { file }, error);
      }
      if (!(error instanceof CheckpointError)) throw error;
      throw new CheckpointError(`${file}: ${error.message}`, { ...error.where, file }, error);
    }
  });
}

/** `["a b", ...]` or `[["a", "b"], ...]`. What has another form, or a token that is not in the vocabulary, is not plain. */
function readPlainMerges(scanner: Scanner, vocabulary: TokenTable): MergeTable {
  // A merge has at least six bytes: "a b",
  const most = Math.ceil(scanner.bytes.length / 6);
  const pairs = { firsts: new Int32Array(most), seconds: new Int32Array(most), ids: new Int32Array(most) };
  let count = 0;
  let first = new Uint8Array(64);
  const add = (bytes: Uint8Array, from: number, to: number, length: number): void => {
    const hash = hashOf(first, 0, length);
    const size = length + to - from;
    if (size > first.length) first = grown(first, size);
    const a = vocabulary.find(first, 0, length, hash);
    const b = vocabulary.find(bytes, from, to, hashOf(bytes, from, to));
    for (let i = from; i < to; i++) first[length + i - from] = bytes[i] as number;
    const id = vocabulary.find(first, 0, size, hashOf(first, length, size, hash));
    if (a < 0 || b < 0 || id < 0) throw new NotPlain();
    pairs.firsts[count] = a;
    pairs.seconds[count] = b;
    pairs.ids[count++] = id;
  };
  const keep = (bytes: Uint8Array, from: number, to: number): number => {
    if (to - from > first.length) first = grown(first, to - from);
    for (let i = from; i < to; i++) first[i - from] = bytes[i] as number;
    return to - from;
  };
  let isPaired: boolean | undefined;
  scanner.list(OPEN_LIST, CLOSE_LIST, () => {
    const opensPair = scanner.peek() === OPEN_LIST;
    isPaired ??= opensPair;
    if (opensPair !== isPaired) throw new NotPlain();
    if (opensPair) {
      scanner.expect(OPEN_LIST);
      scanner.string();
      const length = keep(scanner.source, scanner.start, scanner.end);
      scanner.expect(COMMA);
      scanner.string();
      add(scanner.source, scanner.start, scanner.end, length);
      scanner.expect(CLOSE_LIST);
      return;
    }
    scanner.string();
    const { source, start, end } = scanner;
    let space = start;
    while (space < end && source[space] !== SPACE) space++;
    for (let i = space + 1; i < end; i++) if (source[i] === SPACE) throw new NotPlain();
    if (space === start || space + 1 >= end) throw new NotPlain();
    add(source, space + 1, end, keep(source, start, space));
  });
  if (scanner.peek() !== undefined) throw new NotPlain();
  const { firsts, seconds, ids } = pairs;
  const taken = { firsts: firsts.subarray(0, count), seconds: seconds.subarray(0, count), ids: ids.subarray(0, count) };
  return new MergeTable(taken, vocabulary.highestId);
}

function grown(bytes: Uint8Array<ArrayBuffer>, size: number): Uint8Array<ArrayBuffer> {
  const larger = new Uint8Array(2 * size);
  larger.set(bytes);
  return larger;
}

const [QUOTE, BACKSLASH, COMMA, COLON, SPACE] = [0x22, 0x5c, 0x2c, 0x3a, 0x20];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST] = [0x7b, 0x7d, 0x5b, 0x5d];

/** Reads JSON in UTF-8 from one place to the next. What it does not expect is not plain. */
class Scanner {
  readonly bytes: Buffer;
  at = 0;
  /** The bytes of the last string, without escapes, and where it is in them. */
  source: Uint8Array;
  start = 0;
  end = 0;

  constructor(bytes: Buffer) {
    this.bytes = bytes;
    this.source = bytes;
  }

  /** The next byte that is not white space; undefined at the end. */
  peek(): number | undefined {
    for (; ; this.at++) {
      const byte = this.bytes[this.at];
      if (byte !== SPACE && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte;
    }
  }

  expect(byte: number): void {
    if (this.peek() !== byte) throw new NotPlain();
    this.at++;
  }

  string(): void {
    this.expect(QUOTE);
    const start = this.at;
    let isEscaped = false;
    for (let byte = this.bytes[this.at]; byte !== QUOTE; byte = this.bytes[++this.at]) {
      if (byte === undefined || byte < SPACE) throw new NotPlain();
      if (byte !== BACKSLASH) continue;
      isEscaped = true;
      this.at++;
    }
    this.source = this.bytes;
    this.start = start;
    this.end = this.at++;
    if (!isEscaped) return;
    const text = JSON.parse(this.bytes.toString("utf8", start - 1, this.at)) as string;
    // UTF-8 has no halves of surrogate pairs.
    if (/\p{Cs}/u.test(text)) throw new NotPlain();
    this.source = Buffer.from(text);
    this.start = 0;
    this.end = this.source.length;
  }

  /** A whole number from 0. */
  integer(most: number): number {
    this.peek();
    const start = this.at;
    let value = 0;
    for (; ; this.at++) {
      const digit = (this.bytes[this.at] ?? 0) - 0x30;
      if (digit < 0 || digit > 9) break;
      value = 10 * value + digit;
      if (value > most) throw new NotPlain();
    }
    const length = this.at - start;
    if (length === 0 || (length > 1 && this.bytes[start] === 0x30)) throw new NotPlain();
    return value;
  }

  /** Passes a value, to the comma after it or the end of what it is in. Its brackets and strings alone are looked at. */
  skip(): void {
    for (let depth = 0; ; ) {
      const byte = this.peek();
      if (byte === undefined) throw new NotPlain();
      if (byte === QUOTE) {
        this.string();
        continue;
      }
      if (depth === 0 && (byte === COMMA || byte === CLOSE_OBJECT || byte === CLOSE_LIST)) return;
      if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth++;
      else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth--;
      this.at++;
    }
  }

  object(readField: (name: string) => void): void {
    this.list(OPEN_OBJECT, CLOSE_OBJECT, () => {
      this.string();
      const name = Buffer.from(this.source.subarray(this.start, this.end)).toString("utf8");
      this.expect(COLON);
      readField(name);
    });
  }

  /** Items between brackets, with commas between them. */
  list(open: number, close: number, readItem: () => void): void {
    this.expect(open);
    if (this.peek() === close) {
      this.at++;
      return;
    }
    for (;;) {
      readItem();
      const next = this.peek();
      if (next !== close && next !== COMMA) throw new NotPlain();
      this.at++;
      if (next === close) return;
    }
  }
}
