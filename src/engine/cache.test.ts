// Rows that come, grow, move and go, against plain lists of what each holds.
import fc from "fast-check";
import { expect, it } from "vitest";
import { specOf } from "../../test/support/golden-decoders.js";
import { KeyValueCache } from "./key-value-cache.js";
import { FEEDS, pastInputs, pastKey, pastState, pastValue } from "./model/feeds.js";

// The middle one of three layers attends; the others convolve.
const [HEADS, WIDTH, KERNEL] = [2, 3, 4];
const lfm2 = specOf("lfm2");
const state = { heads: HEADS, keyHeads: 1, keyWidth: 1, valueWidth: WIDTH };
const recurrence = { kind: "delta", kernel: KERNEL, channels: WIDTH, state } as const;
const layers = lfm2.layers.map((layer) => ({ ...layer, kvHeads: HEADS, headDim: WIDTH, valueDim: WIDTH }));
const spec = { ...lfm2, layers, recurrence };
const FEED_NAMES = [pastInputs(0), pastState(0), pastKey(1), pastValue(1), pastInputs(2), pastState(2)];

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
  for (const [part, name] of FEED_NAMES.entries()) {
    if (isState(name)) {
      expect(feeds[name]?.shape).toEqual([rows.length, HEADS, 1, WIDTH]);
      expect([...(feeds[name]?.data ?? [])]).toEqual(rows.flatMap((row) => stateOf(row, part)));
      continue;
    }
    if (isWindow(name)) {
      // The last positions, after zeros where the text is shorter.
      const window = (row: readonly number[]) => [...Array(KERNEL - 1), ...row].slice(1 - KERNEL);
      expect(feeds[name]?.shape).toEqual([rows.length, KERNEL - 1, WIDTH]);
      expect([...(feeds[name]?.data ?? [])]).toEqual(
        rows.flatMap((row) => window(row).flatMap((token) => elementsOf(token, part, 0))),
      );
      continue;
    }
    const wanted = rows.flatMap((row) =>
      Array.from({ length: HEADS }, (_, head) =>
        Array.from({ length: width }, (_, at) => elementsOf(row[at], part, head)),
      ),
    );
    expect(feeds[name]?.shape).toEqual([rows.length, HEADS, width, WIDTH]);
    expect([...(feeds[name]?.data ?? [])]).toEqual(wanted.flat(3));
  }
}

const isState = (name: string) => name.endsWith("state");

/** What stands for the state after a text: its last token. */
const stateOf = (row: readonly number[], part: number) =>
  Array.from({ length: HEADS }, (_, head) => elementsOf(row.at(-1), part, head)).flat();

const isWindow = (name: string) => name.endsWith("inputs");

/** What stands for a token: never zero, another for each place. */
const elementsOf = (token: number | undefined, part: number, head: number) =>
  Array.from({ length: WIDTH }, (_, e) => (token === undefined ? 0 : token * 100 + part * 20 + head * 5 + e));

/**
 * New positions of all rows as a run gives them, [B, K, T, E] or [B, T, C], padded with what is not a number, and new states.
 * @param before tokens of the rows until then
 */
function newPositions(tokens: readonly (readonly number[])[], time: number, before: readonly (readonly number[])[]) {
  return FEED_NAMES.map((name, part) => {
    if (isState(name))
      return Float32Array.from(tokens.flatMap((list, i) => stateOf([...(before[i] ?? []), ...list], part)));
    return Float32Array.from(
      tokens.flatMap((list) =>
        Array.from({ length: isWindow(name) ? 1 : HEADS }, (_, head) =>
          Array.from({ length: time }, (_, at) =>
            list[at] === undefined ? Array(WIDTH).fill(Number.NaN) : elementsOf(list[at], part, head),
          ),
        ).flat(2),
      ),
    );
  });
}

function append(cache: KeyValueCache, tokens: readonly (readonly number[])[], before: readonly (readonly number[])[]) {
  const time = Math.max(...tokens.map(({ length }) => length));
  cache.append(
    newPositions(tokens, time, before),
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
          append(cache, tokens, rows);
          for (const [i, list] of tokens.entries()) rows[i]?.push(...list);
        } else if (rows.length === most) {
          expect(() => cache.add()).toThrow(RangeError);
        } else if (one.kind === "add") {
          expect(cache.add()).toBe(rows.push([]) - 1);
        } else {
          const other = new KeyValueCache(spec, 2);
          other.add();
          other.add();
          append(
            other,
            [
              [7, 7, 7],
              [...one.tokens, 8],
            ],
            [],
          );
          expect(cache.addCopy(other, 1)).toBe(rows.push([...one.tokens, 8]) - 1);
        }
        expectRows(cache, rows);
      }
    }),
    { numRuns: 40 },
  );
});
