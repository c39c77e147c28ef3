// How answers come about: rows of a batch that come and go, shared beginnings, ends, chance; and that no text ever
// changes another. What the numbers are is golden.test.ts's.
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { distance, golden } from "../../test/support/golden-decoders.js";
import { CancelledError, LayergraftError } from "../kit/errors.js";
import { Random } from "../kit/random.js";
import { type Engine, type GenerateOptions, openEngine } from "./engine.js";
import { LoadedDecoder } from "./loaded-decoder.js";

const opened: Engine[] = [];
const folders: string[] = [];
afterAll(async () => {
  for (const engine of opened) await engine.close();
  for (const folder of folders) rmSync(folder, { recursive: true });
});

async function open(folder: string): Promise<Engine> {
  const engine = await openEngine(folder, { threads: 1 });
  opened.push(engine);
  return engine;
}

/** A case's model, some rows of whose embedding are not numbers, and with other settings. */
function changed(name: string, spoiled: readonly number[], config: Record<string, unknown> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), "layergraft-engine-"));
  folders.push(folder);
  const from = golden(name).folder;
  const bytes = readFileSync(join(from, "model.safetensors"));
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, start)) as Record<
    string,
    { shape: number[]; data_offsets: number[] }
  >;
  const { shape, data_offsets } = header["model.embed_tokens.weight"] as { shape: number[]; data_offsets: number[] };
  const width = 4 * (shape[1] as number);
  const at = (row: number) => start + (data_offsets[0] as number) + row * width;
  for (const row of spoiled) for (let i = at(row); i < at(row + 1); i += 4) bytes.writeFloatLE(Number.NaN, i);
  writeFileSync(join(folder, "model.safetensors"), bytes);
  copyFileSync(join(from, "config.json"), join(folder, "config.json"));
  const json = JSON.parse(readFileSync(join(from, "config.json"), "utf8")) as Record<string, unknown>;
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...json, ...config }));
  return folder;
}

/** Texts of tokens `from` to 19, of any lengths up to `longest`. */
function texts(count: number, longest: number, seed: string, from = 3): number[][] {
  const random = Random.of(1, seed);
  return Array.from({ length: count }, () =>
    Array.from({ length: random.between(1, longest) }, () => random.between(from, 19)),
  );
}

const GREEDY: GenerateOptions = { maxNewTokens: 9, stopIds: [] };

