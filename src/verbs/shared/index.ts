// What the command line takes of the verbs beside the public API: their parts, to show a plan before it is carried out.

export { analyzeVerb, analyzeWithRows } from "../analyze.js";
export { CHAT_HELP, chatTakes } from "../chat.js";
export { compareVerb } from "../compare.js";
export { type EvaluateControls, evalVerb } from "../evaluate.js";
export { evaluateTasks, type OpenedBackend, type TaskRunOptions, taskData, tasksOf } from "../evaluate-run.js";
export { exportVerb } from "../export.js";
export { formGroups, refuseCode } from "../form.js";
export { answerText, type GenerateControls, generateVerb, promptTitle } from "../generate.js";
export { handOverVerb, startHandedOver } from "../hand-over.js";
export { mergeVerb } from "../merge.js";
export { factsOf } from "../model.js";
export { checkSampling, SOURCE, withModel } from "../model-fields.js";
export { pushVerb } from "../push.js";
export { rateVerb } from "../rate.js";
export { revertVerb } from "../revert.js";
export { scoreVerb } from "../score.js";
export { serveTakes } from "../serve-takes.js";
export { soupVerb } from "../soup.js";
export { sourceFrom } from "../sources.js";
export { swapVerb } from "../swap.js";
export { trainVerb } from "../train.js";
export { previewExamples } from "../train-preview.js";
export {
  type Controls,
  callVerb,
  checkInput,
  type FieldText,
  type FlagSpelling,
  type Located,
  type Noted,
  OPTION_FIELDS,
  type Takes,
  type Verb,
  type VerbOptions,
  verbFields,
  type WorkOptions,
  withHub,
} from "../verb.js";
export { type MemoryRow, type MemoryTable, memoryTable } from "./memory-table.js";
