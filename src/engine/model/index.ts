export type { Activation, DecoderSpec, RopeSpec, StoredWeight } from "../../families/index.js";
export {
  type Adapt,
  buildDecoder,
  type Decoder,
} from "./decoder-graph.js";
export { FEEDS, pastKey, pastValue, ropeCos, ropeSin } from "./feeds.js";
export { readSpec } from "./read-spec.js";
export { locateWeights, weightsOf, weightsOfExperts } from "./weight-names.js";
