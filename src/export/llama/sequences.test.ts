// What the answers of one context owe each other.
import { expect, it } from "vitest";
import { Random } from "../../kit/index.js";
import type { LlamaContext, LlamaSequence } from "./library.js";
import { Sequences } from "./sequences.js";

it("lets other answers continue when llama.cpp fails to end the generation of one", async () => {
  const open = async (contextSize: number): Promise<LlamaContext> => {
    let opened = 0;
    return { contextSize, getSequence: () => sequence(opened++), dispose: async () => undefined };
  };
  const sequences = new Sequences({ open, rows: 2, vocabularySize: 10, contextLength: 100 });
  const answer = (maxNewTokens: number) =>
    sequences.generate({ prompt: [0], maxNewTokens, stopIds: new Set(), random: Random.of(0, "x") });
  const [short, long] = await Promise.allSettled([answer(2), answer(5)]);
  expect(short).toMatchObject({ status: "rejected", reason: new Error("no end") });
  expect(long).toEqual({ status: "fulfilled", value: { ids: [2, 2, 2, 2, 2], finish: "length" } });
});

/** A sequence whose next token is 2; the generation of the first cannot be ended. */
function sequence(number: number): LlamaSequence {
  async function* tokens() {
    for (;;) yield 2;
  }
  return {
    nextTokenIndex: 0,
    compareContextTokens: () => ({ firstDifferentIndex: 0 }),
    adaptStateToTokens: async () => undefined,
    clearHistory: async () => undefined,
    takeCheckpoint: async () => undefined,
    evaluate: () => {
      const drawn = tokens();
      return number === 0 ? Object.assign(drawn, { return: () => Promise.reject(new Error("no end")) }) : drawn;
    },
    controlledEvaluate: async (input) => input.map(() => ({ next: { token: 2, totalLogitWeight: 1 } })),
  };
}
