// Replies in the shapes of the OpenAI API, whole or as the chunks of a stream.

import { randomUUID } from "node:crypto";
import type { ChoicePart, ScoredToken, Usage } from "./answers.js";

export interface ReplyWriter {
  /** Chunks that a stream begins with. */
  opening(choices: number): object[];
  chunk(part: ChoicePart): object;
  /** The last chunk, if the usage is asked for. */
  usage(usage: Usage): object;
  /** The whole reply. @param parts of all choices, joined by choice */
  whole(parts: readonly ChoicePart[], usage: Usage): object;
}

export interface ReplyOptions {
  readonly model: string;
  readonly digest: string;
  /** Whether log-probabilities are asked for. */
  readonly hasScores: boolean;
}

export function completionReplies(options: ReplyOptions): ReplyWriter {
  const head = headOf("cmpl", options);
  const choice = ({ index, text, tokens, finish }: ChoicePart) => ({
    index,
    text,
    logprobs: options.hasScores ? completionScores(tokens) : null,
    finish_reason: finish,
  });
  const reply = (fields: object) => ({ ...head, object: "text_completion", ...fields });
  return {
    opening: () => [],
    chunk: (part) => reply({ choices: [choice(part)] }),
    usage: (usage) => reply({ choices: [], usage: usageOf(usage) }),
    whole: (parts, usage) => reply({ choices: parts.map(choice), usage: usageOf(usage) }),
  };
}

export function chatReplies(options: ReplyOptions): ReplyWriter {
  const head = headOf("chatcmpl", options);
  const scores = (tokens: readonly ScoredToken[]) =>
    options.hasScores ? { content: tokens.map(chatScore), refusal: null } : null;
  const chunk = (fields: object) => ({ ...head, object: "chat.completion.chunk", ...fields });
  return {
    opening: (choices) =>
      Array.from({ length: choices }, (_, index) =>
        chunk({
          choices: [{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }],
        }),
      ),
    chunk: ({ index, text, tokens, calls, finish }) => {
      const called = calls.length === 0 ? {} : { tool_calls: calls.map((call, i) => ({ index: i, ...call })) };
      const delta = { ...(text === "" ? {} : { content: text }), ...called };
      return chunk({ choices: [{ index, delta, logprobs: scores(tokens), finish_reason: reasonOf(finish, calls) }] });
    },
    usage: (usage) => chunk({ choices: [], usage: usageOf(usage) }),
    whole: (parts, usage) => ({
      ...head,
      object: "chat.completion",
      choices: parts.map(({ index, text, tokens, calls, finish }) => ({
        index,
        message: {
          role: "assistant",
          content: text === "" && calls.length > 0 ? null : text,
          refusal: null,
          ...(calls.length === 0 ? {} : { tool_calls: calls }),
        },
        logprobs: scores(tokens),
        finish_reason: reasonOf(finish, calls),
      })),
      usage: usageOf(usage),
    }),
  };
}

function reasonOf(finish: ChoicePart["finish"], calls: ChoicePart["calls"]): string | null {
  return finish === "stop" && calls.length > 0 ? "tool_calls" : finish;
}

function headOf(prefix: string, { model, digest }: ReplyOptions) {
  return {
    id: `${prefix}-${randomUUID().replaceAll("-", "")}`,
    created: Math.floor(Date.now() / 1000),
    model,
    system_fingerprint: `layergraft-${digest.slice(0, 12)}`,
  };
}

function usageOf({ promptTokens, newTokens }: Usage) {
  return { prompt_tokens: promptTokens, completion_tokens: newTokens, total_tokens: promptTokens + newTokens };
}

function completionScores(tokens: readonly ScoredToken[]) {
  return {
    tokens: tokens.map(({ text }) => text),
    token_logprobs: tokens.map(({ logprob }) => logprob),
    top_logprobs: tokens.map(({ text, logprob, top }) => {
      if (logprob === null) return null;
      // Several tokens may have the same text; the most likely one counts. The token itself is always listed.
      const entries = new Map([[text, logprob]]);
      for (const other of top.toReversed()) entries.set(other.text, other.logprob);
      return Object.fromEntries(entries);
    }),
    text_offset: tokens.map(({ offset }) => offset),
  };
}

function chatScore({ text, bytes, logprob, top }: ScoredToken) {
  const others = top.map((other) => ({ token: other.text, logprob: other.logprob, bytes: other.bytes }));
  return { token: text, logprob: logprob ?? 0, bytes, top_logprobs: others };
}
