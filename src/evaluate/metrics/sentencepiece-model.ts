// Reads the protobuf fields of a SentencePiece model that encoding needs (sentencepiece_model.proto).

import { formatBytes, isSystemError, LayergraftError, readBounded } from "../../core/index.js";

/** A unigram model. */
export interface SentencePieceModel {
  /** Natural logarithm of each piece's probability. */
  readonly scores: ReadonlyMap<string, number>;
  /** Double-array trie of what is replaced, and the replacements; empty where text stays as it is. */
  readonly charsMap: Uint8Array;
  readonly addDummyPrefix: boolean;
  readonly removeExtraWhitespaces: boolean;
  readonly escapeWhitespaces: boolean;
}

// The models of FLORES have 5 MB, the largest published ones about 10 MB.
const MAX_MODEL_BYTES = 100_000_000;

const UNIGRAM = 1;
/** Of a piece: text, rather than an unknown, control, user-defined, unused or byte piece. */
const NORMAL = 1;

/**
 * Reads a model file.
 * @throws LayergraftError code "data" if it is not a unigram SentencePiece model
 */
export async function readSentencePieceModel(file: string): Promise<SentencePieceModel> {
  const tooLarge = () => unreadable(file, `it has more than ${formatBytes(MAX_MODEL_BYTES)}, which no such model has`);
  const bytes = await readBounded(file, MAX_MODEL_BYTES, tooLarge).catch((error: unknown) => {
    if (!isSystemError(error, "ENOENT")) throw error;
    throw new LayergraftError("data", `${file} does not exist`, { file }, error);
  });
  return parseSentencePieceModel(bytes, file);
}

/** Parses the bytes of a model; `file` is for messages. */
export function parseSentencePieceModel(bytes: Uint8Array, file = "the model"): SentencePieceModel {
  try {
    return parse(bytes, file);
  } catch (error) {
    if (error instanceof RangeError || error instanceof TypeError) throw unreadable(file, "its bytes end early", error);
    throw error;
  }
}

function unreadable(file: string, reason: string, cause?: unknown): LayergraftError {
  return new LayergraftError(
    "data",
    `${file} is not a SentencePiece model that can be read: ${reason}; pass the .model file that sentencepiece trained`,
    { file },
    cause,
  );
}

function parse(bytes: Uint8Array, file: string): SentencePieceModel {
  const scores = new Map<string, number>();
  let trainer: Field[] = [];
  let normalizer: Field[] = [];
  for (const { number, value } of fields(bytes)) {
    if (!(value instanceof Uint8Array)) continue;
    if (number === 1) addPiece(scores, [...fields(value)]);
    else if (number === 2) trainer = [...fields(value)];
    else if (number === 3) normalizer = [...fields(value)];
  }
  if (scores.size === 0 || trainer.length === 0) throw unreadable(file, "it has no vocabulary");
  const flag = (from: readonly Field[], number: number, otherwise: boolean) => {
    const value = last(from, number);
    return typeof value === "number" ? value !== 0 : otherwise;
  };
  if ((last(trainer, 3) ?? UNIGRAM) !== UNIGRAM) throw unreadable(file, "it is not a unigram model");
  const charsMap = last(normalizer, 2);
  return {
    scores,
    charsMap: charsMap instanceof Uint8Array ? charsMap : new Uint8Array(),
    addDummyPrefix: flag(normalizer, 3, true),
    removeExtraWhitespaces: flag(normalizer, 4, true),
    escapeWhitespaces: flag(normalizer, 5, true),
  };
}

function addPiece(scores: Map<string, number>, parts: readonly Field[]): void {
  const [piece, score, type] = [last(parts, 1), last(parts, 2), last(parts, 3) ?? NORMAL];
  if (type !== NORMAL || !(piece instanceof Uint8Array) || piece.length === 0) return;
  scores.set(new TextDecoder().decode(piece), score instanceof DataView ? score.getFloat32(0, true) : 0);
}

interface Field {
  readonly number: number;
  /** A varint, a length-delimited field, or four or eight bytes. */
  readonly value: number | Uint8Array | DataView;
}

function last(from: readonly Field[], number: number): Field["value"] | undefined {
  return from.findLast((field) => field.number === number)?.value;
}

/** The fields of a message, in order. Throws RangeError where the bytes end within one. */
function* fields(bytes: Uint8Array): Generator<Field> {
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      if (byte === undefined || factor > 2 ** 63) throw new RangeError("varint");
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  const take = (length: number): Uint8Array => {
    if (length > bytes.length - at) throw new RangeError("length");
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const tag = varint();
    const number = Math.floor(tag / 8);
    const wire = tag % 8;
    if (wire === 0) yield { number, value: varint() };
    else if (wire === 2) yield { number, value: take(varint()) };
    else if (wire === 1 || wire === 5) {
      const { buffer, byteOffset, byteLength } = take(wire === 1 ? 8 : 4);
      yield { number, value: new DataView(buffer, byteOffset, byteLength) };
    } else throw new RangeError("wire type");
  }
}
