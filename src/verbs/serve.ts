import type { CallOptions } from "../kit/index.js";
import { type Holding, type RequestRecord, serveModels } from "../serve/index.js";
import { Model, type ModelInput, type OpenModelOptions, openInBackend } from "./model.js";

/** A request that the server answered or refused. */
export type ServedRequest = RequestRecord;

/** Options of `serve`. `signal` and `onProgress` are for opening the models, whose names are in the phase. */
export interface ServeOptions extends OpenModelOptions {
  /** Address to listen on. Default: `127.0.0.1`, which only this machine reaches. */
  readonly host?: string | undefined;
  /** Port to listen on; 0 takes a free one. Default: 8000. */
  readonly port?: number | undefined;
  /** Key that clients must send; needed where `host` is not a loopback address. Default: none. */
  readonly apiKey?: string | undefined;
  /** Origins of web pages that may use the server; `"*"` for all. Default: none. */
  readonly origins?: readonly string[] | undefined;
  /** Answers of a model computed at once. Default: 8. */
  readonly parallel?: number | undefined;
  /** Answers that may wait. Further requests get status 429. Default: 256. */
  readonly queue?: number | undefined;
  /** Maximum tokens of prompt and answer together. Default: the model's context, at most 8192. */
  readonly context?: number | undefined;
  /** Called with each model when it is ready; the server closes it. Default: none. */
  readonly onOpen?: ((name: string, model: Model) => void) | undefined;
  /** Called after each request. Default: none. */
  readonly onRequest?: ((request: ServedRequest) => void) | undefined;
}

/** A server that listens. Close it, or declare it with `await using`. */
export interface ModelServer extends AsyncDisposable {
  /** Address, such as `http://127.0.0.1:8000`. The API is under `/v1`. */
  readonly url: string;
  /** Port that it listens on. */
  readonly port: number;
  /**
   * Finishes the answers under way, then frees the models.
   * @param graceSeconds seconds after which answers are cancelled. Default: 10.
   */
  close(graceSeconds?: number): Promise<void>;
}

/**
 * Serves models over the OpenAI API. Several models share the weights that they have in common.
 * @param models models by the names that requests choose them by
 * @throws CheckpointError or FormatError or RecipeError or MismatchError if one cannot be used
 * @throws LayergraftError if the address cannot be used or needs a key, or if ONNX Runtime or node-llama-cpp is not
 *   installed
 * @throws CancelledError if the signal fires
 */
export async function serve(
  models: Readonly<Record<string, ModelInput>>,
  options: ServeOptions = {},
): Promise<ModelServer> {
  const { host, port, apiKey, origins, parallel, queue, context, onOpen, onRequest, onProgress, ...opening } = options;
  const open = async (name: string, held: Holding) => {
    const loading: CallOptions["onProgress"] =
      onProgress && ((one) => onProgress({ ...one, phase: `loading ${name}` }));
    const engine = await openInBackend(models[name] as ModelInput, { ...opening, onProgress: loading }, held);
    onOpen?.(name, new Model(engine));
    return engine;
  };
  const serving = { host, port, apiKey, origins, parallel, queue, context, onRequest };
  const server = await serveModels(Object.keys(models), open, serving);
  return { ...server, [Symbol.asyncDispose]: server.close };
}
