// The public face of evaluate/: tasks, backends, the sandbox, evaluations and what is made of them.

export {
  isMgsmLanguage,
  MGSM_LANGUAGES,
  type MgsmAnswer,
  type MgsmAnswerOptions,
  type MgsmLanguage,
  readMgsmAnswer,
} from "./answers/index.js";
export { plainAddress, withoutLogin } from "./backends/http.js";
export {
  type Answer,
  AnswerCache,
  type AnswerOptions,
  type Backend,
  type BackendIdentity,
  type ChooseRequest,
  type Chosen,
  type Encoder,
  type EngineBackendOptions,
  type EvaluationEngine,
  engineBackend,
  type Generated,
  type GenerateRequest,
  type Incapacities,
  isFault,
  type Loglikelihood,
  type LoglikelihoodRequest,
  modelBackend,
  type OllamaOptions,
  openLlamaCpp,
  openOllama,
  openOpenAI,
  type Problem,
  type RunningServer,
  rendererOf,
  type ServeOptions,
  ServerError,
  type ServerOptions,
  startServer,
  withCache,
} from "./backends/index.js";
export {
  type CompareResultsOptions,
  compareResults,
  type ResultsComparison,
  type TaskComparison,
} from "./compare-results.js";
export { type EvaluateOptions, type Evaluation, evaluate } from "./evaluate.js";
export type { BleuSmoothing } from "./metrics/bleu.js";
export {
  BLEU_TOKENIZERS,
  type BleuOptions,
  type BleuScore,
  type BleuTokenizer,
  CHRF_PLUS_PLUS,
  type ChrfOptions,
  type ChrfScore,
  corpusBleu,
  corpusChrf,
  loadPieces,
  type Pieces,
  type References,
} from "./metrics/index.js";
export { comparisonLines, progressDetail, SCORE_FORMATS, type ScoreFormat, scoreLines, scoreNotes } from "./present.js";
export { ResultFolder, SERVER_LOG } from "./results/folder.js";
export {
  type EvaluationSettings,
  type FaultCounts,
  type Results,
  readResults,
  readVerdicts,
  type Sample,
  type TaskResult,
} from "./results/index.js";
export {
  type Execution,
  type ExecutionOutcome,
  type Guard,
  openSandbox,
  type ProgramPart,
  type Sandbox,
  type SandboxIdentity,
  type SandboxOptions,
} from "./sandbox/index.js";
export { type Comparison, compareItems, type JudgedItem, type Score, scoreItems } from "./scoring/scores.js";
export {
  type BootstrapOptions,
  bootstrapInterval,
  type Interval,
  mcnemarExact,
  passAtK,
  signFlipTest,
  wilsonInterval,
} from "./scoring/statistics.js";
export { hubLoader } from "./task-rows.js";
export type { EvaluationProgress } from "./task-run.js";
export {
  customTask,
  type DataAccess,
  type Item,
  type LoadRows,
  type Metric,
  MISSING_DATA,
  type OpenTasksOptions,
  openCustomTask,
  openTasks,
  PROTOCOLS,
  SUITES,
  TASK_FAMILIES,
  type Task,
  type TaskFamily,
  taskFields,
  taskJsonSchema,
} from "./tasks/index.js";
export { judgingDigest, type Protocol, promptsDigest, protocolId, protocolTitle } from "./tasks/protocol.js";
export { readLines } from "./tasks/task-data.js";
