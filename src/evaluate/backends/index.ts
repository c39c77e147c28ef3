// Who answers the prompts: the engine and servers. The public face of the folder.

export { AnswerCache, keyOf, withCache } from "./answer-cache.js";
export {
  type Answer,
  type AnswerOptions,
  type Backend,
  type BackendIdentity,
  type ChatMessage,
  type ChooseRequest,
  type Chosen,
  type Encoder,
  type Generated,
  type GenerateRequest,
  type Incapacities,
  isError,
  type Loglikelihood,
  type LoglikelihoodRequest,
  type RequestError,
} from "./backend.js";
export { type EngineBackendOptions, type EvaluationEngine, engineBackend } from "./engine-backend.js";
export { plainAddress, ServerError, withoutLogin } from "./http.js";
export { openLlamaCpp } from "./llamacpp.js";
export { modelBackend, rendererOf } from "./model-backend.js";
export { type OllamaOptions, openOllama } from "./ollama.js";
export { openOpenAI, type ServerOptions } from "./openai.js";
export { type RunningServer, type ServeOptions, startServer } from "./serve.js";
