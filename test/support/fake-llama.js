// A stand-in for node-llama-cpp: a model whose logits are a function of the text so far. It is JavaScript, as processes of
// the built package load it, too: NODE_LLAMA_CPP names this file.

import { readFileSync, writeFileSync } from "node:fs";

/**
 * @typedef {import("../../src/export/llama/library.js").Llama} Llama
 * @typedef {import("../../src/export/llama/library.js").LlamaContext} LlamaContext
 * @typedef {import("../../src/export/llama/library.js").LlamaFile} LlamaFile
 * @typedef {import("../../src/export/llama/library.js").LlamaLibrary} LlamaLibrary
 * @typedef {import("../../src/export/llama/library.js").LlamaSequence} LlamaSequence
 * @typedef {import("../../src/export/llama/library.js").NextResult} NextResult
 */

/** The value of NODE_LLAMA_CPP. */
export const FAKE_LLAMA = import.meta.filename;

export const PIECES = ["<s>", "</s>", ..."abcdefgh"];
const [BOS, EOS] = [0, 1];

/**
 * Logits after a text: of a size that sums distinguish, and different for every text.
 * @param {readonly number[]} text
 * @param {number} [size] number of tokens
 * @returns {number[]}
 */
export function logitsAfter(text, size = PIECES.length) {
  const seed = text.reduce((sum, token, i) => sum + (i + 1) * (token + 1) * 31, 0);
  return Array.from({ length: size }, (_, id) => (((seed + 7) * (id + 3) * 2654435761) % 1000) / 250);
}

/**
 * Natural log-probabilities after a text.
 * @param {readonly number[]} text
 * @param {number} [size] number of tokens
 * @returns {number[]}
 */
export function logprobsAfter(text, size) {
  const logits = logitsAfter(text, size);
  const mass = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
  return logits.map((logit) => logit - mass);
}

/**
 * What was asked of the fake.
 * @typedef {object} FakeRecord
 * @property {number[]} evaluated number of tokens of each evaluation
 * @property {number[]} sequences the sequence of each evaluation, by the order in which they were opened
 * @property {{ sequences: number, contextSize: number, threads: number, swaFullCache: boolean }[]} contexts
 * @property {number} open contexts and files that are not closed
 * @property {object[]} schemas those that grammars were made for
 * @property {import("../../src/export/llama/library.js").DrawOptions[]} drawn how answers with a grammar were drawn
 * @property {import("../../src/export/llama/library.js").SamplerOptions[]} samplers how other tokens were
 */

/**
 * @typedef {object} FakeOptions
 * @property {(text: readonly number[]) => number[]} [logits]
 * @property {string} [template]
 * @property {readonly number[]} [allowed] tokens that a grammar allows, in their order
 * @property {number} [trainContextSize]
 * @property {() => void | Promise<void>} [onEvaluate]
 * @property {string} [refuseFile]
 * @property {string} [refuseContext]
 */

/**
 * @param {FakeOptions} [options]
 * @returns {{ load: () => Promise<LlamaLibrary>, record: FakeRecord }}
 */
export function fakeLlama(options = {}) {
  /** @type {FakeRecord} */
  const record = { evaluated: [], sequences: [], contexts: [], open: 0, schemas: [], drawn: [], samplers: [] };
  /** @type {Llama} */
  const llama = {
    gpu: false,
    llamaCppRelease: { release: "b1" },
    createGrammarForJsonSchema: async (schema) => {
      record.schemas.push(schema);
      return {
        grammar: 'root ::= integer-number-rule\ninteger-number-rule ::= [0-9]+ ([eE] "-" [0-9]+)?\nother ::= "x"',
      };
    },
    createGrammar: async (grammar) => grammar,
    loadModel: async ({ modelPath }) => {
      if (options.refuseFile) throw new Error(options.refuseFile);
      record.open++;
      return fakeFile(piecesOf(modelPath), options, record);
    },
  };
  return { record, load: async () => ({ getLlama: async () => llama, LlamaGrammarEvaluationState }) };
}

class LlamaGrammarEvaluationState {
  /** @param {{ grammar: object }} options */
  constructor({ grammar }) {
    this.grammar = grammar;
  }
}

const { load } = fakeLlama();
export const { getLlama } = await load();

/**
 * Those of the stand-in; of an exported model, as many as the file has.
 * @param {string} path
 */
function piecesOf(path) {
  const bytes = readFileSync(path);
  // The key, u32 for array, u32 for string, and the count.
  const key = "tokenizer.ggml.tokens";
  const count = Number(bytes.readBigUInt64LE(bytes.indexOf(key) + key.length + 8));
  return Array.from({ length: count }, (_, id) => PIECES[id] ?? `piece ${id}`);
}

/**
 * @param {readonly string[]} pieces
 * @param {FakeOptions} options
 * @param {FakeRecord} record
 * @returns {LlamaFile}
 */
function fakeFile(pieces, options, record) {
  return {
    trainContextSize: options.trainContextSize ?? 4096,
    architecture: "fake",
    fileInfo: { metadata: { tokenizer: { chat_template: options.template, ggml: { tokens: pieces } } } },
    tokens: {
      ...{ bos: BOS, eos: EOS, bosString: "<s>", eosString: "</s>" },
      ...{ shouldPrependBosToken: true, shouldAppendEosToken: false },
    },
    tokenize: (text) => [...text].map((piece) => pieces.indexOf(piece)),
    detokenize: (ids, special) => ids.map((id) => (id > EOS || special ? pieces[id] : "")).join(""),
    isEogToken: (id) => id === EOS,
    createContext: async ({ sequences, contextSize, threads, swaFullCache }) => {
      if (options.refuseContext) throw new Error(options.refuseContext);
      record.contexts.push({ sequences, contextSize, threads, swaFullCache });
      record.open++;
      let left = sequences;
      return {
        contextSize,
        getSequence: () => {
          if (left === 0) throw new Error("no sequence is left");
          return fakeSequence(sequences - left--, contextSize, pieces.length, options, record);
        },
        dispose: async () => void record.open--,
      };
    },
    dispose: async () => void record.open--,
  };
}

