// What a model takes in memory, from sizes alone, and the refusal of one that does not fit.

import type { DecoderSpec } from "../../families/index.js";
import type { CheckpointConfig } from "../../formats/checkpoint/index.js";
import { type ErrorWhere, LayergraftError } from "../../kit/index.js";
import { describeFree, type FreeMemory, freeMemory } from "../../kit/memory/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import type { Step } from "../../merge/index.js";
import { readSpec } from "../model/read-spec.js";
import { cacheBytes, FLOAT32, keptBytes, logitsTokens, PASS_TOKENS, weightSizes } from "../model/sizes.js";
import { chunksOfLogits } from "../runtime/chunks.js";

/** Bytes at the peak, by what they are for; 0 where there is none. */
export interface MemoryEstimate {
  /** Weights in the type that they have in memory, and what loading takes besides if that is more than texts take. */
  readonly weights: number;
  /** Gradients, moments and masters of what is trained. */
  readonly optimizer: number;
  /** Keys and values, and states of recurrences, of all texts. */
  readonly cache: number;
  readonly logits: number;
  /** What a pass computes between weights and logits; in training, what the way back reads. */
  readonly activations: number;
  /** Node.js and the libraries. */
  readonly program: number;
  /** All of these: what must be free for the run, and the program itself. */
  readonly total: number;
  /** Copies that are made only where memory is left, such as of a state that is written. Not part of the total. */
  readonly spare: number;
  /** Weights that stay in their files, of which a pass reads rows or experts. Not part of the total. */
  readonly mapped: number;
}

/** What a model's source says of its sizes. */
export interface SizedModel {
  /** Display name. */
  readonly name: string;
  readonly config: CheckpointConfig;
  readonly tensors: ReadonlyMap<string, Pick<Step, "dtype" | "shape">>;
}

/** What a model is run with. */
export interface MemoryUse {
  /** Texts computed at once. Default: 1. */
  readonly texts?: number | undefined;
  /** Tokens of each, prompt and answer together. Default: 512, or the model's if fewer. */
  readonly tokens?: number | undefined;
  /** Whether every token is scored; default false: the last one of each text. */
  readonly scored?: boolean | undefined;
  /** Whether weights are shared with other models. Default: false. */
  readonly shared?: boolean | undefined;
}

const DEFAULT_TOKENS = 512;
/** Node.js, ONNX Runtime and its arenas. Measured, docs/machines.md. */
const PROGRAM = 150e6;
/** A tokenizer's tables and the same in its file, for each token. */
const TOKENIZER = 300;
/** Copies of a pass's logits: raw, as log-probabilities, and on their way to JavaScript. */
const LOGITS_COPIES = 3;
/** Copies of a pass's scores of keys: raw, masked, as shares. */
const SCORES_COPIES = 3;

type Parts = Omit<MemoryEstimate, "total" | "spare" | "mapped">;

/** The sum of the parts; those that are missing are 0. */
export function summed(given: Partial<Parts>, { spare = 0, mapped = 0 } = {}): MemoryEstimate {
  const none: Parts = { weights: 0, optimizer: 0, cache: 0, logits: 0, activations: 0, program: 0 };
  const parts = { ...none, ...given };
  const total = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
  return { ...parts, total, spare, mapped };
}

/** Memory of the program with a model's tokenizer. */
export const programBytes = (spec: DecoderSpec, own = PROGRAM): number => own + TOKENIZER * spec.vocabularySize;

/** Tokens of a text where nothing says how many. */
export const tokensOf = ({ contextLength }: DecoderSpec, { tokens }: MemoryUse): number =>
  tokens ?? Math.min(DEFAULT_TOKENS, contextLength);

/**
 * What the embedded engine takes at its peak. Weights become float32 there, but for tables of which rows are read, and
 * for experts, which stay in their files.
 * @throws CheckpointError if the engine does not run the model
 */
export function estimateEngine(source: SizedModel, use: MemoryUse = {}) {
  const spec = readSpec(source.config, source.tensors.keys());
  const { floats, largest, mapped } = weightSizes(spec, source);
  const pass = passSizes(spec, use);
  // A matrix is packed for the processor while all others are there. That is over when the first pass begins.
  const packed = Math.max(0, largest - pass.cache - pass.logits - pass.activations);
  const weights = floats + (use.shared ? mapped : packed);
  return summed({ weights, ...pass, program: programBytes(spec) }, use.shared ? {} : { mapped });
}

