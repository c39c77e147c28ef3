import { Random } from "../core/index.js";
import { BlendCache, type Engine, type OpenEngineOptions } from "../engine/index.js";
import type { ServedModel } from "./served-model.js";

export interface EngineModelOptions {
  /** Answers computed at once; default 8. */
  readonly parallel?: number | undefined;
  /** Most tokens of prompt and answer together; default the model's context, at most 8192. */
  readonly context?: number | undefined;
}

export interface OpenedEngineModel extends ServedModel {
  readonly engine: Pick<Engine, "name" | "family" | "notes">;
}

export type HeldWeights = Pick<OpenEngineOptions, "asFloats" | "cache">;

/** How the models of one server hold their weights: several share those that they have in common. */
export function weightsOf(models: number): HeldWeights {
  return models > 1 ? { asFloats: true, cache: new BlendCache(Number.POSITIVE_INFINITY) } : {};
}

const PARALLEL = 8;
/** The cache of keys and values takes memory for `parallel` texts of the longest one's length. */
const MAX_CONTEXT = 8192;

/**
 * Serves a model that is open. Closing it closes the engine, which is also closed if this fails.
 * @throws CheckpointError if it has no tokenizer that can be read
 */
export async function servedModel(
  engine: Engine,
  { parallel = PARALLEL, context = MAX_CONTEXT }: EngineModelOptions = {},
): Promise<OpenedEngineModel> {
  try {
    const tokenizer = await engine.tokenizer();
    const stopIds = new Set(await engine.stopIds());
    const batch = engine.openBatch(parallel);
    return {
      engine,
      digest: engine.digest,
      contextLength: Math.min(context, engine.contextLength),
      parallel,
      tokenizer,
      encode: (prompt, encoding) => engine.encode(prompt, encoding),
      check: (prompt, what) => engine.check(prompt, what),
      generate: async ({ seed, choice, ...request }) => {
        const random = Random.of(seed, `answer ${choice}`);
        return (await batch.generate({ ...request, stopIds, random })).finish;
      },
      close: () => engine.close(),
    };
  } catch (error) {
    await engine.close();
    throw error;
  }
}
