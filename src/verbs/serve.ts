import type { CallOptions } from "../kit/index.js";
import { yieldToEventLoop } from "../kit/stopping/index.js";
import {
  type Holding,
  type RequestRecord,
  type RunningServer,
  type ServeModelsOptions,
  serveModels,
} from "../serve/index.js";
import { chooseFor, Model, type ModelInput, type OpenModelOptions, openInBackend } from "./model.js";

/** A request that the server answered or refused. */
export type ServedRequest = RequestRecord;

/** Options of `serve`. `signal` and `onProgress` are for opening the models, whose names are in the phase. */
export interface ServeOptions extends OpenModelOptions, ServeModelsOptions {
  /** Called with each model when it is ready; the server closes it. Default: none. */
  readonly onOpen?: ((name: string, model: Model) => void) | undefined;
}

/** A server that listens. Close it, or declare it with `await using`. */
export interface ModelServer extends RunningServer, AsyncDisposable {}

/**
 * Serves models over the OpenAI API. Several models share the weights that they have in common, so they are opened one after
 * another; one that does not fit alone is refused before that.
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
  const names = Object.keys(models);
  const open = async (name: string, held: Holding) => {
    const done = names.indexOf(name);
    // Before the first is opened, which may take minutes.
    for (const other of done === 0 ? names.slice(1) : []) await chooseFor(models[other] as ModelInput, opening, held);
    if (names.length > 1) {
      onProgress?.({ phase: `opening ${name}`, done, total: names.length, unit: "items" });
    }
    const loading: CallOptions["onProgress"] =
      onProgress && ((one) => onProgress({ ...one, phase: `loading ${name}` }));
    const opened = await openInBackend(models[name] as ModelInput, { ...opening, onProgress: loading }, held);
    onOpen?.(name, new Model(opened));
    try {
      // A session is made in one piece. A signal that came meanwhile is read in the turn of the event loop that begins after it.
      for (let turn = 0; turn < 2; turn++) await yieldToEventLoop(opening.signal);
    } catch (error) {
      await opened.engine.close();
      throw error;
    }
    return opened.engine;
  };
  const serving = { host, port, apiKey, origins, parallel, queue, context, onRequest };
  const server = await serveModels(names, open, serving);
  return { ...server, [Symbol.asyncDispose]: server.close };
}
