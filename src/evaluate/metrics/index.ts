// The public face of evaluate/metrics: BLEU and chrF of corpora, as sacreBLEU computes them.
export {
  type BleuOptions,
  type BleuScore,
  type BleuSmoothing,
  bleuFromStatistics,
  bleuStatistics,
  corpusBleu,
} from "./bleu.js";
export { BLEU_TOKENIZERS, type BleuTokenizer, type Pieces } from "./bleu-tokenizers.js";
export {
  CHRF_PLUS_PLUS,
  type ChrfOptions,
  type ChrfScore,
  chrfFromStatistics,
  chrfStatistics,
  corpusChrf,
} from "./chrf.js";
export type { References } from "./segments.js";
export { loadPieces, piecesOf } from "./sentencepiece.js";
