export {
  type Adapt,
  buildDecoder,
  type Decoder,
  FEEDS,
  pastKey,
  pastValue,
  ropeCos,
  ropeSin,
} from "./decoder-graph.js";
export type { Activation, DecoderSpec, RopeSpec, StoredWeight } from "./families/spec.js";
export { readSpec } from "./read-spec.js";
export { locateWeights, weightsOf } from "./weight-names.js";
