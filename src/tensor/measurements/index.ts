export type { Gram, Lines, Signs, Totals } from "./combined.js";
export { type CheckpointComparison, compareCheckpoints, type TensorComparison } from "./compare-checkpoints.js";
export { CUT, type CutMeasurement, type KeptShare, keptShares } from "./cut.js";
export {
  GATE_MODES,
  type GateMode,
  type GatesMeasurement,
  type MeasuredTensor,
  type MeasureGates,
  type RoutersMeasurement,
  runResults,
} from "./gates.js";
export {
  factorsOf,
  type Measurement,
  type MeasureOptions,
  measureAll,
  measuredSources,
  measurementsFor,
  measuringBytes,
  measuringPrograms,
  placeholders,
  requireKnown,
} from "./measure-all.js";
export { type Combine, defineCombination } from "./measurement.js";
export {
  analyzeTensors,
  type ExpertDelta,
  isAnalyzable,
  type RowAxis,
  rowLayout,
  type TensorDelta,
  type TensorToAnalyze,
} from "./row-changes.js";
export { hasRows } from "./rows.js";
