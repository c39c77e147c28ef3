// The engine against what transformers computed from the same weights: logits, greedy answers, log-probabilities.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readTensors } from "../../test/support/decoder-fixtures.js";
import {
  allGoldens,
  distance,
  type Golden,
  golden,
  logSoftmax,
  noteDifference,
} from "../../test/support/golden-decoders.js";
import { Engine, embeddedModel, openEngine } from "./engine.js";
import { LoadedDecoder, type Wanted } from "./loaded-decoder.js";
import { openModelSource } from "./model-source.js";
import { modelTextOf } from "./source-text.js";

// Float32 in both, additions in another order; logits are of a size up to 10.
const LOGITS = 1e-4;

/** Logits of texts in one cache, `step` tokens of each a pass; texts need not be of one length. */
async function logitsOf(decoder: LoadedDecoder, texts: readonly (readonly number[])[], step: number) {
  const cache = decoder.newCache(texts.length);
  for (const _ of texts) cache.add();
  const found = texts.map((): number[][] => []);
  const longest = Math.max(...texts.map(({ length }) => length));
  for (let from = 0; from < longest; from += step) {
    const parts = texts.map((text) => text.slice(from, from + step));
    const wanted = parts.flatMap((part, row) => part.map((_, at): Wanted => ({ row, at })));
    const { logits = new Float32Array() } = await decoder.pass(cache, parts, wanted, ["logits"], longest);
    const { vocabularySize } = decoder.spec;
    for (const [i, { row }] of wanted.entries()) {
      found[row]?.push([...logits.subarray(i * vocabularySize, (i + 1) * vocabularySize)]);
    }
  }
  return found;
}

function expectLogits(name: string, found: readonly (readonly number[])[], wanted: readonly (readonly number[])[]) {
  const [apart, list] = [distance(found.flat(), wanted.flat()), wanted.flat()];
  noteDifference(name, "logits", apart / Math.max(...list.map(Math.abs)));
  expect(apart).toBeLessThan(LOGITS);
}

describe.each(allGoldens())("$name", (expected: Golden) => {
  const { rows, logits, greedy } = expected;
  let decoder: LoadedDecoder;
  let engine: Engine;
  beforeAll(async () => {
    const source = await openModelSource(expected.folder);
    decoder = await LoadedDecoder.load(source, { threads: 1 });
    engine = new Engine(modelTextOf(source), embeddedModel(decoder));
  });
  afterAll(() => engine.close());

  it("has the logits of transformers: in one pass, in chunks, token by token, and batched", async () => {
    for (const [row, text] of rows.entries()) {
      for (const step of [text.length, 5, 1]) {
        expectLogits(expected.name, (await logitsOf(decoder, [text], step))[0] ?? [], logits[row] ?? []);
      }
    }
    // The row that is padded in transformers is a shorter one here, and the last passes have nothing of it.
    for (const step of [expected.width, 5, 1]) {
      const found = await logitsOf(decoder, rows, step);
      for (const [row, list] of logits.entries()) expectLogits(expected.name, found[row] ?? [], list);
    }
  });

  it("generates as transformers, alone and batched", async () => {
    const maxNewTokens = greedy[0]?.length ?? 0;
    const prompts = rows.slice(0, greedy.length);
    for (const batch of [1, 2]) {
      const answers = await engine.generate(prompts, { maxNewTokens, stopIds: [], batch });
      expect(answers.map(({ ids }) => ids)).toEqual(greedy);
      expect(answers.every(({ finish, text }) => finish === "length" && text === "")).toBe(true);
    }
  });

  it("has the log-probabilities of transformers", async () => {
    const wanted = rows.map((text, row) =>
      text.slice(1).map((id, at) => logSoftmax([...(logits[row]?.[at] ?? [])])[id] as number),
    );
    for (const batch of [1, 8]) {
      const found = await engine.score(rows, { batch });
      for (const [row, list] of wanted.entries()) expect(distance(found[row] ?? [], list)).toBeLessThan(LOGITS);
    }
    const from = 7;
    const continuations = await engine.scoreContinuations(
      rows.map((text) => ({ context: text.slice(0, from), continuation: text.slice(from) })),
    );
    const best = rows.map((text, row) => text.map((_, at) => argMax(logits[row]?.[at - 1] ?? [])));
    for (const [row, { logprob, tokens, greedy: isGreedy }] of continuations.entries()) {
      const list = wanted[row]?.slice(from - 1) ?? [];
      expect(distance(tokens, list)).toBeLessThan(LOGITS);
      expect(logprob).toBeCloseTo(
        list.reduce((sum, one) => sum + one, 0),
        3,
      );
      expect(isGreedy).toBe(rows[row]?.slice(from).every((id, at) => id === best[row]?.[from + at]));
    }
    // What is most likely continues greedily, unless frequencies grow: a pass over the whole text has those of its length.
    if (decoder.spec.ropes.some(({ dynamic }) => dynamic)) return;
    const [answer = []] = greedy;
    const [sure] = await engine.scoreContinuations([{ context: rows[0] ?? [], continuation: answer }]);
    expect(sure?.greedy).toBe(true);
  });

  it("has the most likely next tokens of transformers", async () => {
    const count = engine.vocabularySize;
    const found = await engine.topNext(rows, { count });
    for (const [row, next] of found.entries()) {
      const wanted = logSoftmax([...(logits[row]?.at(-1) ?? [])]);
      expect(next.map(({ id }) => id).sort((a, b) => a - b)).toEqual([...wanted.keys()]);
      expect(
        distance(
          next.map(({ logprob }) => logprob),
          next.map(({ id }) => wanted[id] as number),
        ),
      ).toBeLessThan(LOGITS);
      expect(next.map(({ logprob }) => logprob)).toEqual(next.map(({ logprob }) => logprob).sort((a, b) => b - a));
    }
    const few = await engine.topNext(rows, { count: 3, batch: 1 });
    expect(few.map((next) => next.map(({ id }) => id))).toEqual(
      found.map((next) => next.slice(0, 3).map(({ id }) => id)),
    );
  });
});

