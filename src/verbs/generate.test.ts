// Answers by the library: of the verb, and as a stream.
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../test/support/checkpoints.js";
import { idOf, writeScripted } from "../../test/support/engine.js";
import { type GeneratedAnswer, generate } from "./generate.js";
import { openModel } from "./model.js";
import { score } from "./score.js";

const folder = temporaryFolder();
// é is a token for each of its two bytes.
const source = join(folder, "model");
await writeScripted(source, { c: "byte C3", "byte C3": "byte A9", "byte A9": "x", x: "ab" }, { template: false });
const endless = join(folder, "endless");
await writeScripted(endless, { a: "b", b: "a" }, { config: { max_position_embeddings: 1e6 }, template: false });
const backend = "engine" as const;

it("answers texts after prompts of tokens, and gives parts and answers with the index of their prompt", async () => {
  const [parts, notes]: [string[][], string[]] = [[[], []], []];
  const input = { source: "model", prompts: ["c"], ids: [[idOf("x")]], backend } as const;
  const { model, answers, seconds } = await generate(input, {
    folder,
    onPart: (text, prompt) => parts[prompt]?.push(text),
    onNote: (note) => notes.push(note),
  });
  const wanted: GeneratedAnswer[] = [
    { promptTokens: 1, text: "ab", ids: [idOf("ab")], finish: "stop" },
    {
      prompt: "c",
      promptTokens: 2,
      text: "éxab",
      ids: (["byte C3", "byte A9", "x", "ab"] as const).map((token) => idOf(token)),
      finish: "stop",
    },
  ];
  expect({ model, answers }).toEqual({ model: "model", answers: wanted });
  expect(seconds).toBeGreaterThan(0);
  // A character comes whole.
  expect(parts).toEqual([["ab"], ["é", "x", "ab"]]);
  expect(notes).toEqual([expect.stringMatching(/^model: Llama, embedded engine .*, ready in /)]);
});

it("refuses what does not go together", async () => {
  await expect(generate({ source, prompts: ["c"], system: "x" })).rejects.toThrow(/^system needs chat/);
  await expect(generate({ source })).rejects.toThrow("Missing a prompt: prompts, or ids.");
  await expect(generate({ source, prompts: ["c"], topK: 2 })).rejects.toThrow(/need a temperature above 0/);
  await expect(score({ source, prompt: "c" })).rejects.toThrow("prompt needs continuations or top.");
});

it("scores what may follow, the likeliest first", async () => {
  const { continuations = [], next = [] } = await score({
    source,
    prompt: "x",
    continuations: ["ab", "c"],
    top: 1,
    backend,
  });
  const [sure, other] = continuations;
  expect([sure?.greedy, other?.greedy, sure?.tokens.length]).toEqual([true, false, 1]);
  expect(next).toEqual([{ id: idOf("ab"), token: "ab", text: "ab", logprob: expect.closeTo(sure?.logprob ?? 0, 6) }]);
});

it("ends an answer where the loop over its parts is left", async () => {
  await using model = await openModel(endless, { backend });
  const parts: string[] = [];
  for await (const part of model.stream("a", { maxNewTokens: 500_000 })) if (parts.push(part) === 3) break;
  expect(parts).toEqual(["b", "a", "b"]);
  const stop = new AbortController();
  const stream = model.stream("a", { maxNewTokens: 500_000, signal: stop.signal });
  expect(await stream.next()).toEqual({ done: false, value: "b" });
  stop.abort();
  const rest = async () => {
    for await (const part of stream) parts.push(part);
  };
  await expect(rest()).rejects.toMatchObject({ code: "cancelled" });
  // The last value is the whole answer.
  const whole = model.stream("a", { maxNewTokens: 1 });
  expect([await whole.next(), await whole.next()]).toEqual([
    { done: false, value: "b" },
    { done: true, value: { text: "b", tokens: [idOf("b")], finish: "length" } },
  ]);
});
