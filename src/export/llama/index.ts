export { BACKENDS, type BackendName, chooseBackend, isGguf } from "./choose-backend.js";
export { INSTALL_LLAMA, loadLibrary } from "./library.js";
export { checkLlama, DEFAULT_TYPE, type ExportOutlook, type OpenLlamaOptions, openLlama } from "./open-llama.js";
