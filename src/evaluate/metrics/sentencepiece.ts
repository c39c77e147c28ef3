// Pieces of a line as in sentencepiece's EncodeAsPieces, for BLEU over subwords (flores200). After unigram_model.cc and
// bpe_model.cc of google/sentencepiece.
import type { Pieces } from "./bleu-tokenizers.js";
import { parseSentencePieceModel, readSentencePieceModel, type SentencePieceModel } from "./sentencepiece-model.js";
import { sentencePieceNormalizer } from "./sentencepiece-normalizer.js";

/** What an unknown character costs beneath the worst piece. */
const UNKNOWN_PENALTY = 10;
/** FLT_MIN: what sentencepiece takes the maximum of the scores from, which are all negative, so that it stays this. */
const SMALLEST_FLOAT = 2 ** -126;

/**
 * The pieces of a SentencePiece model (.model, unigram or byte-pair), for `tokenize: "flores200"`.
 * @throws LayergraftError code "data" where the file is no such model
 */
export async function loadPieces(file: string): Promise<Pieces> {
  return sentencePieces(await readSentencePieceModel(file));
}

/** The same from the bytes of a model. */
export function piecesOf(model: Uint8Array): Pieces {
  return sentencePieces(parseSentencePieceModel(model));
}

interface Entry {
  readonly score: number;
  readonly type: "normal" | "user" | "unused";
}

function sentencePieces(model: SentencePieceModel): Pieces {
  const entries = new Map<string, Entry>();
  for (const { piece, score, type } of model.pieces) {
    if (type === "normal" || type === "user" || type === "unused") entries.set(piece, { score, type });
  }
  const longest = [...entries.keys()].reduce((most, piece) => Math.max(most, piece.length), 0);
  const isolated = longestUserSymbol(model);
  const normalize = sentencePieceNormalizer(model, isolated);
  const split = model.kind === "unigram" ? unigram(entries, longest, model) : bytePairs(entries, isolated);

  return (line) => {
    const pieces: string[] = [];
    let wasUnknown = false;
    for (const piece of split(normalize(line))) {
      const isUnknown = !entries.has(piece);
      // A run of unknown characters is one piece, unless bytes stand for them.
      if (isUnknown && model.byteFallback) pieces.push(...byteNames(piece));
      else if (isUnknown && wasUnknown) pieces.push((pieces.pop() ?? "") + piece);
      else pieces.push(piece);
      wasUnknown = isUnknown;
    }
    return pieces;
  };
}

function byteNames(piece: string): string[] {
  return [...Buffer.from(piece, "utf8")].map((byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
}

/** Length of the longest user-defined symbol that stands at a place; 0 if none does. */
function longestUserSymbol({ pieces }: SentencePieceModel): (text: string, at: number) => number {
  const symbols = pieces.filter(({ type, piece }) => type === "user" && piece !== "").map(({ piece }) => piece);
  symbols.sort((a, b) => b.length - a.length);
  return (text, at) => symbols.find((symbol) => text.startsWith(symbol, at))?.length ?? 0;
}

/** The most probable segmentation. Sums are rounded to float32 where sentencepiece stores them in one. */
function unigram(
  entries: ReadonlyMap<string, Entry>,
  longest: number,
  model: SentencePieceModel,
): (text: string) => string[] {
  const scores = model.pieces.filter(({ type }) => type === "normal").map(({ score }) => score);
  const lowest = scores.reduce((least, score) => Math.min(least, score), Number.POSITIVE_INFINITY);
  const highest = scores.reduce((most, score) => Math.max(most, score), SMALLEST_FLOAT);
  const unknown = Math.fround(lowest - UNKNOWN_PENALTY);

  return (text) => {
    const best = new Float32Array(text.length + 1);
    const from = new Int32Array(text.length + 1).fill(-1);
    const offer = (start: number, end: number, score: number) => {
      if (from[end] !== -1 && !(score > (best[end] ?? 0))) return;
      best[end] = score;
      from[end] = start;
    };
    for (let start = 0; start < text.length; ) {
      const width = (text.codePointAt(start) ?? 0) > 0xffff ? 2 : 1;
      const here = best[start] ?? 0;
      let hasSingle = false;
      for (let end = start + width; end <= text.length && end - start <= longest; ) {
        const piece = text.slice(start, end);
        const entry = entries.get(piece);
        if (entry && entry.type !== "unused") {
          const bonus = entry.type === "user" ? Buffer.byteLength(piece) * highest - 0.1 : entry.score;
          offer(start, end, Math.fround(bonus + here));
          if (end - start === width) hasSingle = true;
        }
        end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
      }
      if (!hasSingle) offer(start, start + width, Math.fround(unknown + here));
      start += width;
    }
    const pieces: string[] = [];
    for (let end = text.length; end > 0; end = from[end] ?? 0) pieces.push(text.slice(from[end] ?? 0, end));
    return pieces.reverse();
  };
}

/** A link in the chain of what a text is cut into so far. */
interface Link {
  text: string;
  readonly isFrozen: boolean;
  previous: Link | undefined;
  next: Link | undefined;
  /** Score of the piece that it makes with the next link; -Infinity where that is none. */
  score: number;
}

/** Merges the pair of neighbours with the best score, the leftmost of equal ones, until no pair is a piece. */
function bytePairs(
  entries: ReadonlyMap<string, Entry>,
  isolated: (text: string, at: number) => number,
): (text: string) => string[] {
  return (text) => {
    /** Pieces that exist only as parts of others come apart again at the end. */
    const parts = new Map<string, readonly [string, string]>();
    const rate = (link: Link | undefined) => {
      if (!link) return;
      link.score = Number.NEGATIVE_INFINITY;
      const { next } = link;
      if (!next || link.isFrozen || next.isFrozen) return;
      const entry = entries.get(link.text + next.text);
      if (!entry) return;
      link.score = entry.score;
      if (entry.type === "unused") parts.set(link.text + next.text, [link.text, next.text]);
    };
    const first = chain(text, isolated);
    for (let link = first; link; link = link.next) rate(link);
    for (;;) {
      let best: Link | undefined;
      for (let link = first; link; link = link.next) if (link.score > (best?.score ?? -Infinity)) best = link;
      if (!best?.next) break;
      best.text += best.next.text;
      best.next = best.next.next;
      if (best.next) best.next.previous = best;
      rate(best.previous);
      rate(best);
    }
    const resegment = (piece: string): string[] => {
      const pair = entries.get(piece)?.type === "unused" ? parts.get(piece) : undefined;
      return pair ? pair.flatMap(resegment) : [piece];
    };
    const merged: string[] = [];
    for (let link = first; link; link = link.next) merged.push(...resegment(link.text));
    return merged;
  };
}

/** A text as a chain of its characters, user-defined symbols whole. */
function chain(text: string, isolated: (text: string, at: number) => number): Link | undefined {
  let first: Link | undefined;
  let previous: Link | undefined;
  for (let at = 0; at < text.length; ) {
    const whole = isolated(text, at);
    const width = whole || ((text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1);
    const link: Link = {
      text: text.slice(at, at + width),
      isFrozen: whole > 0,
      previous,
      next: undefined,
      score: Number.NEGATIVE_INFINITY,
    };
    if (previous) previous.next = link;
    first ??= link;
    previous = link;
    at += width;
  }
  return first;
}