// Grouped queries; windows and two rotations.
describe.each(["llama", "gemma3"])("%s", (name) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await open(golden(name).folder);
  });

  it("answers prompts of unequal lengths in a batch as one by one", async () => {
    const prompts = texts(13, 40, name);
    // Tokens that end answers make rows free at different times.
    for (const stopIds of [[], [4, 5, 6, 7]]) {
      const alone = await Promise.all(prompts.map((prompt) => engine.generate([prompt], { ...GREEDY, stopIds })));
      for (const batch of [3, 64]) {
        expect(await engine.generate(prompts, { ...GREEDY, stopIds, batch })).toEqual(alone.flat());
      }
    }
  });

  it("computes a common prefix once, with the same results", async () => {
    const beginning = Array.from({ length: 21 }, (_, i) => 3 + ((7 * i) % 17));
    const prompts = texts(5, 9, `${name} shared`).map((text) => [...beginning, ...text]);
    // One is the beginning of another, and two are the same.
    prompts.push([...(prompts[0] ?? []), 9], [...(prompts[1] ?? [])]);
    const alone = await Promise.all(prompts.map((prompt) => engine.generate([prompt], GREEDY)));
    expect(await engine.generate(prompts, GREEDY)).toEqual(alone.flat());
    const scores = await Promise.all(prompts.map((prompt) => engine.score([prompt])));
    for (const [i, found] of (await engine.score(prompts)).entries()) {
      expect(distance(found, scores[i]?.[0] ?? [])).toBeLessThan(1e-5);
    }
    // All of one is the beginning of the other; or there is nothing but what is shared.
    for (const pair of [
      [beginning, [...beginning, 4]],
      [beginning, beginning],
    ]) {
      const one = await Promise.all(pair.map((prompt) => engine.generate([prompt], GREEDY)));
      expect(await engine.generate(pair, GREEDY)).toEqual(one.flat());
      const both = await engine.score(pair);
      for (const [i, prompt] of pair.entries()) {
        expect(distance(both[i] ?? [], (await engine.score([prompt]))[0] ?? [])).toBeLessThan(1e-5);
      }
      expect((await engine.topNext(pair, { count: 1 }))[0]?.[0]?.id).toBe(one[0]?.[0]?.ids[0]);
    }
    const context = beginning.slice(0, 15);
    const requests = prompts.map((prompt) => ({ context, continuation: prompt.slice(15) }));
    for (const [i, { tokens }] of (await engine.scoreContinuations(requests)).entries()) {
      expect(distance(tokens, scores[i]?.[0]?.slice(14) ?? [])).toBeLessThan(1e-5);
    }
    const next = await Promise.all(prompts.map((prompt) => engine.topNext([prompt], { count: 2 })));
    const together = await engine.topNext(prompts, { count: 2 });
    expect(together.map((list) => list.map(({ id }) => id))).toEqual(
      next.flat().map((list) => list.map(({ id }) => id)),
    );
  });

  it("reads a context once for all its continuations", async () => {
    const random = Random.of(3, name);
    const requests = texts(9, 40, `${name} contexts`).flatMap((context) =>
      texts(random.between(1, 5), 6, `${context}`).map((continuation) => ({ context, continuation })),
    );
    const alone = await Promise.all(requests.map((request) => engine.scoreContinuations([request])));
    for (const batch of [1, 3, 64]) {
      for (const [i, { tokens, greedy }] of (await engine.scoreContinuations(requests, { batch })).entries()) {
        expect(distance(tokens, alone[i]?.[0]?.tokens ?? [])).toBeLessThan(1e-5);
        expect(greedy).toBe(alone[i]?.[0]?.greedy);
      }
    }
    const pass = vi.spyOn(LoadedDecoder.prototype, "pass");
    await engine.scoreContinuations(requests, { batch: 64 });
    const read = pass.mock.calls.reduce((sum, [, parts]) => sum + parts.flat().length, 0);
    pass.mockRestore();
    const contexts = new Map(requests.map(({ context }) => [context.join(), context.length - 1]));
    const least = [...contexts.values()].reduce((sum, length) => sum + length);
    expect(read).toBe(requests.reduce((sum, { continuation }) => sum + continuation.length, least));
  });

  it("scores what an interrupted call has not, with the same bits", async () => {
    const requests = texts(6, 30, `${name} choices`).flatMap((context) =>
      texts(4, 3, `${context}`).map((continuation) => ({ context, continuation })),
    );
    const stop = new AbortController();
    const first = new Map<number, object>();
    const onDone = (index: number, score: object) => {
      first.set(index, score);
      stop.abort();
    };
    const interrupted = engine.scoreContinuations(requests, { onDone, signal: stop.signal });
    await expect(interrupted).rejects.toMatchObject({ code: "cancelled" });
    // Two contexts fill a batch.
    expect(first.size).toBe(8);
    const whole = await engine.scoreContinuations(requests);
    for (const [index, score] of first) expect(score).toEqual(whole[index]);
    const rest = new Map<number, object>();
    await engine.scoreContinuations(requests, {
      isKnown: (index) => first.has(index),
      onDone: (index, score) => void rest.set(index, score),
    });
    expect([...first.keys(), ...rest.keys()].sort((a, b) => a - b)).toEqual([...requests.keys()]);
    for (const [index, score] of rest) expect(score).toEqual(whole[index]);
  });
});

