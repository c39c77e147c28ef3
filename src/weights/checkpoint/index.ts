// The public face of checkpoint/.
export type { Adapter, LowRankDelta } from "./adapter.js";
export {
  ARCHITECTURES,
  type Architecture,
  type Block,
  blockOf,
  type LayerPart,
  type OutsidePart,
  type Part,
} from "./architectures.js";
export { type Checkpoint, type CheckpointTensor, openCheckpoint, parameterCount } from "./checkpoint.js";
export { type Labelled, requireCompatible } from "./compatibility.js";
export { type CheckpointConfig, parseConfig, readConfig } from "./config.js";
export { locateSource, type SourceLocation } from "./locate.js";
export { type Place, type Placement, placeTensors } from "./placement.js";
