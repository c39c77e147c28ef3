// The door of evaluate/: what other rooms use.

export { readMgsmAnswer } from "./answers/index.js";
export { plainAddress, withoutLogin } from "./backends/http.js";
export {
  type Backend,
  modelBackend,
  openLlamaCpp,
  openOllama,
  openOpenAI,
  rendererOf,
  type ServerOptions,
  startServer,
} from "./backends/index.js";
export { compareResults, type ResultsComparison } from "./compare-results.js";
export { type EvaluateOptions, type Evaluation, evaluate } from "./evaluate.js";
export type { BleuSmoothing } from "./metrics/bleu.js";
export {
  BLEU_TOKENIZERS,
  type BleuOptions,
  type BleuScore,
  type BleuTokenizer,
  CHRF_PLUS_PLUS,
  type ChrfScore,
  corpusBleu,
  corpusChrf,
  loadPieces,
} from "./metrics/index.js";
export { comparisonLines, progressDetail, SCORE_FORMATS, type ScoreFormat, scoreLines, scoreNotes } from "./present.js";
export { ResultFolder, SERVER_LOG } from "./results/folder.js";
export { type Results, readResults, type Sample } from "./results/index.js";
export { openSandbox } from "./sandbox/index.js";
export { compareItems, type JudgedItem, type Score, scoreItems } from "./scoring/scores.js";
export {
  bootstrapInterval,
  type Interval,
  mcnemarExact,
  passAtK,
  signFlipTest,
  wilsonInterval,
} from "./scoring/statistics.js";
export { hubLoader } from "./task-rows.js";
export {
  type DataAccess,
  type Item,
  MISSING_DATA,
  type OpenTasksOptions,
  openTasks,
  SUITES,
  TASK_FAMILIES,
  type Task,
  taskFields,
  taskJsonSchema,
} from "./tasks/index.js";
export { judgingDigest, promptsDigest, protocolId, protocolTitle } from "./tasks/protocol.js";
export { readLines } from "./tasks/task-data.js";
