// Exports of the WebAssembly module. Pointers are byte addresses into its memory; buffers are 16-byte aligned and
// zero-padded to a multiple of 32 bytes. Counts of elements are at least 1: V8 takes what is constant, such as the splat of a
// weight, out of loops that test at their end, and out of no others.
export * from "./adamw";
export * from "./blend";
export * from "./codes";
export * from "./combine";
export * from "./delta";
export * from "./dequantize";
export * from "./divergence";
export * from "./drop";
export {
  countNonFiniteBF16,
  countNonFiniteF16,
  countNonFiniteF32,
  countNonFiniteF64,
  encodeBF16,
  encodeF16,
  encodeF32,
  encodeF8_E4M3,
} from "./encode";
export * from "./eigen";
export * from "./low-rank";
export * from "./operations";
export * from "./products";
export * from "./quantize";
export * from "./rows";

/** First address that no static data of the module uses. */
export function heapBase(): usize {
  return __heap_base;
}
