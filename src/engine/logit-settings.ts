// Changes to logits before a token is chosen: penalties, bans and forced tokens, in the order of transformers' processors
// (generation/utils.py, _get_logits_processor), with OpenAI's penalties and biases as vLLM has them.

export interface LogitSettings {
  /** Added to the logits of tokens. Default: none. */
  readonly logitBias?: ReadonlyMap<number, number> | undefined;
  /** Divides positive logits of all tokens in prompt and answer, and multiplies negative ones (arXiv 1909.05858). Default: 1. */
  readonly repetitionPenalty?: number | undefined;
  /** Subtracted from the logit of a token for each time that the answer has it. Default: 0. */
  readonly frequencyPenalty?: number | undefined;
  /** Subtracted from the logits of all tokens that the answer has. Default: 0. */
  readonly presencePenalty?: number | undefined;
  /** No sequence of so many tokens of prompt and answer comes twice. Default: any may. */
  readonly noRepeatNgramSize?: number | undefined;
  /** Sequences of tokens that are never completed. Default: none. */
  readonly badWordsIds?: readonly (readonly number[])[] | undefined;
  /** Least tokens of prompt and answer together: before, nothing ends an answer. Default: 0. */
  readonly minLength?: number | undefined;
  /** The second token of a text whose prompt is one token. Default: none. */
  readonly forcedBosId?: number | undefined;
  /** The last token of an answer that reaches its length, one of these. Default: none. */
  readonly forcedEosIds?: readonly number[] | undefined;
  /** Tokens that are never chosen. Default: none. */
  readonly suppressTokens?: readonly number[] | undefined;
  /** Tokens that no answer begins with. Default: none. */
  readonly beginSuppressTokens?: readonly number[] | undefined;
}

/** What edits of logits depend on. */
export interface EditedRequest {
  readonly prompt: readonly number[];
  readonly maxNewTokens: number;
  /** Least new tokens: before, tokens of `stopIds` are not drawn. Default: 0. */
  readonly minNewTokens?: number | undefined;
  /** Tokens that end the answer. */
  readonly stopIds: ReadonlySet<number>;
  /** Changes to logits before a token is chosen. Default: none. */
  readonly logits?: LogitSettings | undefined;
}

/** New logits of some tokens. */
export interface LogitEdits {
  readonly logits: ReadonlyMap<number, number>;
  /** Whether no other token can be chosen. */
  readonly isForced: boolean;
}

/** Whether an answer of so many tokens may not end yet. */
function isShort({ prompt, minNewTokens = 0, logits }: EditedRequest, count: number): boolean {
  return count < minNewTokens || prompt.length + count < (logits?.minLength ?? 0);
}

/** Whether logits after an answer of so many tokens may be edited. */
export function isEdited(request: EditedRequest, count: number): boolean {
  const { minLength, ...others } = request.logits ?? {};
  return isShort(request, count) || Object.values(others).some((value) => value !== undefined);
}

/**
 * The logits that settings change, in float32. The result depends on nothing but the logits of the tokens in it.
 * @param ids the answer so far
 * @param logitOf logit of a token; undefined where the model has no such token
 */
export function editLogits(
  request: EditedRequest,
  ids: readonly number[],
  logitOf: (id: number) => number | undefined,
): LogitEdits {
  const { prompt, maxNewTokens, stopIds, logits: settings = {} } = request;
  const { logitBias = new Map(), repetitionPenalty = 1, frequencyPenalty = 0, presencePenalty = 0 } = settings;
  const { forcedBosId, forcedEosIds, suppressTokens = [], beginSuppressTokens = [] } = settings;
  const text = [...prompt, ...ids];
  const edits = new Map<number, number>();
  const edit = (id: number, change: (logit: number) => number): void => {
    const logit = edits.get(id) ?? logitOf(id);
    if (logit !== undefined) edits.set(id, Math.fround(change(logit)));
  };
  const ban = (banned: Iterable<number>): void => {
    for (const id of banned) edit(id, () => Number.NEGATIVE_INFINITY);
  };
  for (const [id, bias] of logitBias) edit(id, (logit) => logit + Math.fround(bias));
  if (repetitionPenalty !== 1) {
    const penalty = Math.fround(repetitionPenalty);
    for (const id of new Set(text)) edit(id, (logit) => (logit < 0 ? logit * penalty : logit / penalty));
  }
  if (frequencyPenalty !== 0 || presencePenalty !== 0) {
    const counts = new Map<number, number>();
    for (const id of ids) counts.set(id, (counts.get(id) ?? 0) + 1);
    for (const [id, count] of counts) {
      const less = Math.fround(Math.fround(frequencyPenalty) * count);
      edit(id, (logit) => Math.fround(logit - less) - Math.fround(presencePenalty));
    }
  }
  ban(repeated(text, settings.noRepeatNgramSize ?? 0));
  for (const words of settings.badWordsIds ?? []) {
    // What ends an answer is not a bad word.
    if (words.length === 1 && stopIds.has(words[0] as number)) continue;
    if (endsWith(text, words.slice(0, -1))) ban(words.slice(-1));
  }
  if (isShort(request, ids.length)) ban(stopIds);
  let isForced = false;
  const force = (forced: readonly number[]): void => {
    isForced = true;
    edits.clear();
    for (const id of forced) edit(id, () => 0);
  };
  if (forcedBosId !== undefined && text.length === 1) force([forcedBosId]);
  if (forcedEosIds && ids.length === maxNewTokens - 1) force(forcedEosIds);
  ban(isForced ? suppressTokens.filter((id) => edits.has(id)) : suppressTokens);
  const begin = forcedBosId !== undefined && prompt.length === 1 ? 1 : 0;
  if (ids.length === begin) ban(isForced ? beginSuppressTokens.filter((id) => edits.has(id)) : beginSuppressTokens);
  return { logits: edits, isForced };
}

/** Logits with edits. */
export function withEdits(row: Float32Array, { logits, isForced }: LogitEdits): Float32Array {
  const edited = isForced ? new Float32Array(row.length).fill(Number.NEGATIVE_INFINITY) : row.slice();
  for (const [id, logit] of logits) edited[id] = logit;
  return edited;
}

/** Tokens that would complete a sequence of `size` tokens that a text has already. */
function* repeated(text: readonly number[], size: number): Generator<number, void> {
  if (size === 0 || text.length + 1 < size) return;
  const end = text.slice(text.length - (size - 1));
  for (let at = 0; at + size <= text.length; at++) {
    if (end.every((id, i) => text[at + i] === id)) yield text[at + size - 1] as number;
  }
}

function endsWith(text: readonly number[], end: readonly number[]): boolean {
  const from = text.length - end.length;
  return from >= 0 && end.every((id, i) => text[from + i] === id);
}
