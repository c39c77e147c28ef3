// A model that answers with given texts. Each of its tokens is a character, and one ends an answer.

import type { TokenAnswer } from "../../src/engine/index.js";
import type { AnswerRequest, ServedModel } from "../../src/serve/served-model.js";
import { makeChatTemplate } from "../../src/text/index.js";

export interface Stub extends ServedModel {
  /** Texts of the prompts, in their order. */
  readonly prompts: string[];
  readonly requests: AnswerRequest[];
  /** Schemas that answers are limited to. */
  readonly schemas: object[];
}

const END = 0;
/** Characters that are special tokens, with their texts. */
const SPECIAL: Readonly<Record<string, string>> = { "\u0001": "[TOOL_CALLS]", "\u0002": "[ARGS]" };

/** @param answers in the order of the requests; \u0001 is [TOOL_CALLS], \u0002 is [ARGS] */
export function stubModel(
  template: string,
  answers: readonly string[],
  variables: Readonly<Record<string, unknown>> = {},
): Stub {
  const prompts: string[] = [];
  const requests: AnswerRequest[] = [];
  const schemas: object[] = [];
  const decode = (ids: readonly number[], { skipSpecialTokens = false } = {}) =>
    ids
      .map((id) =>
        id < 3 ? (skipSpecialTokens ? "" : (SPECIAL[String.fromCodePoint(id)] ?? "</s>")) : String.fromCodePoint(id),
      )
      .join("");
  return {
    prompts,
    requests,
    schemas,
    digest: "0123456789abcdef",
    contextLength: 4096,
    parallel: 8,
    tokenizer: {
      encode: (text) => [...text].map((character) => character.codePointAt(0) ?? 0),
      decode,
      tokenOf: (id) => decode([id]),
      incremental: (options) => ({ push: (id) => decode([id], options), end: () => "" }),
    },
    requireTemplate: async () => makeChatTemplate(template, { variables }),
    encode: async (text) => {
      prompts.push(text);
      return [...text].map((character) => character.codePointAt(0) ?? 0);
    },
    check: () => undefined,
    grammar: async (schema) => {
      schemas.push(schema);
      return { end: "\n\n", begin: () => undefined };
    },
    generate: async (request): Promise<TokenAnswer["finish"]> => {
      const answer = answers[requests.push(request) - 1] ?? "";
      const top = Array.from({ length: request.top ?? 0 }, () => ({ id: 65, logprob: -1 }));
      const scores = request.top === undefined ? undefined : { logprob: -0.5, top };
      for (const [i, character] of [...answer].entries()) {
        if (i === request.maxNewTokens) return "length";
        if (request.onToken(character.codePointAt(0) ?? 0, scores) === "stop") return "stop";
      }
      request.onEnd(END, scores);
      return "stop";
    },
    close: async () => undefined,
  };
}
