export { averageScore, type ScoredItems } from "./average-scores.js";
export { type CrossedDifference, type CrossedModel, crossedDifference } from "./crossed.js";
export { holmAdjust } from "./holm.js";
export { detectableDifference, itemsNeeded, runsNeeded } from "./power.js";
export { averageRepeats, compareItems, type Score, scoreItems, turned } from "./scores.js";
export {
  bootstrapInterval,
  type Interval,
  mcnemarExact,
  meanWithError,
  signFlipTest,
  wilsonInterval,
} from "./statistics.js";
