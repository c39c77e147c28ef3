// Answers that begin and end at any time: each is, to the bit, what it is alone, with packed and with shared weights.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { golden } from "../../test/support/golden-decoders.js";
import { CancelledError } from "../kit/errors.js";
import { Random } from "../kit/random.js";
import type { BatchRequest, TokenAnswer } from "./decoding-batch.js";
import { type Engine, openEngine } from "./engine.js";
import { estimateTexts } from "./memory/estimate.js";
import { readSpec } from "./model/read-spec.js";
import { openModelSource } from "./model-source.js";
import type { TokenScores } from "./sampling.js";

interface Heard extends TokenAnswer {
  readonly scores: readonly TokenScores[];
  readonly prompt: readonly TokenScores[];
}

type Options = Pick<BatchRequest, "prompt" | "maxNewTokens"> &
  Partial<Pick<BatchRequest, "temperature" | "topP" | "topK" | "top" | "stopIds" | "signal">> & {
    readonly seed: number;
    readonly echo?: boolean;
  };

const batchOf = (engine: Engine, rows = 4) => engine.openBatch(rows);

async function ask(batch: ReturnType<Engine["openBatch"]>, { seed, echo, ...request }: Options): Promise<Heard> {
  const scores: TokenScores[] = [];
  const prompt: TokenScores[] = [];
  const answer = await batch.generate({
    stopIds: new Set([5, 9, 12]),
    ...request,
    random: Random.of(seed, "answer"),
    onPrompt: echo ? (more) => void prompt.push(...more) : undefined,
    onToken: (_, score) => {
      if (score) scores.push(score);
      return undefined;
    },
    onEnd: (_, score) => {
      if (score) scores.push(score);
    },
  });
  return { ...answer, scores, prompt };
}

/** Requests of many kinds; prompts from one token to several passes, where the context has room. */
function requests(count: number, { vocabularySize, contextLength }: Engine): Options[] {
  const random = Random.of(7, "requests");
  return Array.from({ length: count }, (_, seed): Options => {
    const most = contextLength - 25;
    const length = random.chance(0.15) ? random.between(most - 30, most) : random.between(1, 35);
    const echo = random.chance(0.25);
    return {
      seed,
      prompt: Array.from({ length }, () => random.between(6, vocabularySize - 1)),
      maxNewTokens: random.between(echo ? 0 : 1, 25),
      temperature: random.pick([0, 0.7, 1.5]),
      topP: random.pick([1, 0.8]),
      ...(random.chance(0.5) ? { topK: 7 } : {}),
      ...(echo || random.chance(0.5) ? { top: random.between(0, 3) } : {}),
      echo,
    };
  });
}

// Grouped queries with one row per product; windows and two rotations.
describe.each([
  ["llama", false, 1],
  ["llama", true, 2],
  ["gemma3", true, 2],
] as const)("%s, shared weights: %s, threads: %i", (name, shared, threads) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine(golden(name).folder, { threads, shared });
  });
  afterAll(() => engine.close());

  it("gives each request what it gets alone, to the bit", async () => {
    const all = requests(18, engine);
    const alone: Heard[] = [];
    for (const request of all) alone.push(await ask(batchOf(engine), request));
    const batch = batchOf(engine);
    const random = Random.of(8, "arrivals");
    const together = await Promise.all(
      all.map(async (request) => {
        await sleep(random.between(0, 150));
        return ask(batch, request);
      }),
    );
    expect(together).toEqual(alone);
    // The requests differ in how they end, and some are scored.
    expect(new Set(alone.map(({ finish }) => finish))).toEqual(new Set(["stop", "length"]));
    expect(alone.filter(({ prompt }) => prompt.length > 0).length).toBeGreaterThan(2);
  });

  it("scores prompts and new tokens as score does", async () => {
    const text = Array.from({ length: engine.contextLength - 10 }, (_, i) => 6 + (i % 9));
    const heard = await ask(batchOf(engine), {
      prompt: text,
      maxNewTokens: 4,
      top: 2,
      echo: true,
      seed: 1,
      stopIds: new Set(),
    });
    const [expected = []] = await engine.score([[...text, ...heard.ids]]);
    const found = [...heard.prompt, ...heard.scores].map(({ logprob }) => logprob);
    expect(found.length).toBe(expected.length);
    expect(Math.max(...found.map((value, i) => Math.abs(value - (expected[i] ?? 0))))).toBeLessThan(1e-5);
    const next = await engine.topNext([text.slice(0, 9)], { count: 2 });
    const top = heard.prompt[8]?.top ?? [];
    expect(top.map(({ id }) => id)).toEqual(next[0]?.map(({ id }) => id));
    expect(Math.abs((top[1]?.logprob ?? 0) - (next[0]?.[1]?.logprob ?? 1))).toBeLessThan(1e-5);
    // Greedy tokens are the most likely ones.
    for (const [i, { top: most, logprob }] of heard.scores.entries()) {
      expect(most[0]).toEqual({ id: heard.ids[i], logprob });
    }
  });
});