const argMax = (list: readonly number[]) => list.indexOf(Math.max(...list));

describe("frequencies that depend on the length (LongRoPE)", () => {
  const { rows, short, logits, folder } = golden("phi3-longrope");
  const ABOVE = 8; // original_max_position_embeddings of this case

  it("differ between short and long texts, also in one batch", async () => {
    const engine = await openEngine(folder, { threads: 1 });
    const [long = []] = rows;
    const brief = long.slice(0, short?.length);
    expect(brief.length).toBeLessThanOrEqual(ABOVE);
    const expected = (text: readonly number[], of: readonly (readonly number[])[]) =>
      text.slice(1).map((id, at) => logSoftmax([...(of[at] ?? [])])[id] as number);
    const found = await engine.score([long, brief, long]);
    expect(distance(found[0] ?? [], expected(long, logits[0] ?? []))).toBeLessThan(LOGITS);
    expect(distance(found[1] ?? [], expected(brief, short ?? []))).toBeLessThan(LOGITS);
    expect(found[2]).toEqual(found[0]);
    await engine.close();
  });

  it("are recomputed for all positions where an answer grows beyond the limit", async () => {
    const engine = await openEngine(folder, { threads: 1 });
    const text = rows[0]?.slice(0, 6) ?? [];
    const [answer] = await engine.generate([text], { maxNewTokens: 10, stopIds: [] });
    // By transformers 5.18, a pass over the whole text for each token (its own cache is not right across the limit).
    expect(answer?.ids).toEqual([14, 8, 2, 19, 8, 2, 0, 13, 2, 11]);
    await engine.close();
  });
});

describe("frequencies that grow with the text (dynamic)", () => {
  const { rows, short = [], folder } = golden("llama-dynamic");
  const [text = []] = rows;

  it("are plain up to the context, and end at its length times the factor", async () => {
    const engine = await openEngine(folder, { threads: 1 });
    const brief = text.slice(0, short.length);
    const wanted = brief.slice(1).map((id, at) => logSoftmax([...(short[at] ?? [])])[id] as number);
    const [, found = []] = await engine.score([text, brief]);
    expect(distance(found, wanted)).toBeLessThan(LOGITS);
    expect(engine.contextLength).toBe(8 * 2.5);
    const [answer] = await engine.generate([text], { maxNewTokens: 99, stopIds: [] });
    expect(answer).toMatchObject({ finish: "length", ids: { length: 8 } });
    await engine.close();
  });

  it("are for each new token those of its length, as in transformers, while cached keys keep theirs", async () => {
    const engine = await openEngine(folder, { threads: 1 });
    const ids = readTensors(`${folder}/expected.safetensors`).get("grown")?.values ?? [];
    const prompts = [ids.slice(0, 6), text];
    const answers = await engine.generate(prompts, { maxNewTokens: ids.length - 6, stopIds: [], batch: 2 });
    expect(answers[0]?.ids).toEqual(ids.slice(6));
    await engine.close();
  });
});

it("refuses recipes that merge factors of adapters, whose weights no model has", async () => {
  const base = new URL("../../test/fixtures/peft/patterns/base", import.meta.url).pathname;
  const models = ["first", "second"].map((name) => `${base}+${base}/../../combined/${name}`);
  for (const method of ["ties", "breadcrumbs"] as const) {
    const opened = openModelSource({ method, models, base, as: "adapter" });
    await expect(opened, method).rejects.toThrow("Write it with merge, and give BASE+OUT.");
  }
  expect((await openModelSource({ method: "soup", models, as: "adapter" })).name).toContain("soup of");
});