describe("texts of one batch", () => {
  const [BAD, PADDING] = [19, 0];
  const clean = texts(12, 30, "clean").map((text) => text.map((id) => (id === BAD ? 4 : id)));
  const spoiled = [[BAD], [5, BAD, 6], [...(clean[0] ?? []), BAD]];
  // A model that answers BAD, or what fills short rows, would spoil its own text, not another's.
  const stopIds = [BAD, PADDING];

  it("are not affected by NaN in another text or by padding", async () => {
    const engine = await open(changed("llama", [BAD, PADDING]));
    const sound = await open(golden("llama").folder);
    const options = { ...GREEDY, stopIds, batch: 4 };
    const wanted = await sound.generate(clean, options);
    const mixed = [clean.slice(0, 4), spoiled, clean.slice(4, 8), spoiled, clean.slice(8)].flat();
    const found = await engine.generate(mixed, options);
    expect(found.filter((_, i) => !mixed[i]?.includes(BAD))).toEqual(wanted);
    // Its rows were taken by others before and after.
    expect(found.filter(({ ids }) => ids.length > 0).length).toBeGreaterThan(6);

    const scores = await engine.score(mixed, { batch: 4 });
    const soundScores = (await sound.score(mixed, { batch: 4 })).filter((_, i) => !mixed[i]?.includes(BAD));
    const kept = scores.filter((_, i) => !mixed[i]?.includes(BAD));
    for (const [i, list] of kept.entries()) expect(distance(list, soundScores[i] ?? [])).toBeLessThan(1e-5);
    expect(scores[mixed.indexOf(spoiled[1] as number[])]?.at(-1)).toBeNaN();
  });

  it("end as invalid where the model's scores are not numbers", async () => {
    const engine = await open(changed("llama", [BAD]));
    const mixed = [clean[0] ?? [], ...spoiled];
    for (const temperature of [0, 0.8]) {
      const [first, ...others] = await engine.generate(mixed, { ...GREEDY, temperature, stopIds });
      expect(first?.finish).not.toBe("invalid");
      expect(others).toEqual(spoiled.map(() => ({ ids: [], text: "", finish: "invalid" })));
    }
    const [score] = await engine.scoreContinuations([{ context: [5, BAD], continuation: [0] }]);
    expect(score).toMatchObject({ logprob: Number.NaN, greedy: false });
  });

  it("are not affected by earlier calls", async () => {
    const engine = await open(changed("llama", [BAD]));
    const first = await engine.generate(clean, { ...GREEDY, stopIds });
    await engine.generate(spoiled, { ...GREEDY, stopIds });
    await engine.score(spoiled);
    expect(await engine.generate(clean, { ...GREEDY, stopIds })).toEqual(first);
  });
});

