export { cloneFile } from "./clone.js";
export { copyTextFiles, outputConfig, writeCompanions } from "./companion-files.js";
export { checkOutput, type ExecuteOptions, type ExecuteResult, executePlan } from "./execute-plan.js";
export { pinsOfRun, type RunState } from "./journal.js";
export { explainNonFinite, type NonFinite, type NonFiniteStep, requireEncodable, requireFinite } from "./non-finite.js";
export { OutputFolder } from "./output-folder.js";
export { checkPush, type PushOptions, type PushResult, pushFolder } from "./push.js";
export { measuredOwnership, type PlanSummary, sourceLabels, summarizePlan } from "./summary.js";
export { type Verification, type VerifyOptions, verifyOutput } from "./verify.js";