/**
 * @param {number} number
 * @param {number} contextSize
 * @param {number} vocabularySize
 * @param {FakeOptions} options
 * @param {FakeRecord} record
 * @returns {LlamaSequence}
 */
function fakeSequence(number, contextSize, vocabularySize, options, record) {
  const logitsOf = options.logits ?? ((text) => logitsAfter(text, vocabularySize));
  /** @type {number[]} */
  const state = [];
  /** @param {readonly number[]} tokens */
  const common = (tokens) => {
    let at = 0;
    while (at < tokens.length && state[at] === tokens[at]) at++;
    return at;
  };
  return {
    get nextTokenIndex() {
      return state.length;
    },
    compareContextTokens: (tokens) => ({ firstDifferentIndex: common(tokens) }),
    adaptStateToTokens: async (tokens) => {
      state.length = common(tokens);
    },
    takeCheckpoint: async () => {},
    clearHistory: async () => {
      state.length = 0;
    },
    evaluate: async function* (input, drawing) {
      record.drawn.push(drawing);
      for (let tokens = input; !drawing.grammarEvaluationState; ) {
        record.evaluated.push(tokens.length);
        record.sequences.push(number);
        await options.onEvaluate?.();
        // The real one drops the beginning here.
        if (state.push(...tokens) >= contextSize) throw new Error("the context is full");
        const { penalty = 1, punishTokens = () => [] } = drawing.repeatPenalty ?? {};
        const punished = punishTokens();
        const less = (/** @type {number} */ logit) => (logit < 0 ? logit * penalty : logit / penalty);
        const logits = logitsOf(state).map((logit, id) => Math.fround(punished.includes(id) ? less(logit) : logit));
        const token = logits.reduce((most, logit, id, all) => (logit > Number(all[most]) ? id : most), 0);
        yield token;
        tokens = [token];
      }
      state.push(...input);
      for (const token of options.allowed ?? []) {
        await options.onEvaluate?.();
        yield token;
        state.push(token);
      }
    },
    controlledEvaluate: async (input) => {
      record.evaluated.push(input.length);
      record.sequences.push(number);
      await options.onEvaluate?.();
      return input.map((item) => {
        const [token, wanted] = typeof item === "number" ? [item, undefined] : item;
        // The real one drops the beginning here.
        if (state.push(token) >= contextSize) throw new Error("the context is full");
        if (!wanted) return undefined;
        const logits = logitsOf(state);
        const numbers = logits.filter((logit) => !Number.isNaN(logit));
        const most = Math.max(...numbers);
        const selected = logits.indexOf(most);
        const order = [...logits.keys()].sort((a, b) => Number(logits[b]) - Number(logits[a]));
        const { logits: filter, options: sampler } = wanted.generateNext;
        if (sampler) record.samplers.push(sampler);
        // As in llama.cpp, what top-k drops is in no sum.
        const kept = order.slice(0, sampler?.topK || order.length);
        const ids =
          filter === true
            ? kept
            : typeof filter === "object"
              ? [
                  ...order.slice(0, filter.filter.includeTop ?? 0),
                  ...filter.filter.tokens,
                  ...(filter.filter.includeSelected ? [selected] : []),
                ]
              : [];
        return {
          next: {
            token: sampler && sampler.temperature > 0 ? Math.floor((sampler.seed / 2 ** 32) * logits.length) : selected,
            totalLogitWeight: kept.reduce((sum, id) => sum + Math.exp(Number(logits[id]) - most), 0),
            ...(filter && { logits: new Map(ids.map((id) => [id, Number(logits[id])])) }),
          },
        };
      });
    },
  };
}

/**
 * Writes a GGUF file of the tokens and one number.
 * @param {string} path
 * @param {Record<string, number>} [floats] further metadata
 */
export function writeStandIn(path, floats = {}) {
  /** @param {number[]} values */
  const u32 = (...values) => Buffer.from(Uint32Array.from(values).buffer);
  /** @param {number[]} values */
  const u64 = (...values) => Buffer.from(BigUint64Array.from(values, BigInt).buffer);
  /** @param {string} text */
  const string = (text) => Buffer.concat([u64(text.length), Buffer.from(text)]);
  const f32 = Object.entries(floats).map(([key, value]) => [
    string(key),
    u32(6),
    Buffer.from(Float32Array.of(value).buffer),
  ]);
  // Version 3, one tensor, two keys: a string (8), and an array (9) of strings. Then floats (6).
  const header = [
    Buffer.from("GGUF"),
    u32(3),
    u64(1, 2 + f32.length),
    string("general.architecture"),
    u32(8),
    string("llama"),
    string("tokenizer.ggml.tokens"),
    u32(9, 8),
    u64(PIECES.length),
  ];
  // One float32, 0 bytes after the header, which ends at a multiple of 32.
  const tensor = [string("output_norm.weight"), u32(1), u64(1), u32(0), u64(0)];
  const bytes = Buffer.concat([...header, ...PIECES.map(string), ...f32.flat(), ...tensor]);
  writeFileSync(path, Buffer.concat([bytes, Buffer.alloc((32 - (bytes.length % 32)) % 32), Buffer.alloc(4)]));
  return path;
}
