export { readMgsmAnswer } from "./answers/read-mgsm-answer.js";
export { choiceNotes } from "./ask-items.js";
export type { Backend } from "./backends/backend.js";
export { modelBackend, rendererOf } from "./backends/engine-backend.js";
export { plainAddress, withoutLogin } from "./backends/http.js";
export { openOpenAI, openServed, readTexts, type ServerOptions } from "./backends/openai.js";
export { startServer } from "./backends/serve.js";
export { compareResults, type MethodComparison, type ResultsComparison, together } from "./compare-results.js";
export { type EvaluateOptions, type Evaluation, evaluate, loadTasks } from "./evaluate.js";
export { corpusBleu } from "./metrics/bleu.js";
export { BLEU_TOKENIZERS, type BleuTokenizer, missingTokenizer } from "./metrics/bleu-tokenizers.js";
export { corpusChrf } from "./metrics/chrf.js";
export {
  ownPrompt,
  type RatingTally,
  ratingPage,
  sharedPrompt,
  sharedPrompts,
  tallyRatings,
  tallyVerdict,
} from "./rating.js";
export {
  comparisonLines,
  comparisonNotes,
  comparisonTable,
  progressDetail,
  SCORE_FORMATS,
  type ScoreFormat,
  scoreLines,
  scoreNotes,
  scoreTexts,
} from "./result-tables.js";
export { ResultFolder, SERVER_LOG, samplesFile } from "./results/folder.js";
export { readResults, readSamples, readVerdicts, type StoredSample } from "./results/read-results.js";
export type { Results, Sample } from "./results/result-types.js";
export { HUB_SCORES, writeHubScores } from "./results/write-hub.js";
export { openSandbox } from "./sandbox/sandbox.js";
export type { LoadedTask } from "./task-run.js";
