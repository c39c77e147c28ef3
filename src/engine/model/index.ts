export type { Activation, DecoderSpec, RopeSpec, StoredWeight } from "../../families/index.js";
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
export { readSpec } from "./read-spec.js";
export { locateWeights, weightsOf } from "./weight-names.js";
