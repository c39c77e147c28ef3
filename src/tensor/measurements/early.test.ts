import { expect, test } from "vitest";
import { EarlyMeasurements } from "./early.js";

const one = (id: string, ...needs: string[]) => ({ id, needs });
const ids = (begun: readonly { readonly id: string }[]) => begun.map(({ id }) => id);

test("measurements begin in the pass that promises all that they need, with what it promises", () => {
  const early = new EarlyMeasurements([one("s", "a", "b"), one("t", "b"), one("u", "c", "d")], new Map([["z", [7]]]));
  early.promise("a", [1, 2]);
  expect(ids(early.begin())).toEqual([]);
  early.promise("b", [3]);
  expect(ids(early.begin())).toEqual(["t"]);
  early.promise("c", [4]);
  early.promise("d", [5]);
  expect(ids(early.begin())).toEqual(["u"]);
  expect([...early.results]).toEqual([
    ["z", [7]],
    ["b", [3]],
    ["c", [4]],
    ["d", [5]],
  ]);
});

test.each([
  ["begins with what was promised", [1, Number.POSITIVE_INFINITY, 40], []],
  ["differs", [1, 2, 40], ["s"]],
  ["is missing", undefined, ["s"]],
])("a result that %s", (_, found, misled) => {
  const early = new EarlyMeasurements([one("s", "a")], new Map());
  early.promise("a", [1, Number.POSITIVE_INFINITY]);
  early.begin();
  expect(early.misled(new Map(found && [["a", found]]))).toEqual(misled);
});
