import { expect, it } from "vitest";
import type { ShownProgress } from "../../figures/progress.js";
import type { Counts, RunEvent } from "../run/run-experiment.js";
import { describeCounts, progressOf } from "./progress.js";

const counts = (done: number, more: Partial<Counts> = {}): Counts => ({
  ...{ done, running: 2, failed: 0, left: 8 - done, waiting: 0 },
  ...more,
});
const done = (label: string, score?: number, scale?: "points"): RunEvent => ({
  ...{ event: "done", label, kind: "evaluate", key: label, seconds: 1.5 },
  ...(score === undefined ? {} : { score }),
  ...(scale === undefined ? {} : { scale }),
});

it("prints a line for steps that end, stop or are retried", () => {
  const notes: string[] = [];
  const states: ShownProgress[] = [];
  const show = progressOf({
    update: (state) => states.push(state),
    note: (text) => notes.push(text),
  });
  const step = { label: "train b", kind: "train", key: "b" } as const;
  show({ ...step, event: "started" }, counts(0));
  show({ ...step, event: "progress", share: 0.42, what: "loss 2.1" }, counts(0));
  show(done("evaluate base on mgsm_sw", 0.2484), counts(1));
  show(done("evaluate base on flores_en-sw", 0.23456, "points"), counts(1));
  show({ ...done("evaluate soup on quiz", 0.375), items: 40 } as RunEvent, counts(1));
  const noted = { event: "done", kind: "evaluate", seconds: 2, notes: ["asked as a chat"] } as const;
  // Many steps have the same note, which is shown once.
  for (const label of ["c", "d"]) show({ ...noted, label, key: label }, counts(1));
  show({ ...step, event: "lost", reason: "stopped" }, counts(1));
  show({ ...step, event: "lost", reason: "its node failed" }, counts(1));
  show({ ...step, event: "failed", reason: "no room" }, counts(1, { failed: 1, running: 0 }));
  expect(notes).toEqual([
    "done    evaluate base on mgsm_sw (24.8, 1.5 s)",
    "done    evaluate base on flores_en-sw (23.46, 1.5 s)",
    "done    evaluate soup on quiz (37.5 on 40 items, 1.5 s)",
    "done    c (2.0 s)",
    "note    c: asked as a chat",
    "done    d (2.0 s)",
    "stopped train b",
    "retry   train b: its node failed",
    "failed  train b: no room",
  ]);
  expect(states[2]).toEqual({ phase: "steps", done: 1, total: 10, detail: "2 running  42% train b (loss 2.1)" });
  expect(states.at(-1)?.detail).toBe("1 failed");
});

it("prints the lines that it is given, and none for an empty one", () => {
  const notes: string[] = [];
  const display = { update() {}, note: (text: string) => notes.push(text), clear() {}, stop() {} };
  const show = progressOf(display, (event) => (event.label === "b" ? "" : `ended ${event.label}`));
  show(done("a"), counts(1));
  show(done("b"), counts(2));
  expect(notes).toEqual(["ended a"]);
});

it("describes counts", () => {
  expect(describeCounts(counts(1, { failed: 1, left: 9, waiting: 20 }))).toBe(
    "1 of about 33 steps done, 2 running, 1 failed",
  );
});