describe("the end of an answer", () => {
  const { folder, rows, greedy } = golden("llama");
  const prompt = rows[0] ?? [];
  const [answer = []] = greedy;
  let engine: Engine;
  beforeAll(async () => {
    engine = await open(folder);
  });

  it("is at maxNewTokens; for 0, nothing is computed", async () => {
    expect(await engine.generate([prompt, prompt], { maxNewTokens: 0 })).toEqual(
      Array(2).fill({ ids: [], text: "", finish: "length" }),
    );
    const [one] = await engine.generate([prompt], { maxNewTokens: 1, stopIds: [] });
    expect(one).toEqual({ ids: answer.slice(0, 1), text: "", finish: "length" });
  });

  it("is before a token that ends answers", async () => {
    const stop = answer[3] as number;
    const at = answer.indexOf(stop);
    const told: unknown[] = [];
    const [found] = await engine.generate([prompt], {
      maxNewTokens: 8,
      stopIds: [stop],
      onDone: (...args) => told.push(args),
    });
    expect(found).toEqual({ ids: answer.slice(0, at), text: "", finish: "stop" });
    expect(told).toEqual([[0, found]]);
  });

  it("is by default at the EOS tokens of the configuration", async () => {
    const ending = changed("llama", [], { eos_token_id: [answer[2], 17] });
    const [found] = await (await open(ending)).generate([prompt], { maxNewTokens: 8 });
    expect(found?.ids).toEqual(answer.slice(0, answer.indexOf(answer[2] as number)));
    writeFileSync(join(ending, "generation_config.json"), JSON.stringify({ eos_token_id: answer[0] }));
    expect(await (await open(ending)).generate([prompt], { maxNewTokens: 8 })).toEqual([
      { ids: [], text: "", finish: "stop" },
    ]);
  });

  it("is by default at the EOS tokens of the text tower", async () => {
    const json = JSON.parse(readFileSync(join(golden("llama").folder, "config.json"), "utf8")) as object;
    const ending = changed("llama", [], { text_config: { ...json, eos_token_id: answer[2] } });
    const [found] = await (await open(ending)).generate([prompt], { maxNewTokens: 8 });
    expect(found?.ids).toEqual(answer.slice(0, answer.indexOf(answer[2] as number)));
  });

  it("is at the end of the context", async () => {
    const small = await open(changed("llama", [], { max_position_embeddings: prompt.length + 3 }));
    // The rotation of this case does not depend on it.
    expect(await small.generate([prompt], { maxNewTokens: 8, stopIds: [] })).toEqual([
      { ids: answer.slice(0, 3), text: "", finish: "length" },
    ]);
    const full = [...prompt, 3, 4, 5];
    expect(await small.generate([full, prompt], { maxNewTokens: 1, stopIds: [] })).toEqual([
      { ids: [], text: "", finish: "length" },
      { ids: answer.slice(0, 1), text: "", finish: "length" },
    ]);
    expect((await small.score([full]))[0]?.length).toBe(full.length - 1);
    const tooLong =
      /prompt 2 has 16 tokens, and the context of layergraft-engine-\w+ is 15 \(max_position_embeddings\); shorten it/;
    await expect(small.generate([prompt, [...full, 3]], GREEDY)).rejects.toThrow(tooLong);
    await expect(small.score([[...full, 3]])).rejects.toThrow(/text 1 has 16 tokens/);
    await expect(small.scoreContinuations([{ context: full, continuation: [3] }])).rejects.toThrow(/16 tokens/);
    await expect(small.topNext([[...full, 3]], { count: 1 })).rejects.toThrow(/16 tokens/);
  });

  it("is a CancelledError when the signal fires, and the engine still works", async () => {
    const controller = new AbortController();
    const done: number[] = [];
    const prompts = [prompt, ...texts(20, 30, "cancelled")];
    const running = engine.generate(prompts, {
      ...GREEDY,
      batch: 2,
      signal: controller.signal,
      onDone: (index) => {
        done.push(index);
        if (done.length === 3) controller.abort();
      },
    });
    await expect(running).rejects.toBeInstanceOf(CancelledError);
    expect(done.length).toBeGreaterThanOrEqual(3);
    expect(done.length).toBeLessThan(6);
    for (const work of [
      () => engine.generate(prompts, { ...GREEDY, signal: controller.signal }),
      () => engine.score(prompts, { signal: controller.signal }),
      () => engine.topNext(prompts, { count: 1, signal: controller.signal }),
    ]) {
      await expect(work()).rejects.toBeInstanceOf(CancelledError);
    }
    expect((await engine.generate([prompt], { maxNewTokens: 8, stopIds: [] }))[0]?.ids).toEqual(answer);
  });
});

describe("sampling", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await open(golden("llama").folder);
  });
  const prompts = texts(9, 20, "chance");
  const sample = (options: Partial<GenerateOptions>) =>
    engine.generate(prompts, { maxNewTokens: 12, stopIds: [2], temperature: 1.3, ...options });

  it("depends on the seed, and not on the batch", async () => {
    const first = await sample({ seed: 5 });
    for (const batch of [1, 2, 5, 64]) expect(await sample({ seed: 5, batch })).toEqual(first);
    expect(await sample({ seed: 6 })).not.toEqual(first);
    expect(await sample({})).toEqual(await sample({ seed: 0 }));
    // Prompts draw from streams of their own.
    const [a, b] = await engine.generate(
      [
        [3, 4],
        [3, 4],
      ],
      { maxNewTokens: 12, stopIds: [], temperature: 1.3 },
    );
    expect(a?.ids).not.toEqual(b?.ids);
  });

  it("is greedy at temperature 0 and with top-k 1", async () => {
    const greedy = await sample({ temperature: 0, seed: 1 });
    expect(await sample({ temperature: 0, seed: 2 })).toEqual(greedy);
    expect(await sample({ topK: 1, seed: 3 })).toEqual(greedy);
    expect(await sample({ topP: 0, seed: 4 })).toEqual(greedy);
    expect(await sample({ temperature: 1e-300, seed: 4 })).toEqual(greedy);
  });
});

