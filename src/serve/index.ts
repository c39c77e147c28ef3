export { checkKey, checkOrigin, pathOf, readBody } from "./http-guard.js";
export { type Holding, type ServeModelsOptions, serveModels } from "./serve-models.js";
export type { RequestRecord, RunningServer } from "./server.js";
