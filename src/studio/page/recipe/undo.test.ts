import { expect, it } from "vitest";
import { Undo } from "./undo.js";

it("texts come back in their order, and are gone once another change follows", () => {
  const undo = new Undo(1000);
  undo.changed("a");
  undo.changed("b");
  expect([undo.canUndo.value, undo.canRedo.value]).toEqual([true, false]);
  expect([undo.undo("c"), undo.undo("b"), undo.undo("a")]).toEqual(["b", "a", undefined]);
  expect([undo.canUndo.value, undo.canRedo.value]).toEqual([false, true]);
  expect([undo.redo("a"), undo.redo("b"), undo.redo("c")]).toEqual(["b", "c", undefined]);
  expect(undo.undo("c")).toBe("b");
  undo.changed("b");
  expect([undo.redo("d"), undo.undo("d"), undo.undo("b"), undo.undo("a")]).toEqual([undefined, "b", "a", undefined]);
  undo.forget();
  expect(undo.canRedo.value).toBe(false);
});

it("what is typed in quick succession is undone together, but not with a click or what was undone in between", () => {
  const undo = new Undo(1000);
  undo.changed("", 0);
  undo.changed("a", 900);
  undo.changed("ab", 1800);
  expect([undo.undo("abc"), undo.undo("")]).toEqual(["", undefined]);
  undo.changed("", 1900);
  undo.changed("a");
  undo.changed("b", 2000);
  expect([undo.undo("c"), undo.undo("b"), undo.undo("a")]).toEqual(["b", "a", ""]);
});

it("200 changes are kept", () => {
  const undo = new Undo(1000);
  for (let i = 0; i <= 200; i++) undo.changed(`${i}`);
  const texts = Array.from({ length: 201 }, (_, i) => undo.undo(`${201 - i}`));
  expect(texts.slice(-2)).toEqual(["1", undefined]);
});
