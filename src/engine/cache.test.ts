// Rows that come, grow, move and go, against plain lists of what each holds.
import fc from "fast-check";
import { expect, it } from "vitest";
import { specOf } from "../../test/support/golden-decoders.js";
import { KeyValueCache } from "./key-value-cache.js";
import { FEEDS, pastKey, pastValue } from "./model/decoder-graph.js";

const [LAYERS, HEADS, WIDTH] = [2, 2, 3];
const llama = specOf("llama");
const spec = { ...llama, layers: llama.layers.map((layer) => ({ ...layer, kvHeads: HEADS, headDim: WIDTH })) };

/** What is fed must be the rows as they should be: absent positions marked, and zeros in them. */
function expectRows(cache: KeyValueCache, rows: readonly (readonly number[])[]): void {
  expect(cache.rows).toBe(rows.length);
  const feeds = cache.feeds();
  const [count, width = 0] = feeds[FEEDS.pastSegments]?.shape ?? [];
  expect(count).toBe(rows.length);
  expect(width).toBeGreaterThanOrEqual(Math.max(0, ...rows.map(({ length }) => length)));
  const everywhere = rows.flatMap((row) => Array.from({ length: width }, (_, at) => row[at]));
  const segments = everywhere.map((token) => (token === undefined ? -1n : 1n));
  expect([...(feeds[FEEDS.pastSegments]?.data ?? [])]).toEqual(segments);
  expect([...(feeds[FEEDS.pastPositions]?.data ?? [])]).toEqual(everywhere.map((_, i) => BigInt(i % width)));
  for (let layer = 0; layer < LAYERS; layer++) {
    for (const [name, kind] of [
      [pastKey(layer), 1],
      [pastValue(layer), 2],
    ] as const) {
      const wanted = rows.flatMap((row) =>
        Array.from({ length: HEADS }, (_, head) =>
          Array.from({ length: width }, (_, at) => elementsOf(row[at], layer, kind, head)),
        ),
      );
      expect(feeds[name]?.shape).toEqual([rows.length, HEADS, width, WIDTH]);
      expect([...(feeds[name]?.data ?? [])]).toEqual(wanted.flat(3));
    }
  }
}

/** What stands for a token: never zero, another for each place. */
const elementsOf = (token: number | undefined, layer: number, kind: number, head: number) =>
  Array.from({ length: WIDTH }, (_, e) =>
    token === undefined ? 0 : token * 100 + layer * 40 + kind * 20 + head * 5 + e,
  );

/** New positions of all rows as a run gives them, [B, K, T, E], padded with what is not a number. */
function newPositions(tokens: readonly (readonly number[])[], time: number) {
  const tensor = (layer: number, kind: number) =>
    Float32Array.from(
      tokens.flatMap((list) =>
        Array.from({ length: HEADS }, (_, head) =>
          Array.from({ length: time }, (_, at) =>
            list[at] === undefined ? Array(WIDTH).fill(Number.NaN) : elementsOf(list[at], layer, kind, head),
          ),
        ).flat(2),
      ),
    );
  return Array.from({ length: LAYERS }, (_, layer) => ({ key: tensor(layer, 1), value: tensor(layer, 2) }));
}

function append(cache: KeyValueCache, tokens: readonly (readonly number[])[]): void {
  const time = Math.max(...tokens.map(({ length }) => length));
  cache.append(
    newPositions(tokens, time),
    time,
    tokens.map(({ length }) => length),
  );
}

it("has what was appended to each row, after any additions and removals", () => {
  const row = fc.array(fc.integer({ min: 1, max: 999 }), { maxLength: 30 });
  const step = fc.oneof(
    fc.record({ kind: fc.constant("add" as const) }),
    fc.record({ kind: fc.constant("copy" as const), tokens: row }),
    fc.record({ kind: fc.constant("remove" as const), at: fc.nat() }),
    fc.record({ kind: fc.constant("reserve" as const), positions: fc.integer({ min: 0, max: 150 }) }),
    fc.record({ kind: fc.constant("append" as const), tokens: fc.array(row, { minLength: 5, maxLength: 5 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 14 }), fc.integer({ min: 0, max: 40 }), (steps, width) => {
      const most = 5;
      const cache = new KeyValueCache(spec, most, width);
      const rows: number[][] = [];
      for (const one of steps) {
        if (one.kind === "reserve") cache.reserve(one.positions);
        else if (one.kind === "remove") {
          if (rows.length === 0) continue;
          const at = one.at % rows.length;
          cache.remove(at);
          const last = rows.pop() as number[];
          if (at < rows.length) rows[at] = last;
        } else if (one.kind === "append") {
          const tokens = one.tokens.slice(0, rows.length);
          if (!tokens.some(({ length }) => length > 0)) continue;
          append(cache, tokens);
          for (const [i, list] of tokens.entries()) rows[i]?.push(...list);
        } else if (rows.length === most) {
          expect(() => cache.add()).toThrow(RangeError);
        } else if (one.kind === "add") {
          expect(cache.add()).toBe(rows.push([]) - 1);
        } else {
          const other = new KeyValueCache(spec, 2);
          other.add();
          other.add();
          append(other, [
            [7, 7, 7],
            [...one.tokens, 8],
          ]);
          expect(cache.addCopy(other, 1)).toBe(rows.push([...one.tokens, 8]) - 1);
        }
        expectRows(cache, rows);
      }
    }),
    { numRuns: 40 },
  );
});
