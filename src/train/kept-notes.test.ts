// What is said of a change that saving loses, before a run and after it.
import { expect, it } from "vitest";
import { expectedNotes, keptNotes } from "./kept-notes.js";

const kept = (elements: number) => ({ dtype: "bfloat16" as const, elements, error: 0.5 });
const asFlag = (field: string, value: string) => `Pass --${field} ${value}`;

it("names the field of a file, or the flag of a command", () => {
  expect(keptNotes(kept(0.25))).toEqual([
    "saving as bfloat16 keeps 25.0% of the changed elements; the change is off by 50.0%. Set save_dtype: float32 to keep all of it",
  ]);
  expect(expectedNotes(kept(0.25), asFlag)).toEqual([
    "saving as bfloat16 may lose about 75% of the changed elements, an estimate. Pass --save_dtype float32 to keep all of it",
  ]);
  expect(expectedNotes(kept(0.001))[0]).toMatch(/^saving as bfloat16 may lose nearly all of the changed elements/);
});

it("is silent where little or nothing is lost", () => {
  for (const some of [undefined, kept(0.95)]) expect([...keptNotes(some), ...expectedNotes(some)]).toEqual([]);
});
