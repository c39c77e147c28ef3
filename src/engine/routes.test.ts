// Agreement, load and entropy of routes, and the sentence about a broken merge, against values worked out by hand.
import { describe, expect, it } from "vitest";
import type { RoutingSpec } from "../families/index.js";
import { type Routing, routingSentences } from "../merge/analysis/index.js";
import type { Route } from "./hidden-states.js";
import { RouteRecord, routingOf } from "./routes.js";

const spec = { experts: 4, chosen: 2, scores: "softmax" } as RoutingSpec;

/** Tokens of one layer by the experts that each chooses. */
const route = (
  layer: number,
  chosen: readonly (readonly number[])[],
  logits: readonly number[] = [0, 0, 0, 0],
): Route => ({
  layer,
  chosen: BigInt64Array.from(chosen.flat(), BigInt),
  logits: Float32Array.from(chosen.flatMap(() => logits)),
});

const recordOf = (texts: readonly (readonly Route[])[], own = spec) => {
  const record = new RouteRecord(own);
  for (const text of texts) record.add(text);
  return record;
};

describe("routes", () => {
  it("count shared experts token by token, whatever their order", () => {
    const one = recordOf([
      [
        route(1, [
          [0, 1],
          [2, 3],
        ]),
      ],
      [route(1, [[0, 2]])],
    ]);
    const other = recordOf([
      [
        route(1, [
          [1, 0],
          [3, 0],
        ]),
      ],
      [route(1, [[1, 3]])],
    ]);
    const routing = routingOf([one, other], spec, []);
    // 2, 1 and 0 of 2.
    expect(routing?.layers).toMatchObject([{ layer: 1, pairs: [0.5] }]);
    expect(routing?.tokens).toBe(3);
    expect(routing?.layers[0]?.models[0]?.load).toEqual([2 / 6, 1 / 6, 2 / 6, 1 / 6]);
  });

  it("have the entropy of the shares of all experts, 1 where they are equal", () => {
    const entropy = (logits: readonly number[], scores: RoutingSpec["scores"]) =>
      recordOf(
        [
          [
            route(
              0,
              [
                [0, 1],
                [1, 2],
              ],
              logits,
            ),
          ],
        ],
        { ...spec, scores },
      ).figures(0).entropy;
    expect(entropy([3, 3, 3, 3], "softmax")).toBeCloseTo(1, 12);
    expect(entropy([100, 100, -100, -100], "chosen")).toBeCloseTo(0.5, 12);
    expect(entropy([800, 0, 0, 0], "softmax")).toBe(0);
    // Shares 4/10, 3/10, 2/10, 1/10 from sigmoids 0.8, 0.6, 0.4, 0.2.
    const logits = [0.8, 0.6, 0.4, 0.2].map((p) => Math.log(p / (1 - p)));
    const wanted = -[0.4, 0.3, 0.2, 0.1].reduce((sum, p) => sum + p * Math.log(p), 0) / Math.log(4);
    expect(entropy(logits, "sigmoid")).toBeCloseTo(wanted, 6);
  });

  it("are absent where no token was read", () => {
    expect(routingOf([recordOf([[]]), recordOf([[]])], spec, [])).toBe(undefined);
  });
});

describe("the sentence about a merge", () => {
  const routing = (withMath: number, withSwahili: number, between: number): Routing => ({
    ...{ experts: 4, chosen: 2, tokens: 9, merges: [3] },
    // Pairs of base, math, swahili and soup.
    layers: [
      { layer: 0, models: Array(4).fill({ load: [], entropy: 1 }), pairs: [1, 1, 1, 1, 1, 1] },
      { layer: 1, models: Array(4).fill({ load: [], entropy: 1 }), pairs: [0, 0, 0, between, withMath, withSwahili] },
    ],
  });
  const experts = ["math", "swahili", "soup"];

  it("says that routing is broken where a merge is less like each parent than they are like each other", () => {
    expect(routingSentences({ routing: routing(0.6, 0.55, 0.8), experts })).toEqual([
      "The routing of soup is broken in 1 of 2 layers, most in layer 1: it shares 60.0% with math and 55.0% with swahili, " +
        "which share 80.0% with each other (chance: 50.0%). Calibrate its routers with the method harc.",
    ]);
  });

  it("says that it holds where the merge is like one parent, or its distance is small", () => {
    const holds = [
      "The routing of soup holds: in every layer, it shares about as many experts with a parent as the parents share, or more.",
    ];
    expect(routingSentences({ routing: routing(0.9, 0.1, 0.8), experts })).toEqual(holds);
    expect(routingSentences({ routing: routing(0.78, 0.77, 0.8), experts })).toEqual(holds);
    expect(routingSentences({ routing: { ...routing(0, 0, 1), merges: [] }, experts })).toEqual([]);
    expect(routingSentences({ experts })).toEqual([]);
  });
});
