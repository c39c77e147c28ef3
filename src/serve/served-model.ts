// What the server needs of a model, whatever runs it.

import type { AnswerGrammar, BatchRequest, Engine, LogitSettings, TokenAnswer } from "../engine/index.js";
import { Random } from "../kit/index.js";
import type { ChatTemplate, Tokenizer } from "../text/index.js";

/** Changes to logits that a request asks for; the model's own apply where it asks for none. */
type Asked = Pick<LogitSettings, "logitBias" | "repetitionPenalty" | "frequencyPenalty" | "presencePenalty">;
type Given = "temperature" | "topP" | "onToken" | "onEnd" | "signal";

export interface AnswerRequest
  extends Omit<BatchRequest, "stopIds" | "random" | "logits" | Given>,
    Readonly<{ [K in Given]: NonNullable<BatchRequest[K]> }> {
  /** Tokens that end the answer, besides the model's own. */
  readonly stopIds: readonly number[];
  /** Whether the model's own end tokens do not end the answer. */
  readonly ignoresEnd: boolean;
  readonly logits: Asked;
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
  /** @throws LayergraftError code `usage` if the model has no chat template */
  requireTemplate(): Promise<ChatTemplate>;
  /** The tokens of a text. @param options.bos whether it begins with the tokenizer's BOS; default true */
  encode(text: string, options?: { readonly bos?: boolean }): Promise<number[]>;
  /** @throws LayergraftError code `usage` if tokens are missing or are not tokens of the model */
  check(prompt: readonly number[], what: string): void;
  /** The grammar of answers that fit a JSON Schema. @throws LayergraftError code `usage` if there is none for it */
  grammar(schema: Readonly<Record<string, unknown>>): Promise<AnswerGrammar>;
  /**
   * Computes an answer. The same request has the same answer, whatever else is computed at the time.
   * @throws CancelledError if the signal fires
   */
  generate(request: AnswerRequest): Promise<TokenAnswer["finish"]>;
  close(): Promise<void>;
}

export interface EngineModelOptions {
  /** Answers of a model computed at once. Default: 8. */
  readonly parallel?: number | undefined;
  /** Maximum tokens of prompt and answer together. Default: the model's context, at most 8192. */
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
    const ends = await engine.stopIds();
    const batch = engine.openBatch(parallel);
    return {
      engine,
      digest: engine.digest,
      contextLength: Math.min(context, engine.contextLength),
      parallel,
      tokenizer,
      requireTemplate: () => engine.requireTemplate(),
      encode: (text, encoding) => engine.encode(text, encoding),
      grammar: (schema) => engine.grammar(schema),
      check: (prompt, what) => engine.check(prompt, what),
      generate: async ({ seed, choice, stopIds: more, ignoresEnd, logits: asked, ...request }) => {
        const random = Random.of(seed, `answer ${choice}`);
        const stopIds = new Set([...(ignoresEnd ? [] : ends), ...more]);
        const given = Object.entries(asked).filter(([, value]) => value !== undefined);
        const logits = { ...engine.generationConfig.logits, ...Object.fromEntries(given) };
        const least = Math.max(request.minNewTokens ?? 0, engine.generationConfig.minNewTokens ?? 0);
        const minNewTokens = Math.min(least, request.maxNewTokens);
        return (await batch.generate({ ...request, logits, minNewTokens, stopIds, random })).finish;
      },
      close: () => engine.close(),
    };
  } catch (error) {
    await engine.close();
    throw error;
  }
}
