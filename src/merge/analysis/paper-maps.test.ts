// The published maps, at other depths, and the rank correlation with them: against numpy, and against a plain definition.
import { readFileSync } from "node:fs";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { atDepth, paperLikeness, paperMaps } from "./paper-maps.js";

const COLUMNS = ["q", "k", "v", "o", "gate", "up", "down"];
const SHIPPED = JSON.parse(readFileSync(new URL("../../../assets/paper/heatmaps.json", import.meta.url), "utf8")) as {
  source: string;
  rights: string;
  experts: { name: string; kind: string; layers: number[][] }[];
};
const mapOf = (name: string) => SHIPPED.experts.find((one) => one.name === name)?.layers ?? [];

it("ships 1,344 shares of 4,096 or 14,336 rows with their source, but for the six that its note names", () => {
  expect(SHIPPED.source).toContain("arXiv 2410.01335");
  const cells = SHIPPED.experts.flatMap(({ name, layers }) =>
    layers.flatMap((row, layer) => row.map((share, c) => ({ share, rows: c === 6 ? 14336 : 4096, name, layer, c }))),
  );
  expect(cells).toHaveLength(1344);
  const off = cells.filter(({ share, rows }) => Math.abs(Math.round(share * rows) / rows - share) > 6e-7);
  expect(off.map(({ name, layer, c }) => `${name} ${layer} ${COLUMNS[c]}`).sort()).toEqual([
    ...["japanese-1 24 v", "math-2 31 up", "math-2 8 down", "swahili-1 24 o", "telugu-1 24 v", "telugu-1 30 v"],
  ]);
});

it("matches layers by relative position: halves of the depth keep their mean at any depth", () => {
  const map = mapOf("math-1");
  expect(atDepth(map, 32)).toEqual(map);
  const quarter = atDepth(map, 8);
  expect(quarter[7]?.[6]).toBeCloseTo(([28, 29, 30, 31].reduce((sum, l) => sum + (map[l]?.[6] ?? 0), 0) ?? 0) / 4, 12);
  // Of three layers between 0 and 1, the middle one covers half of each of two.
  expect(atDepth([[0], [1]], 3).flat()).toEqual([0, 0.5, 1].map((value) => expect.closeTo(value, 12)));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 100 }), (layers) => {
      const mean = (cells: readonly (readonly (number | null)[])[]) =>
        cells.reduce((sum, row) => sum + (row[3] ?? 0), 0) / cells.length;
      expect(mean(atDepth(map, layers))).toBeCloseTo(mean(map), 9);
    }),
  );
});

it("has null for matrices that the paper does not have", () => {
  const [math, language] = paperMaps(32, ["gate_up", "down"]);
  expect([math, language]).toMatchObject([
    { kind: "math", maps: 2 },
    { kind: "language", maps: 4 },
  ]);
  expect(math?.cells[5]).toEqual([null, expect.closeTo((0.003836 + (mapOf("math-2")[5]?.[6] ?? 0)) / 2, 9)]);
});

/** An analysis of one expert with 10,000 rows in each cell, of which these shares are above 1.9e-5. */
function likenessOf(shares: readonly (readonly number[])[]) {
  const cells = shares.flatMap((row, layer) => row.map((share, c) => ({ share, layer, name: COLUMNS[c] as "q" })));
  const tensors = cells.map(({ layer, name }) => ({
    ...{ tensor: `${layer} ${name}`, shape: [10_000, 1], layer, part: `${name}_proj` as const, experts: [], pairs: [] },
  }));
  const rows = new Map(
    cells.map(({ share, layer, name }) => [
      `e/${layer} ${name}`,
      Float32Array.from({ length: 10_000 }, (_, i) => (i < Math.round(10_000 * share) ? 3e-5 : 0)),
    ]),
  );
  const thresholds = [{ name: "paper", values: [1.9e-5] }];
  return paperLikeness({ layers: shares.length, experts: ["e"], thresholds, tensors }, rows);
}

it("is the mean of Spearman's correlations with the maps of a kind, with an interval over layers", () => {
  const [math, language] = likenessOf(mapOf("telugu-1"));
  // numpy 2: corrcoef of average ranks of the shares as they are printed; 10,000 rows round them.
  expect(math).toMatchObject({ expert: "e", kind: "math", maps: 2 });
  expect(math?.at.map(({ threshold }) => threshold)).toEqual(["paper-fine", "paper"]);
  for (const { correlation, interval } of math?.at ?? []) {
    expect(correlation).toBeCloseTo(0.5618, 2);
    expect([interval?.low, interval?.high]).toEqual([expect.closeTo(0.239, 2), expect.closeTo(0.7727, 2)]);
  }
  expect(language?.at[1]?.correlation).toBeCloseTo(0.8592, 2);
});

it("says that a map is the same everywhere, and gives no interval of few layers", () => {
  expect(likenessOf(mapOf("math-1").map((row) => row.map(() => 1)))[0]?.at[0]).toMatchObject({
    ...{ correlation: null, interval: null },
  });
  const [few] = likenessOf(atDepth(mapOf("math-1"), 3) as number[][]);
  expect(few?.at[1]?.correlation).toBeGreaterThan(0.8);
  expect(few?.at[1]?.interval).toBeNull();
});
