export {
  type EngineModelOptions,
  type OpenedEngineModel,
  servedModel,
  weightsOf,
} from "./engine-model.js";
export type { ServerLimits } from "./limits.js";
export type { AnswerRequest, Finish, ServedModel } from "./served-model.js";
export {
  type RequestRecord,
  type RunningServer,
  requireKey,
  type ServeOptions,
  startApiServer,
} from "./server.js";
