// What the server needs of a model, whatever runs it.

import { Random } from "../core/index.js";
import type { BatchRequest, ChatMessage, Engine, TokenAnswer, Tokenizer } from "../engine/index.js";

type Given = "temperature" | "topP" | "onToken" | "onEnd" | "signal";

export interface AnswerRequest
  extends Omit<BatchRequest, "stopIds" | "random" | Given>,
    Readonly<{ [K in Given]: NonNullable<BatchRequest[K]> }> {
  /** Chooses the samples, with `choice`. */
  readonly seed: number;
  /** Number of this answer among those to its prompt. */
  readonly choice: number;
}

/** A model that answers several requests at once. */
export interface ServedModel {
  /** Changes with the model. */
  readonly digest: string;
  /** Most tokens of prompt and answer together. */
  readonly contextLength: number;
  /** Answers computed at once. */
  readonly parallel: number;
  readonly tokenizer: Pick<Tokenizer, "encode" | "decode" | "tokenOf" | "incremental">;
  /**
   * The tokens of a text, or of a conversation through the model's chat template.
   * @param options.bos whether a text begins with the tokenizer's BOS; default true
   * @throws LayergraftError code `usage` or `template` if the model has no chat template or it refuses the messages
   */
  encode(prompt: string | readonly ChatMessage[], options?: { readonly bos?: boolean }): Promise<number[]>;
  /** @throws LayergraftError code `usage` if tokens are missing or are not tokens of the model */
  check(prompt: readonly number[], what: string): void;
  /**
   * Computes an answer. The same request has the same answer, whatever else is computed at the time.
   * @throws CancelledError if the signal fires
   */
  generate(request: AnswerRequest): Promise<TokenAnswer["finish"]>;
  close(): Promise<void>;
}

export interface EngineModelOptions {
  /** Answers computed at once; default 8. */
  readonly parallel?: number | undefined;
  /** Most tokens of prompt and answer together; default the model's context, at most 8192. */
  readonly context?: number | undefined;
}

export interface OpenedEngineModel extends ServedModel {
  readonly engine: Pick<Engine, "name" | "family" | "notes">;
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
