import type { Engine } from "../engine/index.js";
import { requireAddress } from "./address.js";
import {
  type EngineModelOptions,
  type HeldWeights,
  type OpenedEngineModel,
  servedModel,
  weightsOf,
} from "./engine-model.js";
import { type RunningServer, type ServeOptions, startApiServer } from "./server.js";

/** How `serveModels` has a model opened. */
export interface Holding extends HeldWeights, Pick<EngineModelOptions, "context"> {}

/**
 * Opens models and serves them; closing the server closes them.
 * @param open opens a model by its name
 */
export async function serveModels(
  names: readonly string[],
  open: (name: string, holding: Holding) => Promise<Engine>,
  { parallel, context, ...options }: Omit<ServeOptions, "models"> & EngineModelOptions,
): Promise<RunningServer> {
  await requireAddress(options);
  const models = new Map<string, OpenedEngineModel>();
  const closeAll = async () => {
    for (const model of models.values()) await model.close();
  };
  try {
    const holding = { context, ...weightsOf(names.length) };
    for (const name of names) models.set(name, await servedModel(await open(name, holding), { parallel, context }));
    const server = await startApiServer({ ...options, models });
    const close = (graceSeconds?: number) => server.close(graceSeconds).finally(closeAll);
    return { ...server, close };
  } catch (error) {
    await closeAll();
    throw error;
  }
}