describe("invalid calls", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await open(golden("qwen2").folder);
  });

  it("returns nothing for no prompts", async () => {
    expect(await engine.generate([], GREEDY)).toEqual([]);
    expect(await engine.score([])).toEqual([]);
    expect(await engine.score([[], [3]])).toEqual([[], []]);
    expect(await engine.scoreContinuations([])).toEqual([]);
    expect(await engine.topNext([], { count: 1 })).toEqual([]);
    // An empty continuation is certain.
    const [some] = await engine.scoreContinuations([{ context: [3, 4], continuation: [5] }]);
    expect(
      await engine.scoreContinuations([
        { context: [3, 4], continuation: [] },
        { context: [3, 4], continuation: [5] },
      ]),
    ).toEqual([{ logprob: 0, tokens: [], greedy: true }, some]);
  });

  it("refuses invalid tokens, naming them", async () => {
    const usage = (message: RegExp) =>
      expect.objectContaining({ code: "usage", message: expect.stringMatching(message) });
    await expect(engine.generate([[3], []], GREEDY)).rejects.toEqual(
      usage(/^prompt 2 is empty; give at least one token, such as BOS$/),
    );
    await expect(engine.topNext([[]], { count: 1 })).rejects.toEqual(usage(/^text 1 is empty/));
    await expect(engine.scoreContinuations([{ context: [], continuation: [3] }])).rejects.toEqual(
      usage(/^continuation 1 has no context, so nothing predicts its first token; begin with the BOS token$/),
    );
    for (const id of [20, -1, 1.5, Number.NaN]) {
      const refusal = usage(new RegExp(`^(prompt|text) 1 has the token ${id}; the tokens of qwen2 are 0 to 19$`));
      await expect(engine.generate([[3, id]], GREEDY)).rejects.toEqual(refusal);
      await expect(engine.score([[3, id]])).rejects.toEqual(refusal);
      await expect(engine.scoreContinuations([{ context: [3], continuation: [id] }])).rejects.toEqual(refusal);
    }
  });

  it.each([
    [{ maxNewTokens: -1 }, /^maxNewTokens is -1; it must be a whole number, at least 0$/],
    [{ maxNewTokens: Number.NaN }, /^maxNewTokens is NaN/],
    [{ temperature: -0.1 }, /^temperature is -0.1; it must be a number, at least 0$/],
    [{ temperature: Number.NaN }, /^temperature is NaN/],
    [{ topK: 0 }, /^topK is 0; it must be a whole number, at least 1$/],
    [{ topK: 1.5 }, /^topK is 1.5/],
    [{ topP: 1.1 }, /^topP is 1.1; it must be a number from 0 to 1$/],
    [{ batch: 0 }, /^batch is 0; it must be a whole number, at least 1$/],
    [{ batch: Number.NaN }, /^batch is NaN/],
    [{ stop: [""] }, /^an empty stop text would end every answer; leave it out$/],
  ])("refuses %o", async (options, message) => {
    await expect(engine.generate([[3]], { ...GREEDY, ...options })).rejects.toEqual(
      expect.objectContaining({ code: "usage", message: expect.stringMatching(message) }),
    );
  });

  it("reports a missing tokenizer where text is needed", async () => {
    for (const options of [{ stop: ["x"] }, { onText: () => undefined }]) {
      await expect(engine.generate([[3]], { ...GREEDY, ...options })).rejects.toThrow(/qwen2 has no tokenizer\.json/);
    }
    await expect(engine.tokenizer()).rejects.toThrow(/no tokenizer\.json; copy tokenizer\.json/);
    expect(await engine.chatTemplate()).toBeUndefined();
  });

  it("refuses calls after close", async () => {
    const closed = await open(golden("qwen2").folder);
    await closed.close();
    await closed.close();
    for (const work of [
      () => closed.generate([[3]], GREEDY),
      () => closed.score([[3, 4]]),
      () => closed.topNext([[3]], { count: 1 }),
    ]) {
      const error = await work().catch((caught: unknown) => caught);
      expect(error).toBeInstanceOf(LayergraftError);
      expect((error as Error).message).toMatch(/closed/);
    }
  });
});
