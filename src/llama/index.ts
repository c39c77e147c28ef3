// Exports of llama/ for other rooms.

export { isGguf, type OpenLlamaOptions, openLlama } from "./open-llama.js";
