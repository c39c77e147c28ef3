import type { Engine, OpenEngineOptions } from "../engine/index.js";
import { requireAddress } from "./address.js";
import { type EngineModelOptions, type OpenedEngineModel, servedModel } from "./served-model.js";
import { type RunningServer, type ServeOptions, startApiServer } from "./server.js";

/** How `serveModels` has a model opened. Several models share the weights that they have in common. */
export interface Holding extends Pick<OpenEngineOptions, "shared">, Pick<EngineModelOptions, "context"> {}

export type ServeModelsOptions = Omit<ServeOptions, "models" | "limits"> & EngineModelOptions;

/**
 * Opens models and serves them; closing the server closes them.
 * @param open opens a model by its name
 */
export async function serveModels(
  names: readonly string[],
  open: (name: string, holding: Holding) => Promise<Engine>,
  { parallel, context, ...options }: ServeModelsOptions,
): Promise<RunningServer> {
  await requireAddress(options);
  const models = new Map<string, OpenedEngineModel>();
  const closeAll = async () => {
    for (const model of models.values()) await model.close();
  };
  try {
    const holding: Holding = { context, shared: names.length > 1 };
    for (const name of names) models.set(name, await servedModel(await open(name, holding), { parallel, context }));
    const server = await startApiServer({ ...options, models });
    const close = (graceSeconds?: number) => server.close(graceSeconds).finally(closeAll);
    return { ...server, close };
  } catch (error) {
    await closeAll();
    throw error;
  }
}
