export {
  childrenOf,
  defineOperation,
  flatten,
  hasOperation,
  isLeaf,
  type Leaf,
  leavesOf,
  type Measured,
  measurementsOf,
  sumOfWeights,
  type Value,
  type Weight,
  type WeightedValue,
} from "./expressions/expression.js";
export { packedResult, packMeasured, packResult, unpackResult } from "./expressions/measured.js";
export { Resolver, type Sources } from "./expressions/resolve.js";
export { valueSchema } from "./expressions/value-schema.js";
export type { Gram, Signs, Totals } from "./measurements/combined.js";
export {
  type CheckpointComparison,
  compareCheckpoints,
  type TensorComparison,
} from "./measurements/compare-checkpoints.js";
export { CUT, type CutMeasurement, type KeptShare, keptShares } from "./measurements/cut.js";
export { GATE_MODES, type GateMode, type MeasureGates } from "./measurements/gates.js";
export type { Lines } from "./measurements/lines.js";
export {
  type Measurement,
  measureAll,
  measuredSources,
  measuringBytes,
  measuringPrograms,
  placeholders,
  requireKnown,
} from "./measurements/measure-all.js";
export { type Combine, defineCombination } from "./measurements/measurement.js";
export {
  analyzeTensors,
  type ExpertDelta,
  isAnalyzable,
  type RowAxis,
  rowsAlong,
  type TensorDelta,
  type TensorToAnalyze,
} from "./measurements/row-changes.js";
export { hasRows } from "./measurements/rows.js";
export { alignWithSources, cloneFile } from "./output/clone.js";
export {
  companionNotes,
  companionsIn,
  copyTextFiles,
  digestCompanions,
  digestFiles,
  leadsElsewhere,
  outputConfig,
  writeAdapterCompanions,
  writeCompanions,
} from "./output/companion-files.js";
export { compileCompare, compileWrite, copied, type WrittenTensor } from "./output/compile.js";
export {
  explainNonFinite,
  type NonFinite,
  type NonFiniteStep,
  nonFiniteSteps,
  nonFiniteWarnings,
  requireEncodable,
  requireFinite,
} from "./output/non-finite.js";
export { MAX_PROVENANCE_BYTES, OutputFolder, pinsOfRun, type RunState } from "./output/output-folder.js";
export { PLAN_FORMAT, type PlanSource, PROVENANCE_FILE, type Step, type TensorPlan } from "./plan.js";