describe("a batch", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine(golden("llama").folder);
  });
  afterAll(() => engine.close());
  const long: Options = { prompt: [6, 7, 8], maxNewTokens: 1000, stopIds: new Set(), seed: 1 };

  it("cancels answers that wait, are read and are under way, and not the others", async () => {
    const batch = batchOf(engine, 2);
    const wanted = await ask(batchOf(engine), { ...long, maxNewTokens: 40 });
    const controllers = Array.from({ length: 5 }, () => new AbortController());
    const ends = controllers.map(({ signal }) => ask(batch, { ...long, signal }).catch((error: unknown) => error));
    const kept = ask(batch, { ...long, maxNewTokens: 40 });
    for (const controller of [controllers[3], controllers[0], controllers[1], controllers[4], controllers[2]]) {
      await sleep(5);
      controller?.abort();
    }
    for (const end of await Promise.all(ends)) expect(end).toBeInstanceOf(CancelledError);
    expect(await kept).toEqual(wanted);
    expect(batch.waiting).toBe(0);
  });

  it("goes on after an error in what hears its tokens", async () => {
    const batch = batchOf(engine, 2);
    const broken = batch.generate({
      ...{ prompt: [6], maxNewTokens: 9, stopIds: new Set<number>(), random: Random.of(1, "") },
      onToken: () => {
        throw new Error("heard enough");
      },
    });
    const other = ask(batch, { ...long, maxNewTokens: 9 });
    await expect(broken).rejects.toThrow("heard enough");
    expect((await other).ids).toHaveLength(9);
    await expect(batch.generate({ ...long, random: Random.of(1, ""), stopIds: new Set(), topP: 2 })).rejects.toThrow(
      "topP is 2",
    );
  });

  it("waits with what does not fit into memory beside the answers under way, and refuses what never fits", async () => {
    const { config, tensors } = await openModelSource(golden("llama").folder);
    const spec = readSpec(config, tensors.keys());
    const most = { ...long, maxNewTokens: 60 };
    const sizeOf = (texts: number) => estimateTexts(spec, { texts, tokens: 63 }).total;
    const run = async (memory: number) => {
      vi.stubEnv("LAYERGRAFT_MEMORY", String(Math.floor(memory)));
      const batch = batchOf(engine, 4);
      let running = 0;
      let together = 0;
      const answers = [1, 2, 3].map(async (seed) => {
        let isFirst = true;
        const answer = await batch.generate({
          ...{ ...most, prompt: [...most.prompt], stopIds: new Set<number>(), random: Random.of(seed, "answer") },
          onToken: () => {
            if (isFirst) together = Math.max(together, ++running);
            isFirst = false;
            return undefined;
          },
        });
        running--;
        return answer;
      });
      return { answers: await Promise.all(answers), together };
    };
    try {
      const all = await run(sizeOf(3));
      const two = await run((sizeOf(2) + sizeOf(3)) / 2);
      const one = await run((sizeOf(1) + sizeOf(2)) / 2);
      expect([all.together, two.together, one.together]).toEqual([3, 2, 1]);
      expect(one.answers).toEqual(all.answers);
      expect(two.answers).toEqual(all.answers);
      await expect(run(sizeOf(1) / 2)).rejects.toMatchObject({ code: "memory" });
    } finally {
      vi.unstubAllEnvs();
    }
  });
});
