// A GGUF file in llama.cpp as the model of an engine.

import { availableParallelism } from "node:os";
import {
  answerAll,
  answerSchema,
  contextKeys,
  type ScoreRequest,
  type Scores,
  sharedLength,
  type TokenModel,
  together,
} from "../../engine/index.js";
import { type MemoryEstimate, type MemoryUse, requireMemory } from "../../engine/memory/index.js";
import { longestOf } from "../../kit/arrays/index.js";
import { groupBy, LayergraftError, messageOf, usageError } from "../../kit/index.js";
import type { Llama, LlamaContext, LlamaFile, LlamaLibrary } from "./library.js";
import { READ_TOKENS, Sequences } from "./sequences.js";

export interface LlamaModelOptions {
  readonly library: LlamaLibrary;
  readonly llama: Llama;
  readonly file: LlamaFile;
  /** Number of tokens. */
  readonly vocabularySize: number;
  /** Default: all cores. */
  readonly threads?: number | undefined;
  /** Most tokens of prompt and answer together; default the model's. */
  readonly context?: number | undefined;
  readonly notes: readonly string[];
  /** What the model takes with texts. */
  readonly estimate: (use: MemoryUse) => MemoryEstimate;
}

const BATCH = 8;
/** node-llama-cpp's grammars of schemas end with it. */
const GRAMMAR_END = "\n\n\n\n";

export function llamaModel(options: LlamaModelOptions): TokenModel {
  const { library, llama, file, vocabularySize, notes, threads = availableParallelism() } = options;
  const contextLength = Math.min(options.context ?? Number.POSITIVE_INFINITY, file.trainContextSize);
  const open = (rows: number) =>
    new Sequences({
      rows,
      vocabularySize,
      contextLength,
      open: (length) => {
        const { weights, program, ...estimate } = options.estimate({ texts: rows, tokens: length });
        const room = { ...estimate, weights: 0, program: 0, total: estimate.total - weights - program };
        const advice = () => ({
          text: `Use ${rows > 1 ? "a smaller batch, " : ""}fewer new tokens or a smaller context.`,
        });
        requireMemory({ what: `Computing ${describeTexts(rows, length)}`, estimate: room, advice });
        return openContext(file, rows, length, threads);
      },
    });
  let kept: Sequences | undefined;
  const batches: Sequences[] = [];
  /** Sequences for texts of up to `length` tokens. They are used by one call at a time. */
  const sequencesFor = async (rows: number, length: number): Promise<Sequences> => {
    if (!kept || kept.rows < rows) {
      await kept?.close();
      kept = open(rows);
    }
    kept.reserve(length);
    return kept;
  };
  let turn: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
    const result = turn.then(work);
    turn = result.catch(() => undefined);
    return result;
  };
  const score: TokenModel["score"] = (requests, { batch = BATCH, signal, onProgress, onDone, isKnown }) =>
    inTurn(async () => {
      const scores: Scores[] = requests.map(() => ({ logprobs: [], greedy: [] }));
      const groups = groupsToRead(requests).filter((group) => !isKnown || !group.every(isKnown));
      if (groups.length === 0) return scores;
      const texts = groups.flat().map((index) => requests[index]?.tokens ?? []);
      const rows = Math.min(batch, groups.length, rowsToRead(texts));
      const sequences = await sequencesFor(rows, longestOf(texts));
      let done = requests.length - texts.length;
      await together(signal, (either) =>
        groups.map(async (group) => {
          const found = await sequences.score(
            group.map((index) => requests[index] as ScoreRequest),
            either,
          );
          for (const [i, index] of group.entries()) {
            scores[index] = found[i] as Scores;
            onDone?.(index, found[i] as Scores);
          }
          done += group.length;
          onProgress?.(done, requests.length);
        }),
      );
      return scores;
    });
  return {
    backend: "llama",
    program: `llama.cpp ${llama.llamaCppRelease.release}${llama.gpu === false ? "" : ` with ${llama.gpu}`}`,
    family: file.architecture,
    vocabularySize,
    contextLength,
    notes,
    generate: (prompts, settings) =>
      inTurn(async () => {
        const rows = Math.min(settings.batch ?? BATCH, prompts.length);
        const sequences = await sequencesFor(rows, longestOf(prompts) + settings.maxNewTokens);
        return answerAll(sequences, prompts, settings);
      }),
    score,
    openBatch: (rows) => {
      const batch = open(rows);
      batches.push(batch);
      return batch;
    },
    grammar: async (schema) => {
      const read = answerSchema(schema);
      const grammar = await schemaGrammar(llama, read).catch((error: unknown) => {
        const reason = messageOf(error);
        throw usageError(`llama.cpp cannot limit answers to this schema: ${reason}. Simplify it.`, {}, error);
      });
      return { end: GRAMMAR_END, begin: () => new library.LlamaGrammarEvaluationState({ model: file, grammar }) };
    },
    close: async () => {
      await turn;
      for (const sequences of [...batches, ...(kept ? [kept] : [])]) await sequences.close();
      await file.dispose();
    },
  };
}

/** Texts with a common context side by side, where the context is longer than what follows it. */
function groupsToRead(requests: readonly ScoreRequest[]): number[][] {
  const keys = contextKeys(requests);
  const isShort = ({ tokens, from }: ScoreRequest) => tokens.length - from <= from;
  const groups = groupBy(requests.keys(), (index) =>
    isShort(requests[index] as ScoreRequest) ? keys[index] : `text ${index}`,
  );
  return [...groups.values()];
}

/**
 * Sequences for texts that are read, of which one fills llama.cpp's batch if the texts are long. Each reads what all texts
 * begin with, so more would read it more often.
 */
function rowsToRead(texts: readonly (readonly number[])[]): number {
  const shared = sharedLength(texts);
  const own = texts.reduce((sum, { length }) => sum + length - shared, 0) / texts.length;
  return Math.ceil(READ_TOKENS / Math.max(1, own));
}

/** A grammar whose whole numbers have no exponents: node-llama-cpp's may end in e-8. */
async function schemaGrammar(llama: Llama, schema: object): Promise<object> {
  const { grammar } = await llama.createGrammarForJsonSchema(schema);
  const whole = 'integer-number-rule ::= "-"? ("0" | [1-9] [0-9]{0,15})';
  return llama.createGrammar({ grammar: grammar.replace(/^integer-number-rule ::= .*$/m, whole) });
}

function describeTexts(count: number, tokens: number): string {
  return `${count === 1 ? "a text" : `${count} texts at once`} of ${tokens} tokens`;
}

async function openContext(
  file: LlamaFile,
  sequences: number,
  contextSize: number,
  threads: number,
): Promise<LlamaContext> {
  try {
    return await file.createContext({
      // node-llama-cpp drops the beginning of a text that fills all of it.
      contextSize: contextSize + 1,
      sequences,
      threads,
      // Otherwise a text that is cut back lacks what the windows of some layers have dropped.
      swaFullCache: true,
      batchSize: READ_TOKENS * Math.min(sequences, 4),
    });
  } catch (error) {
    const message = messageOf(error);
    throw new LayergraftError(
      "memory",
      `llama.cpp has no memory for ${describeTexts(sequences, contextSize)}: ${message}. Use a smaller batch, fewer new tokens or a smaller context.`,
      {},
      error,
    );
  }
}
