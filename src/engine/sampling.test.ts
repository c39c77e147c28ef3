// Drawing tokens against a plain reference that sorts: which tokens can be drawn, and how often each is.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mostLikely, type SamplingOptions, sampleToken, topLogprobs } from "./sampling.js";

/** Probabilities by token, from the definitions: temperature, the k most likely, the nucleus of those, those near the first. */
function probabilities(logits: Float32Array, options: SamplingOptions) {
  const { temperature = 0, topK = logits.length, topP = 1, minP = 0 } = options;
  const order = [...logits.keys()].sort((a, b) => (logits[b] as number) - (logits[a] as number) || a - b);
  if (temperature === 0) return new Map([[order[0] as number, 1]]);
  const most = Math.max(...logits);
  const shares = order.slice(0, topK).map((id) => Math.exp(((logits[id] as number) - most) / temperature));
  const total = shares.reduce((a, b) => a + b, 0);
  const kept: number[] = [];
  for (const share of shares) if (kept.length === 0 || sum(kept) < topP * total) kept.push(share);
  const likely = kept.filter((share) => share >= minP);
  return new Map(likely.map((share, i) => [order[i] as number, share / sum(likely)]));
}

const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);

/** How often each token is drawn where chance takes every value of a grid once. */
function draws(logits: Float32Array, options: SamplingOptions, count: number): Map<number, number> {
  const found = new Map<number, number>();
  for (let i = 0; i < count; i++) {
    const id = sampleToken(logits, options, { float: () => (i + 0.5) / count }) as number;
    found.set(id, (found.get(id) ?? 0) + 1);
  }
  return found;
}

// Few different values, so that there are ties; none so near to another that their shares are one number.
const logitsOf = fc
  .array(
    fc.oneof(
      fc.integer({ min: -3, max: 3 }),
      fc.integer({ min: -4000, max: 4000 }).map((x) => x / 1000),
    ),
    {
      minLength: 1,
      maxLength: 80,
    },
  )
  .map((list) => Float32Array.from(list));

describe("sampling", () => {
  it("has the probabilities of temperature, top-k and top-p", () => {
    const options = fc.record(
      {
        temperature: fc.constantFrom(0, 0.3, 1, 2.5),
        topK: fc.integer({ min: 1, max: 90 }),
        // No sum of shares is so near to one of these that rounding could decide.
        topP: fc.constantFrom(0, 0.1234567, 0.5000123, 0.9012345, 1),
        minP: fc.constantFrom(0, 0.0512345, 0.4000123, 1),
      },
      { requiredKeys: [] },
    );
    const count = 300;
    fc.assert(
      fc.property(logitsOf, options, (logits, chosen) => {
        const wanted = probabilities(logits, chosen);
        const found = draws(logits, chosen, count);
        for (const id of found.keys()) expect(wanted.has(id)).toBe(true);
        // An interval of length p holds p n of n points, but for one.
        for (const [id, p] of wanted) expect(Math.abs((found.get(id) ?? 0) - p * count)).toBeLessThanOrEqual(1 + 1e-6);
      }),
      { numRuns: 100 },
    );
  });

  it("keeps the token that reaches top-p, and the smaller ids of equal tokens", () => {
    const logits = Float32Array.from([0.1, 0.2, 0.2, 0.1, 0.2, 0.2], Math.log);
    expect([...draws(logits, { temperature: 1, topP: 0.5 }, 90).keys()].sort()).toEqual([1, 2, 4]);
    expect([...draws(logits, { temperature: 1, topP: 0.3 }, 90).keys()].sort()).toEqual([1, 2]);
    expect([...draws(logits, { temperature: 1, topP: 0.85 }, 90).keys()].sort()).toEqual([0, 1, 2, 4, 5]);
    expect([...draws(logits, { temperature: 1, topK: 3 }, 90).keys()].sort()).toEqual([1, 2, 4]);
    // Of the three of top-k, each is a third.
    expect([...draws(logits, { temperature: 1, topK: 3, topP: 0.5 }, 90).keys()].sort()).toEqual([1, 2]);
  });

  it("returns a token for any numbers, and none for NaN", () => {
    for (const value of [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, 0]) {
      for (const options of [{}, { temperature: 1 }, { temperature: 1, topK: 2 }, { temperature: 0.5, topP: 0.5 }]) {
        const id = sampleToken(new Float32Array(5).fill(value), options, { float: () => 0.3 });
        expect(id).toBeGreaterThanOrEqual(0);
        expect(id).toBeLessThan(5);
      }
    }
    const broken = Float32Array.of(0, 1, Number.NaN, 2);
    for (const options of [{}, { temperature: 1 }, { temperature: 1, topK: 1 }, { temperature: 1, topP: 0.1 }]) {
      expect(sampleToken(broken, options, { float: () => 0.3 })).toBeUndefined();
    }
    const masked = Float32Array.of(Number.NEGATIVE_INFINITY, 1, Number.NEGATIVE_INFINITY);
    expect([...draws(masked, { temperature: 2 }, 50).keys()]).toEqual([1]);
  });
});

describe("the most likely tokens", () => {
  it("are the largest logits in order, with smaller ids first among equal ones", () => {
    fc.assert(
      fc.property(logitsOf, fc.integer({ min: 1, max: 100 }), (logits, count) => {
        const order = [...logits.keys()].sort((a, b) => (logits[b] as number) - (logits[a] as number) || a - b);
        expect(mostLikely(logits, count)).toEqual(order.slice(0, count));
      }),
    );
    expect(mostLikely(Float32Array.of(1, Number.NaN, Number.NEGATIVE_INFINITY, 2), 4)).toEqual([3, 0, 1, 2]);
  });

  it("have log-probabilities over the whole vocabulary", () => {
    const logits = Float32Array.from([0.5, 0.125, 0.375], Math.log);
    const [first, second, ...rest] = topLogprobs(logits, 2);
    expect(rest).toEqual([]);
    expect(first).toEqual({ id: 0, logprob: expect.closeTo(Math.log(0.5), 6) });
    expect(second).toEqual({ id: 2, logprob: expect.closeTo(Math.log(0.375), 6) });
    expect(topLogprobs(Float32Array.of(1000, -1000), 5)).toEqual([
      { id: 0, logprob: 0 },
      { id: 1, logprob: -2000 },
    ]);
  });
});
