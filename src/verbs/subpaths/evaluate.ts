/**
 * Server backends, metrics, statistics, and comparisons of results.
 * @module layergraft/evaluate
 */
export {
  type Backend,
  bootstrapInterval,
  type CrossedDifference,
  type CrossedModel,
  compareResults,
  corpusBleu,
  corpusChrf,
  crossedDifference,
  detectableDifference,
  holmAdjust,
  type Interval,
  mcnemarExact,
  openOpenAI,
  type Results,
  readMgsmAnswer,
  readResults,
  type Sample,
  SUITES,
  signFlipTest,
  startServer,
  TASK_FAMILIES,
  wilsonInterval,
  writeHubScores,
} from "../../evaluate/index.js";
