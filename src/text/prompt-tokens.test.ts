import { expect, test } from "vitest";
import { encodePair, type PromptTokenizer, promptEncoder } from "./prompt-tokens.js";

const [BOS, EOS] = [1, 2];

/** One token per letter, `<` for BOS; marks are what its post-processor adds. */
function toy(marks: { readonly begin?: boolean; readonly end?: boolean }): PromptTokenizer {
  const ids = (text: string) => [...text].map((letter) => (letter === "<" ? BOS : letter.charCodeAt(0)));
  return {
    bos: BOS,
    eos: EOS,
    tokenOf: (id) => (id === BOS ? "<" : undefined),
    encode: (text, { specialTokens = false } = {}) => [
      ...(specialTokens && marks.begin ? [BOS] : []),
      ...ids(text),
      ...(specialTokens && marks.end ? [EOS] : []),
    ],
  };
}

test("a prompt gets the tokenizer's BOS once, and none where it is not wanted", () => {
  const encode = promptEncoder(toy({ begin: true }));
  expect(encode("a", true)).toEqual([BOS, 97]);
  expect(encode("<a", true)).toEqual([BOS, 97]);
  expect(encode("a", false)).toEqual([97]);
});

test("an end mark is dropped, as it would end the answer before it begins", () => {
  expect(promptEncoder(toy({ begin: true, end: true }))("a", true)).toEqual([BOS, 97]);
  expect(promptEncoder(toy({ end: true }))("a", true)).toEqual([97]);
});

test("blanks at the end of a context go with the continuation", async () => {
  const pair = { context: "a ", continuation: "b" };
  expect(await encodePair(promptEncoder(toy({ begin: true })), pair)).toEqual({
    context: [BOS, 97],
    continuation: [32, 98],
  });
});
