// Exports of the WebAssembly module. Pointers are byte addresses into its memory; buffers are 16-byte aligned and
// zero-padded to a multiple of 32 bytes.
export { adamw, add, sumSquares } from "./adamw";
export { addScaledBF16, addScaledF16, addScaledF32, differenceBF16, differenceF16, differenceF32, divide, scaleBF16, scaleF16, scaleF32 } from "./blend";
export { deltaStatistics } from "./delta";
export {
  addProducts,
  approach,
  consensus,
  countKeys,
  countSigns,
  selectColumns,
  subtract,
  takeCounts,
  trimBy,
  variance,
} from "./operations";
export {
  columnsBF16,
  columnsF16,
  columnsF32,
  pairBF16,
  pairF16,
  pairF32,
  rowsBF16,
  rowsF16,
  rowsF32,
} from "./rows";
export {
  dequantizeQ2_K,
  dequantizeQ3_K,
  dequantizeQ4_0,
  dequantizeQ4_1,
  dequantizeQ4_K,
  dequantizeQ5_0,
  dequantizeQ5_1,
  dequantizeQ5_K,
  dequantizeQ6_K,
  dequantizeQ8_0,
} from "./dequantize";
export { drop, dropByMagnitude } from "./drop";
export { encodeBF16, encodeF16, encodeF32 } from "./encode";
export { addLowRank } from "./low-rank";
export { addDots, addRows, widen } from "./products";
export {
  quantizeQ4_0,
  quantizeQ4_K,
  quantizeQ5_0,
  quantizeQ5_1,
  quantizeQ5_K,
  quantizeQ6_K,
  quantizeQ8_0,
} from "./quantize";

/** First address that no static data of the module uses. */
export function heapBase(): usize {
  return __heap_base;
}
