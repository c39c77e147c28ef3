// The board against the recipes that it writes and reads, and against the planner's own owners.
import { basename, join } from "node:path";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { planMerge } from "../../index.js";
import { OUTPUT_FIELDS } from "../../merge/recipe/output-fields.js";
import { outputFields } from "../../merge/recipe/recipe.js";
import {
  assign,
  type Board,
  boardOfOne,
  boardOfRecipe,
  describeBoard,
  differenceOf,
  layersOf,
  rangesOf,
  recipeOfBoard,
} from "./board.js";

const LAYERS = 5;
const owners = (sources: readonly string[]) =>
  fc.subarray([...sources], { minLength: 1 }).map((some) => [...some].sort());
const boards = (sources: readonly string[]): fc.Arbitrary<Board> =>
  fc.record({
    rows: fc.array(fc.record({ attention: owners(sources), mlp: owners(sources) }), {
      minLength: LAYERS,
      maxLength: LAYERS,
    }),
    outside: owners(sources),
  });
const wholeBoards = boards(["a", "b"]).map((board) => ({
  ...board,
  rows: board.rows.map(({ mlp }) => ({ attention: mlp, mlp })),
}));

it("reads the board that it wrote", () => {
  fc.assert(
    fc.property(fc.oneof(boards(["a", "b", "c"]), wholeBoards), (board) => {
      expect(boardOfRecipe(recipeOfBoard(board), LAYERS)).toEqual(board);
    }),
  );
});

it("writes a swap where two models suffice", () => {
  const only = boardOfOne("math", 8);
  expect(recipeOfBoard(only)).toEqual({ method: "passthrough", slices: [{ model: "math" }] });
  const whole = ["attention", "mlp"] as const;
  const bottom = assign(only, { from: 1, to: 0, halves: whole }, "swahili", false);
  const both = assign(bottom, { from: 7, to: 7, halves: whole }, "swahili", false);
  expect(recipeOfBoard(both)).toEqual({
    ...{ method: "swap", task: "math", language: "swahili", bottom: 2, top: 1, outside: "task" },
  });
  const averaged = assign(assign(both, { from: 2, to: 2, halves: whole }, "swahili", true), "outside", "swahili", true);
  const swap = { method: "swap", task: "math", language: "swahili", bottom: 2, top: 1, bottom_transition: 1 };
  expect(recipeOfBoard(averaged)).toEqual(swap);
  const scattered = assign(averaged, { from: 5, to: 5, halves: whole }, "swahili", false);
  expect(recipeOfBoard(scattered)).toEqual({
    ...{ method: "swap", task: "math", language: "swahili", layers: { language: "0-1,5,7", average: "2" } },
  });
  const half = assign(scattered, { from: 5, to: 5, halves: ["mlp"] }, "math", false);
  expect(recipeOfBoard(half)).toMatchObject({ method: "soup" });
  // A model cannot leave the last place that it has.
  expect(assign(only, "outside", "math", true)).toEqual(only);
});

it("reads ranges as the planner does, and leaves what it cannot say", () => {
  expect(layersOf("0-2, 4", 6)).toEqual([0, 1, 2, 4]);
  expect(layersOf([3, 1], 6)).toEqual([3, 1]);
  expect(layersOf("x", 6)).toBeUndefined();
  expect(rangesOf([0, 1, 2, 4, 5])).toBe("0-2,4-5");
  for (const recipe of [
    { method: "ties", models: ["a"], base: "b" },
    { method: "swap", task: { method: "soup" }, language: "b", bottom: 1, top: 1 },
    { method: "swap", task: "a", language: "b", bottom: 4, top: 4 },
    { method: "soup", models: [{ model: "a", weight: 0.5 }, "b"] },
    { method: "soup", models: [{ model: "a", weight: [{ tensors: "*", value: 1 }] }, "b"] },
    { method: "passthrough", slices: [{ model: "a", layers: "0-2" }] },
  ]) {
    expect(boardOfRecipe(recipe, LAYERS)).toBeUndefined();
  }
});

it("means the owners that the plan has", async () => {
  const folder = temporaryFolder();
  const names = ["a", "b", "c"];
  for (const [seed, name] of names.entries()) await writeTiny(join(folder, name), { seed });
  const { layers } = await planMerge({ method: "soup", models: names }, { folder });
  await fc.assert(
    fc.asyncProperty(boards(names), async ({ rows, outside }) => {
      const board = {
        rows: Array.from({ length: layers }, (_, i) => rows[i % rows.length] ?? rows[0]),
        outside,
      } as Board;
      const { summary, sources } = await planMerge(recipeOfBoard(board) as never, { folder });
      const nameOf = new Map(sources.map(({ id, folder: at }) => [id, basename(at)]));
      for (const { layer, origins } of summary.ownership) {
        const cells = layer === null ? [board.outside] : Object.values(board.rows[layer] ?? {});
        const found = origins.map((origin) =>
          origin
            .map((label) => nameOf.get(label))
            .sort()
            .join(),
        );
        expect(new Set(found)).toEqual(new Set(cells.map((cell) => cell.join())));
      }
    }),
    { numRuns: 20 },
  );
});

it("says what a board is, and where two differ", () => {
  const only = boardOfOne("a", 8);
  const some = assign(assign(only, { from: 2, to: 4, halves: ["mlp"] }, "b", false), "outside", "b", true);
  const called = (source: string) => (source === "a" ? "math" : "swahili");
  expect(describeBoard(some, called)).toBe(
    "Layers 0-1, 5-7: math. Attention of layers 2-4: math. MLP of layers 2-4: swahili. Embeddings, last norm and output head: the average of math and swahili.",
  );
  expect(differenceOf(only, some)).toBe("layers 2-4, outside the layers");
  expect(differenceOf(some, some)).toBe("");
  fc.assert(
    fc.property(boards(["a", "b"]), boards(["a", "b"]), (one, other) => {
      const layers = /layers? ([\d, -]+)/.exec(differenceOf(one, other))?.[1] ?? "";
      const differing = one.rows.flatMap((row, i) => (JSON.stringify(row) === JSON.stringify(other.rows[i]) ? [] : i));
      expect(layersOf(layers.replace(/, $/, "") || [], LAYERS)).toEqual(differing);
    }),
  );
});

it("reads a swap with every field of the output, and knows all of these", () => {
  expect(OUTPUT_FIELDS).toEqual(Object.keys(outputFields));
  const swap = { method: "swap", task: "math", language: "swahili", bottom: 1, top: 1 };
  const written = Object.fromEntries(OUTPUT_FIELDS.map((field) => [field, "x"]));
  expect(boardOfRecipe({ ...swap, ...written }, LAYERS)).toEqual(boardOfRecipe(swap, LAYERS));
});