/** What texts take besides weights and program. */
function passSizes(spec: DecoderSpec, use: MemoryUse) {
  const { texts = 1, scored = false } = use;
  const tokens = tokensOf(spec, use);
  const passed = Math.min(PASS_TOKENS, Math.max(texts * tokens, texts));
  const wanted = scored ? Math.min(passed, logitsTokens(spec.vocabularySize)) : texts;
  return {
    cache: cacheBytes(spec, texts, tokens),
    logits: LOGITS_COPIES * FLOAT32 * wanted * spec.vocabularySize,
    activations: passBytes(spec, passed, tokens),
  };
}

/** Bytes between weights and logits for so many new tokens, after up to so many. */
function passBytes(spec: DecoderSpec, passed: number, tokens: number): number {
  const scores = SCORES_COPIES * spec.heads * tokens;
  const widths = 8 * spec.hidden + 3 * spec.feedForward + 3 * spec.heads * spec.headDim;
  return FLOAT32 * passed * (scores + widths);
}

/** Products of inputs in the runtime, the same in JavaScript, and their sums. */
const STATISTIC_COPIES = 3;
/** Derivatives and their sums, of the weights that are measured together. */
const MEASURED_COPIES = 2;
/** Copies of the logits of a chunk whose loss is derived: log-probabilities, their shares, and the gradient. */
const DERIVED_LOGITS_COPIES = 3;

/** Measured in training: 1.0 without the head, 1.4 to 1.6 with it, docs/machines.md. */
const ARENA = { others: 1.2, head: 1.6 };

/**
 * What ONNX Runtime's arena holds for bytes that are in use where derivatives are computed: it takes memory in blocks of
 * growing size, and cannot join free parts of two. Few gaps are as large as the sum of the head's gradient.
 */
export const arenaBytes = (used: number, isHeadDerived: boolean): number =>
  Math.ceil((isHeadDerived ? ARENA.head : ARENA.others) * used);

/**
 * Bytes of what derivatives make of the logits of so many tokens, chunk by chunk.
 * @param isHeadDerived whether the head's gradient is summed over chunks: the sum before a chunk is there beside the next
 */
export function derivedLogitsBytes(spec: DecoderSpec, tokens: number, isHeadDerived: boolean): number {
  const { vocabularySize, hidden, logitSoftcap } = spec;
  const { rows } = chunksOfLogits({ shape: ["rows", vocabularySize] });
  const chunk = FLOAT32 * Math.min(tokens, rows) * vocabularySize;
  const head = isHeadDerived ? FLOAT32 * vocabularySize * hidden : 0;
  const before = tokens > rows ? head : 0;
  const copies = DERIVED_LOGITS_COPIES + (logitSoftcap === null ? 0 : 1);
  return before + Math.max(copies * chunk, (copies - 1) * chunk + head);
}

/**
 * What measuring the Fisher information takes at its peak, for texts one at a time.
 * @param together most elements of weights measured together
 * @param tokens those of a text
 */
export function estimateFisher(
  source: SizedModel,
  { together, tokens }: { readonly together: number; readonly tokens: number },
): MemoryEstimate {
  const spec = readSpec(source.config, source.tensors.keys());
  const { floats, mapped } = weightSizes(spec, source);
  const measured = Math.min(FLOAT32 * together, floats + mapped);
  return summed({
    weights: floats,
    optimizer: MEASURED_COPIES * measured,
    logits: arenaBytes(derivedLogitsBytes(spec, tokens, true), true),
    activations: arenaBytes(keptBytes(spec, tokens, tokens), true),
    program: programBytes(spec),
  });
}

/**
 * What measuring statistics of the inputs of a layer's matrices takes at its peak.
 * @param weights elements of each weight of the layer
 * @param statistics elements of each statistic
 * @param tokens those of all texts, whose states are kept between layers
 * @param together most tokens that are read at once
 * @param longest those of the longest text
 */
export function estimateInputs(
  spec: DecoderSpec,
  given: {
    readonly weights: readonly number[];
    readonly statistics: readonly number[];
    readonly tokens: number;
    readonly together: number;
    readonly longest: number;
  },
): MemoryEstimate {
  const { weights, statistics, tokens, together, longest } = given;
  const sum = (elements: readonly number[]) => FLOAT32 * elements.reduce((total, one) => total + one, 0);
  return summed({
    weights: sum(weights) + FLOAT32 * Math.max(0, ...weights),
    activations:
      STATISTIC_COPIES * sum(statistics) + 2 * FLOAT32 * tokens * spec.hidden + passBytes(spec, together, longest),
    program: programBytes(spec),
  });
}

