export { checkKey, checkOrigin, pathOf, readBody } from "./http-guard.js";
export { type Holding, serveModels } from "./serve-models.js";
export type { RequestRecord } from "./server.js";
