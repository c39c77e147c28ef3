/**
 * Server backends, metrics, statistics, and comparisons of results.
 * @module layergraft/evaluate
 */
export {
  type Backend,
  compareResults,
  corpusBleu,
  corpusChrf,
  openOpenAI,
  type Results,
  readMgsmAnswer,
  readResults,
  type Sample,
  startServer,
  writeHubScores,
} from "../../evaluate/index.js";
export {
  bootstrapInterval,
  type CrossedDifference,
  type CrossedModel,
  crossedDifference,
  detectableDifference,
  holmAdjust,
  type Interval,
  itemsNeeded,
  mcnemarExact,
  runsNeeded,
  signFlipTest,
  wilsonInterval,
} from "../../evaluate/scoring/index.js";
export { SUITES, TASK_FAMILIES } from "../../evaluate/tasks/index.js";
