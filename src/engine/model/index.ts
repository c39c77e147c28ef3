export type { Activation, DecoderSpec, RopeSpec, StoredWeight } from "../../families/index.js";
export { buildDecoder, type Decoder } from "./decoder-graph.js";
export { FEEDS, pastKey, pastValue, ropeCos, ropeSin } from "./feeds.js";
export type { Adapt } from "./layer-tools.js";
export { readSpec } from "./read-spec.js";
export { cacheBytes, FLOAT32, keptBytes, weightSizes } from "./sizes.js";
export { locateWeights, weightsOf } from "./weight-names.js";
