// A stand-in for node-llama-cpp: a model over a few tokens whose logits are a function of the text so far.

import { copyFileSync } from "node:fs";
import type { Llama, LlamaContext, LlamaFile, LlamaLibrary, LlamaSequence, NextResult } from "./library.js";

export const PIECES = ["<s>", "</s>", ..."abcdefgh"];
const [BOS, EOS] = [0, 1];

/** Logits after a text: of a size that sums distinguish, and different for every text. */
export function logitsAfter(text: readonly number[]): number[] {
  const seed = text.reduce((sum, token, i) => sum + (i + 1) * (token + 1) * 31, 0);
  return PIECES.map((_, id) => (((seed + 7) * (id + 3) * 2654435761) % 1000) / 250);
}

/** Natural log-probabilities after a text. */
export function logprobsAfter(text: readonly number[]): number[] {
  const logits = logitsAfter(text);
  const mass = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
  return logits.map((logit) => logit - mass);
}

/** What was asked of the fake. */
export interface FakeRecord {
  /** Number of tokens of each evaluation. */
  readonly evaluated: number[];
  /** The sequence of each evaluation, by the order in which they were opened. */
  readonly sequences: number[];
  readonly contexts: { readonly sequences: number; readonly contextSize: number; readonly threads: number }[];
  /** Contexts and files that are not closed. */
  open: number;
}

export interface FakeOptions {
  readonly logits?: (text: readonly number[]) => number[];
  readonly template?: string;
  readonly trainContextSize?: number;
  readonly onEvaluate?: () => void | Promise<void>;
  readonly refuseFile?: string;
  readonly refuseContext?: string;
}

export function fakeLlama(options: FakeOptions = {}): { load: () => Promise<LlamaLibrary>; record: FakeRecord } {
  const record: FakeRecord = { evaluated: [], sequences: [], contexts: [], open: 0 };
  const logitsOf = options.logits ?? logitsAfter;

  class Sequence implements LlamaSequence {
    #text: number[] = [];
    readonly #contextSize: number;
    readonly #number: number;
    constructor(contextSize: number, number: number) {
      this.#contextSize = contextSize;
      this.#number = number;
    }
    get nextTokenIndex(): number {
      return this.#text.length;
    }
    compareContextTokens(tokens: readonly number[]) {
      let at = 0;
      while (at < tokens.length && this.#text[at] === tokens[at]) at++;
      return { firstDifferentIndex: at };
    }
    async adaptStateToTokens(tokens: readonly number[]) {
      this.#text.length = this.compareContextTokens(tokens).firstDifferentIndex;
    }
    async clearHistory() {
      this.#text = [];
    }
    async controlledEvaluate(input: Parameters<LlamaSequence["controlledEvaluate"]>[0]) {
      record.evaluated.push(input.length);
      record.sequences.push(this.#number);
      await options.onEvaluate?.();
      return input.map((item): { next: NextResult } | undefined => {
        const [token, wanted] = typeof item === "number" ? [item, undefined] : item;
        // The real one drops the beginning here.
        if (this.#text.push(token) >= this.#contextSize) throw new Error("the context is full");
        if (!wanted) return undefined;
        const logits = logitsOf(this.#text);
        const most = Math.max(...logits);
        const selected = logits.indexOf(most);
        const order = [...logits.keys()].sort((a, b) => (logits[b] as number) - (logits[a] as number));
        const { logits: filter } = wanted.generateNext;
        const ids =
          filter === true
            ? order
            : typeof filter === "object"
              ? [
                  ...order.slice(0, filter.filter.includeTop ?? 0),
                  ...filter.filter.tokens,
                  ...(filter.filter.includeSelected ? [selected] : []),
                ]
              : [];
        return {
          next: {
            token: selected,
            totalLogitWeight: logits.reduce((sum, logit) => sum + Math.exp(logit - most), 0),
            logits: new Map(ids.map((id) => [id, logits[id] as number])),
          },
        };
      });
    }
  }

  const file: LlamaFile = {
    trainContextSize: options.trainContextSize ?? 4096,
    architecture: "fake",
    fileInfo: { metadata: { tokenizer: { chat_template: options.template, ggml: { tokens: PIECES } } } },
    tokens: {
      ...{ bos: BOS, eos: EOS, bosString: "<s>", eosString: "</s>" },
      ...{ shouldPrependBosToken: true, shouldAppendEosToken: false },
    },
    tokenize: (text) => [...text].map((piece) => PIECES.indexOf(piece)),
    detokenize: (ids, special) => ids.map((id) => (id > EOS || special ? PIECES[id] : "")).join(""),
    isEogToken: (id) => id === EOS,
    createContext: async ({ sequences, contextSize, threads }): Promise<LlamaContext> => {
      if (options.refuseContext) throw new Error(options.refuseContext);
      record.contexts.push({ sequences, contextSize, threads });
      record.open++;
      let left = sequences;
      return {
        contextSize,
        getSequence: () => {
          if (left === 0) throw new Error("no sequence is left");
          return new Sequence(contextSize, sequences - left--);
        },
        dispose: async () => void record.open--,
      };
    },
    dispose: async () => void record.open--,
  };
  const llama: Llama = {
    gpu: false,
    llamaCppRelease: { release: "b1" },
    loadModel: async () => {
      if (options.refuseFile) throw new Error(options.refuseFile);
      record.open++;
      return file;
    },
  };
  return { record, load: async () => ({ getLlama: async () => llama }) };
}

/** Writes something that stands for a GGUF file. */
export function writeStandIn(path: string): string {
  copyFileSync(import.meta.filename, path);
  return path;
}
