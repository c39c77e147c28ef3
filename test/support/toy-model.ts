// A language model small enough to compute by hand: the next token depends on the one before alone. It stands behind
// the fake servers and the fake engine, and tells the tests what they should have answered.

/** Pieces are taken longest first; what is in none of them is a token per character. */
const PIECES = ["<s>", "<end>", " A", " B", " C", " D", " EE", " FF", "Answer:", "\n", "Question", ":", " is", " the"];
const CHARACTERS = [..."abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,?!=+-"];
export const VOCABULARY = [...PIECES, ...CHARACTERS];
export const BOS = 0;
export const END = 1;

const longestFirst = VOCABULARY.map((piece, id) => ({ piece, id }))
  .slice(1)
  .sort((a, b) => b.piece.length - a.piece.length);

export function encode(text: string, specialTokens = false): number[] {
  const ids = specialTokens ? [BOS] : [];
  for (let at = 0; at < text.length; ) {
    const found = longestFirst.find(({ piece }) => text.startsWith(piece, at));
    if (!found) throw new Error(`the toy model has no token for ${JSON.stringify(text[at])}`);
    ids.push(found.id);
    at += found.piece.length;
  }
  return ids;
}

export function decode(ids: readonly number[]): string {
  return ids.map((id) => (id <= END ? "" : (VOCABULARY[id] ?? ""))).join("");
}

/** Natural log-probabilities of all tokens after one; no two alike. */
export function nextLogprobs(previous: number): number[] {
  const logits = VOCABULARY.map(
    (_, id) => ((previous * 31 + id * 17 + previous * id * 7) % 101) / 20 + id / 10_000 - (id === END ? 0.3 : 0),
  );
  const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit), 0));
  return logits.map((logit) => logit - total);
}

/** Ids and log-probabilities after a token, likeliest first. */
export function topNext(previous: number, count: number): { id: number; logprob: number }[] {
  const all = nextLogprobs(previous).map((logprob, id) => ({ id, logprob }));
  return all.sort((a, b) => b.logprob - a.logprob).slice(0, count);
}

export function continuationLogprobs(context: readonly number[], continuation: readonly number[]): number[] {
  const all = [...context, ...continuation];
  return continuation.map((id, i) => nextLogprobs(all[context.length + i - 1] ?? BOS)[id] ?? Number.NaN);
}

/** Greedy, up to the end token, a stop text or the limit. */
export function generate(
  prompt: readonly number[],
  maxNewTokens: number,
  stop: readonly string[],
): { ids: number[]; text: string; finish: "stop" | "length"; ended?: true } {
  const ids: number[] = [];
  let previous = prompt.at(-1) ?? BOS;
  while (ids.length < maxNewTokens) {
    previous = topNext(previous, 1)[0]?.id ?? END;
    if (previous === END) return { ids, text: decode(ids), finish: "stop", ended: true };
    ids.push(previous);
    const text = decode(ids);
    const at = stop.map((one) => text.indexOf(one)).filter((index) => index >= 0);
    if (at.length > 0) return { ids, text: text.slice(0, Math.min(...at)), finish: "stop" };
  }
  return { ids, text: decode(ids), finish: "length" };
}

export const toyTokenizer = {
  bos: BOS as number | undefined,
  eos: END as number | undefined,
  encode: (text: string, options: { specialTokens?: boolean } = {}) => encode(text, options.specialTokens),
  tokenOf: (id: number) => VOCABULARY[id],
};
