// The notes appear before a model is asked, and in the results.
import { expect, it } from "vitest";
import { chooseTask, setUpEvaluations, vllm } from "../../test/support/evaluation.js";
import { choiceNotes } from "./ask-items.js";
import { evaluate } from "./evaluate.js";

setUpEvaluations();

/** One token for each of these words; every other word is unknown. */
const WORDS = ["sun", "moon"];
const tokenizer = {
  unknown: 9,
  encode: (text: string) =>
    text
      .trim()
      .split(" ")
      .map((word) => (WORDS.includes(word) ? WORDS.indexOf(word) : 9)),
};
const item = (id: string, ...choices: string[]) => ({ id, choices: choices.map((choice) => ` ${choice}`) });

it("names choices with the same tokens, and choices with unknown tokens", () => {
  const items = [item("1", "sun", "moon"), item("2", "sun", "ndizi"), item("3", "moon", "ndizi", "chungwa")];
  expect(choiceNotes(items, tokenizer)).toEqual([
    'choices with the same tokens in 1 of 3 items, such as "ndizi" and "chungwa" of item 3; the model cannot tell them apart',
    'choices with unknown tokens in 2 of 3 items, such as "ndizi" of item 2; scores of such items mean little',
  ]);
  expect(choiceNotes(items.slice(0, 1), tokenizer)).toEqual([]);
  const lower = { encode: (text: string) => [...text.toLowerCase()].map((letter) => letter.charCodeAt(0)) };
  expect(choiceNotes([item("1", "Sun", "sun")], lower)).toHaveLength(1);
});

it("an evaluation reports them before it asks, and counts ties", async () => {
  const { server, backend } = await vllm();
  const asked: number[] = [];
  const alike = { bos: undefined, eos: undefined, tokenOf: () => undefined, encode: () => [1] };
  const { results } = await evaluate({
    ...{ tasks: [chooseTask(3)], backend: { ...backend, tokenizer: alike }, data: {}, source: "x" },
    onNote: (note) => {
      asked.push(server.requests.length);
      expect(note).toMatch(/^letters: choices with the same tokens in 3 of 3 items/);
    },
  });
  expect(asked).toEqual([0]);
  expect(results.tasks[0]?.notes.at(-1)).toMatch(/^choices with the same tokens in 3 of 3 items/);
  expect(results.tasks[0]?.problems.tied).toBe(0);
  const tied = { ...backend, choose: undefined as never, incapacities: { choose: "not asked" } };
  const same = await evaluate({
    ...{ tasks: [chooseTask(3)], data: {}, source: "x" },
    backend: {
      ...tied,
      loglikelihood: async (requests, options) =>
        requests.map((_, i) => {
          const answer = { logprob: -3, tokens: 1, greedy: false };
          options?.onResult?.(i, answer);
          return answer;
        }),
    },
  });
  expect(same.results.tasks[0]).toMatchObject({ problems: { tied: 3 } });
});
