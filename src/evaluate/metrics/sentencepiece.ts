// Pieces of a line as in sentencepiece's EncodeAsPieces, for BLEU over subwords (flores101, flores200). After
// unigram_model.cc of google/sentencepiece; the models of FLORES are unigram models.
import type { Pieces } from "./bleu-tokenizers.js";
import { parseSentencePieceModel, readSentencePieceModel, type SentencePieceModel } from "./sentencepiece-model.js";
import { sentencePieceNormalizer } from "./sentencepiece-normalizer.js";

/** What an unknown character costs beneath the worst piece. */
const UNKNOWN_PENALTY = 10;

/**
 * The pieces of a SentencePiece unigram model (.model), for `tokenize: "flores200"`.
 * @throws LayergraftError code "data" where the file is no such model
 */
export async function loadPieces(file: string): Promise<Pieces> {
  return sentencePieces(await readSentencePieceModel(file));
}

/** The same from the bytes of a model. */
export function piecesOf(model: Uint8Array): Pieces {
  return sentencePieces(parseSentencePieceModel(model));
}

function sentencePieces(model: SentencePieceModel): Pieces {
  const normalize = sentencePieceNormalizer(model);
  const split = unigram(model.scores);
  return (line) => {
    const pieces: string[] = [];
    let wasUnknown = false;
    for (const piece of split(normalize(line))) {
      const isUnknown = !model.scores.has(piece);
      // A run of unknown characters is one piece.
      if (isUnknown && wasUnknown) pieces.push((pieces.pop() ?? "") + piece);
      else pieces.push(piece);
      wasUnknown = isUnknown;
    }
    return pieces;
  };
}

/** The most probable segmentation. Sums are rounded to float32, in which sentencepiece stores them. */
function unigram(scores: ReadonlyMap<string, number>): (text: string) => string[] {
  let [longest, lowest] = [0, Number.POSITIVE_INFINITY];
  for (const [piece, score] of scores) {
    longest = Math.max(longest, piece.length);
    lowest = Math.min(lowest, score);
  }
  const unknown = Math.fround(lowest - UNKNOWN_PENALTY);

  return (text) => {
    const best = new Float32Array(text.length + 1);
    const from = new Int32Array(text.length + 1).fill(-1);
    const offer = (start: number, end: number, score: number) => {
      const sum = Math.fround(score + (best[start] ?? 0));
      if (from[end] !== -1 && !(sum > (best[end] ?? 0))) return;
      best[end] = sum;
      from[end] = start;
    };
    for (let start = 0; start < text.length; ) {
      const width = (text.codePointAt(start) ?? 0) > 0xffff ? 2 : 1;
      for (let end = start + width; end <= text.length && end - start <= longest; ) {
        const score = scores.get(text.slice(start, end));
        if (score !== undefined) offer(start, end, score);
        else if (end - start === width) offer(start, end, unknown);
        end += (text.codePointAt(end) ?? 0) > 0xffff ? 2 : 1;
      }
      start += width;
    }
    const pieces: string[] = [];
    for (let end = text.length; end > 0; end = from[end] ?? 0) pieces.push(text.slice(from[end] ?? 0, end));
    return pieces.reverse();
  };
}