/**
 * Refuses a model that does not fit into the engine.
 * @throws LayergraftError code `memory`
 */
export function requireEngineMemory(source: SizedModel, use: MemoryUse): void {
  const text = "Use the backend llama, which needs less, a smaller model, or more memory.";
  const advice = () => ({ text, option: "llama" });
  requireMemory({ what: `${source.name} in float32`, estimate: estimateEngine(source, use), advice });
}

/** What texts take beside an open model. */
export const estimateTexts = (spec: DecoderSpec, use: MemoryUse): MemoryEstimate => summed(passSizes(spec, use));

/**
 * Refuses texts for which an open model has no memory left.
 * @throws LayergraftError code `memory`
 */
export function requireRoom(spec: DecoderSpec, use: MemoryUse): void {
  const estimate = estimateTexts(spec, use);
  const { texts = 1, tokens } = use;
  const what = `Computing ${texts === 1 ? "a text" : `${texts} texts at once`} of ${tokens} tokens`;
  const advice = () => ({ text: `Use ${texts > 1 ? "a smaller batch, or " : ""}shorter texts or answers.` });
  requireMemory({ what, estimate, advice });
}

/**
 * How many texts, from the first one on, fit beside those under way.
 * @param running tokens of each at its longest, and those of the longest that are cached already
 * @param waiting tokens of each at its longest
 */
export function countFitting(
  spec: DecoderSpec,
  running: { readonly longest: readonly number[]; readonly cached: number },
  waiting: readonly number[],
): number {
  const free = freeMemory();
  const cached = cacheBytes(spec, running.longest.length, running.cached);
  for (let count = waiting.length; count > 0; count--) {
    const all = [...running.longest, ...waiting.slice(0, count)];
    const { total } = estimateTexts(spec, { texts: all.length, tokens: Math.max(...all) });
    if (total - cached <= free.bytes) return count;
  }
  return 0;
}

/** What to do where memory does not suffice: sentences, and the option that they are about. */
export interface MemoryAdvice extends Pick<ErrorWhere, "option" | "value"> {
  readonly text: string;
}

/** What would take the memory, and what to do where it does not fit. */
export interface MemoryNeed {
  /** Beginning of the sentence, such as "qwen in float32". */
  readonly what: string;
  readonly estimate: MemoryEstimate;
  /** The way that does fit. Default: none. */
  readonly advice?: ((free: FreeMemory) => MemoryAdvice) | undefined;
}

/** Whether what is estimated fits into memory that is free. */
export function fitsIn(estimate: MemoryEstimate, free: FreeMemory): boolean {
  return estimate.total <= free.bytes;
}

/** `about 1.97 GB of memory (weights 1.07 GB, logits 250 MB)`, without parts below a hundredth. */
export function describeNeed(estimate: MemoryEstimate): string {
  const { weights, optimizer, cache, logits, activations, program, total } = estimate;
  const parts = Object.entries({ weights, optimizer, cache, logits, activations, program })
    .filter(([, bytes]) => bytes >= total / 100)
    .map(([part, bytes]) => `${part} ${formatBytes(bytes)}`);
  return `about ${formatBytes(total)} of memory (${parts.join(", ")})`;
}

/**
 * Refuses what does not fit into the memory that is free.
 * @throws LayergraftError code `memory`, with the bytes needed in `where.expected` and those free in `where.actual`
 */
export function requireMemory({ what, estimate, advice }: MemoryNeed, free = freeMemory()): void {
  if (fitsIn(estimate, free)) return;
  const least = Math.ceil((1.1 * estimate.total) / 1e9);
  const { text, ...option } = advice?.(free) ?? {};
  const anyway = `LAYERGRAFT_MEMORY=${least}GB tries it anyway.`;
  // Last, so that the command line's flags follow it.
  const way = text === undefined ? anyway : `${anyway} ${text}`;
  throw new LayergraftError("memory", `${what} needs ${describeNeed(estimate)}, but ${describeFree(free)}. ${way}`, {
    expected: `${Math.round(estimate.total)}`,
    actual: `${Math.round(free.bytes)}`,
    ...option,
  });
}
