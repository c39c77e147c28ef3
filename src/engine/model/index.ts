export {
  buildDecoder,
  type Decoder,
  FEEDS,
  pastKey,
  pastValue,
  ropeCos,
  ropeSin,
  weightName,
} from "./decoder-graph.js";
export type { DecoderSpec, LinearWeights, RopeSpec, StoredWeight } from "./families/spec.js";
export { readSpec } from "./read-spec.js";
export { locateWeights } from "./weight-names.js";
