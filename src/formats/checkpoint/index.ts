export { blockOf, compareParts, isMatrix, type Part } from "../../families/index.js";
export { ADAPTER_CONFIG } from "./adapter-config.js";
export { ADAPTER_WEIGHTS, adapterConfig, factorNames, factorOf, peftName, peftTargets } from "./adapter-files.js";
export {
  type Checkpoint,
  type CheckpointTensor,
  foldersOf,
  openCheckpoint,
  type Pursuit,
  parameterCount,
  requireUnchanged,
  zeroRows,
} from "./checkpoint.js";
export { besideDecoder, withCommonNames } from "./common-names.js";
export { type CompanionKind, companionOf, TEMPLATES } from "./companion-names.js";
export {
  companionNotes,
  companionsIn,
  homeOf,
  leadsElsewhere,
  OF_TOKENIZER,
  ofConfig,
} from "./companions.js";
export {
  type CheckpointConfig,
  edited,
  isTower,
  mapTowers,
  parseConfig,
  quantisationSettings,
  readConfig,
  textOf,
  unquantise,
} from "./config.js";
export {
  cachedFolder,
  HUB_PREFIX,
  type HubAccess,
  hubCache,
  parseHubName,
  pinKey,
  type SourceOptions,
} from "./hub-source.js";
export { type Inspection, inspectCheckpoint, inspectTensors, type TensorInspection } from "./inspection.js";
export { keepsFloat32 } from "./kept-float32.js";
export { layerKinds, requireStackable, stackedConfig } from "./layer-kinds.js";
export { folderName, hubPlace, locateOrFetch, locateSource } from "./locate.js";
export { inMemoryOf } from "./renamings.js";
