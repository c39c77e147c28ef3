// What is asked of llama.cpp after a token, and scores from what it answers.

import { type AnswerGrammar, type BatchRequest, isShort } from "../../engine/index.js";
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
export function drawing(request: BatchRequest, grammar: AnswerGrammar): DrawOptions {
  return { ...samplerOf(request), grammarEvaluationState: grammar.begin(), yieldEogToken: true };
}

function samplerOf({ temperature = 0, topK = 0, topP = 1, random }: BatchRequest): SamplerOptions {
  return { temperature, minP: 0, topK, topP, seed: Math.floor(random.float() * 2 ** 32) };
}

/** What is needed to draw the next token of an answer that has `count`, and its scores. */
export function nextRequest(request: BatchRequest, count: number): NextRequest {
  const { temperature = 0, topK, topP = 1, top, stopIds } = request;
  const dropped = isShort(request, count) ? stopIds.size : 0;
  if (temperature === 0 && dropped === 0 && top === undefined) return GREEDY;
  // Weights that are not numbers show in the first logits, of which top-k and top-p would hide them.
  if (count === 0 || dropped > 0 || top !== undefined) {
    const read = temperature === 0 ? 1 : topK;
    if (read === undefined) return { ...GREEDY, logits: true };
    return scoring([], Math.max(read + dropped, top ?? 0));
  }
  if (topP === 1 || temperature === 1) return { token: true, totalLogitWeight: true, options: samplerOf(request) };
  // Top-p is of the probabilities at the temperature, but llama.cpp applies it before.
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
