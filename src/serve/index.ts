export { requireAddress } from "./address.js";
export { type OpenedEngineModel, servedModel, weightsOf } from "./engine-model.js";
export { checkKey, checkOrigin, pathOf, readBody } from "./http-guard.js";
export type { Finish, ServedModel } from "./served-model.js";
export { type RequestRecord, type RunningServer, type ServeOptions, startApiServer } from "./server.js";
