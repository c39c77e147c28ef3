export {
  BACKENDS,
  type BackendChoice,
  type BackendName,
  type ChoiceOptions,
  chooseBackend,
  DEFAULT_TYPE,
  isGguf,
} from "./choose-backend.js";
export { installLlama, loadLibrary } from "./library.js";
export { estimateExport, estimateGguf } from "./llama-memory.js";
export { checkLlama, type ExportOutlook, type OpenLlamaOptions, openLlama } from "./open-llama.js";
