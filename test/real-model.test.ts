// A model that others trained, against what transformers computed from it. LAYERGRAFT_REAL_MODEL names its GGUF file; docs/results.md
// has where it comes from. bench/real compares far more.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openCheckpoint } from "../src/formats/checkpoint/index.js";
import { type ChatMessage, openModel } from "../src/index.js";
import { loadChatTemplate, loadTokenizer } from "../src/text/index.js";

const file = process.env.LAYERGRAFT_REAL_MODEL;
const { texts, chats } = JSON.parse(
  readFileSync(join(import.meta.dirname, "fixtures/real-model/smollm2.json"), "utf8"),
) as {
  texts: { text: string; tokens: number[]; logprobs: number[] }[];
  chats: { messages: ChatMessage[]; rendered: string; answer: number[] }[];
};

test("a real model gives the tokens, prompts, log-probabilities and answers of transformers", {
  tags: ["slow"],
}, async (context) => {
  if (!file) return context.skip("LAYERGRAFT_REAL_MODEL does not name the GGUF file of SmolLM2 (docs/results.md)");
  const checkpoint = await openCheckpoint(file);
  const tokenizer = await loadTokenizer(checkpoint.texts);
  const template = await loadChatTemplate(checkpoint.texts);
  await using model = await openModel(file, { backend: "engine" });
  for (const { text, tokens, logprobs } of texts) {
    expect(tokenizer.encode(text)).toEqual(tokens);
    const scored = await model.score(text);
    const apart = scored.tokenLogprobs.map((value, i) => Math.abs(value - (logprobs[i] ?? Number.NaN)));
    expect(Math.max(...apart), text).toBeLessThan(2e-3);
  }
  for (const { messages, rendered, answer } of chats) {
    expect(template?.render(messages, { addGenerationPrompt: true })).toBe(rendered);
    const { tokens } = await model.generate(messages, { maxNewTokens: 16 });
    expect(tokens).toEqual(answer);
  }
});
