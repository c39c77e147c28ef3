export {
  type Adapt,
  buildDecoder,
  type Decoder,
  type DecoderOptions,
  FEEDS,
  pastKey,
  pastValue,
  ropeCos,
  ropeSin,
  weightName,
} from "./decoder-graph.js";
export { FAMILIES } from "./families/index.js";
export type { DecoderSpec, LayerSpec, RopeSpec, StoredWeight } from "./families/spec.js";
export { readSpec } from "./read-spec.js";
export { locateWeights, weightsOf } from "./weight-names.js";
