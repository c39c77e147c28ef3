// What is asked of llama.cpp after a token, and scores from what it answers.

import { type AnswerGrammar, type BatchRequest, editLogits, isEdited, type LogitEdits } from "../../engine/index.js";
import { usageError } from "../../kit/index.js";
import type { DrawOptions, NextRequest, NextResult, SamplerOptions } from "./library.js";

/** The largest logit is that of the token that greedy decoding selects. */
export const GREEDY = {
  token: true,
  totalLogitWeight: true,
  options: { temperature: 0, minP: 0, topK: 0, topP: 1, seed: 0 },
} as const;

/**
 * Greedy decoding without the sum over the vocabulary and without a sampler for each token, which cost as much as a layer or
 * more of a small model with many tokens.
 */
export const GREEDY_DRAW: DrawOptions = { ...GREEDY.options, yieldEogToken: true };
/** What greedy decoding draws where logits are not numbers: the first of all tokens, as none is larger. */
export const NAN_TOKEN = 0;

/** llama.cpp draws by grammars itself: node-llama-cpp gives no logits of the tokens that one allows. */
export function drawing(request: BatchRequest, grammar: AnswerGrammar, ids: readonly number[]): DrawOptions {
  const state = { grammarEvaluationState: grammar.begin(), yieldEogToken: true } as const;
  return { ...samplerOf(request), ...state, repeatPenalty: penaltiesOf(request, ids) };
}

/** Penalties as llama.cpp has them, which are all of the same tokens. */
function penaltiesOf({ prompt, logits = {} }: BatchRequest, ids: readonly number[]): DrawOptions["repeatPenalty"] {
  const { repetitionPenalty: penalty = 1, frequencyPenalty = 0, presencePenalty = 0 } = logits;
  const isOfAnswer = frequencyPenalty !== 0 || presencePenalty !== 0;
  if (penalty === 1 && !isOfAnswer) return undefined;
  if (penalty !== 1 && isOfAnswer) {
    const message = "llama.cpp cannot combine a repetition penalty with the others where answers are limited to JSON";
    throw usageError(`${message}. Set one of them to its neutral value.`);
  }
  const punishTokens = () => (isOfAnswer ? ids : [...new Set([...prompt, ...ids])]);
  return { punishTokens, penalty, frequencyPenalty, presencePenalty };
}

function samplerOf({ temperature = 0, topK = 0, topP = 1, minP = 0, random }: BatchRequest): SamplerOptions {
  return { temperature, minP, topK, topP, seed: Math.floor(random.float() * 2 ** 32) };
}

/** How llama.cpp draws a greedy answer with a repetition penalty, in half the time of reading logits; undefined where it cannot. */
export function penalisedDraw(request: BatchRequest, ids: readonly number[]): DrawOptions | undefined {
  const { temperature = 0, top, logits: { repetitionPenalty: _, ...others } = {} } = request;
  const isPenalised = isEdited(request, ids.length) && Object.values(others).every((value) => value === undefined);
  const isShort = isEdited({ ...request, logits: undefined }, ids.length);
  if (temperature !== 0 || top !== undefined || !isPenalised || isShort) return undefined;
  return { ...GREEDY_DRAW, repeatPenalty: penaltiesOf(request, ids) };
}

/** Edits of the logits of the next token, if there are any. */
export function editsOf(
  request: BatchRequest,
  ids: readonly number[],
  logitOf: (id: number) => number | undefined,
): LogitEdits | undefined {
  return isEdited(request, ids.length) ? editLogits(request, ids, logitOf) : undefined;
}

/** What is needed to draw the next token of an answer, and its scores. @param width tokens of the vocabulary */
export function nextRequest(request: BatchRequest, ids: readonly number[], width: number): NextRequest {
  const { temperature = 0, topK, topP = 1, minP = 0, top } = request;
  const edits = editsOf(request, ids, (id) => (id < width ? 0 : undefined));
  if (temperature === 0 && !edits && top === undefined) return GREEDY;
  // Weights that are not numbers show in the first logits, of which top-k and top-p would hide them.
  if (ids.length === 0 || edits || top !== undefined) {
    const read = temperature === 0 ? 1 : topK;
    if (read === undefined) return { ...GREEDY, logits: true };
    // The most likely of the tokens that are not edited are among so many.
    const edited = [...(edits?.logits.keys() ?? [])];
    return scoring(edited, Math.max(read + edited.length, top ?? 0));
  }
  if (minP === 0 && (topP === 1 || temperature === 1))
    return { token: true, totalLogitWeight: true, options: samplerOf(request) };
  // Top-p and min-p are of the probabilities at the temperature, but llama.cpp applies them before.
  return { ...GREEDY, logits: true, options: { ...GREEDY.options, temperature: 1, topK: topK ?? 0 } };
}

export function scoring(tokens: readonly number[], top = 0): NextRequest {
  return { ...GREEDY, logits: { filter: { tokens, includeSelected: true, includeTop: top } } };
}

/** Natural log-probabilities of a token and of the most likely ones; NaN if a logit is not a number. */
export function scoresOf(
  { token, logits = new Map(), totalLogitWeight = Number.NaN }: NextResult,
  id: number,
  count: number,
) {
  const most = logits.get(token ?? -1) ?? Number.NaN;
  const mass = most + Math.log(totalLogitWeight);
  const top = [...logits]
    .sort(([a, x], [b, y]) => y - x || a - b)
    .slice(0, count)
    .map(([other, logit]) => ({ id: other, logprob: logit - mass }));
  return { logprob: (logits.get(id) ?? Number.NaN) - mass, top };
}
