// The display of a running experiment: what stays, what is rewritten, and times that do not grow while one waits.
import { describe, expect, it } from "vitest";
import type { Counts, RunEvent } from "../experiment/run/run-experiment.js";
import { describeCounts, progressLine, showExperiment } from "./experiment-progress.js";

const counts = (done: number, more: Partial<Counts> = {}): Counts => ({
  ...{ done, running: 2, failed: 0, left: 10 - done, waiting: 0 },
  ...more,
});
const done = (label: string, score?: number): RunEvent => ({
  ...{ event: "done", label, kind: "evaluate", key: label, seconds: 1.5 },
  ...(score === undefined ? {} : { score }),
});

function displayed(columns: number | undefined) {
  let now = 0;
  const written: string[] = [];
  const stream = { isTTY: columns !== undefined, columns, write: (text: string) => written.push(text) };
  const display = showExperiment(stream as unknown as NodeJS.WriteStream, () => now);
  const at = (seconds: number, event: RunEvent, counted: Counts) => {
    now = seconds;
    display.update(event, counted);
    return written.splice(0).join("");
  };
  return { at };
}

describe("the line", () => {
  const long = "ask layer swap, math-1 x swahili-1, bottom 2, top";

  it("keeps every step's share and the ends of labels, which differ", () => {
    const line = progressLine("3 of 9 steps done", [of(`${long} 0`, 0.42), of(`${long} 1`, 0.07)], 78);
    expect(line).toBe("3 of 9 steps done   42% ask layer s…om 2, top 0    7% ask layer s…om 2, top 1");
    expect(line.length).toBeLessThanOrEqual(78);
    expect(progressLine("head", [of("train a", 1, "loss 2.1")], 60)).toBe("head  100% train a (loss 2.1)");
  });

  it("leaves labels away where there is no room for them", () => {
    const many = Array.from({ length: 8 }, (_, i) => of(`${long} ${i}`, 0.5));
    expect(progressLine("3 of 9 steps done, 8 running", many, 100)).toBe("3 of 9 steps done, 8 running");
  });

  const of = (label: string, share: number, what = "") => ({ label, share, what });
});

describe("a display", () => {
  it("says scores, what was stopped and what is tried again", () => {
    const { at } = displayed(undefined);
    expect(at(1, done("ask base mgsm_sw", 0.2484), counts(1))).toMatch(/^done {4}ask base mgsm_sw \(24\.8, 1\.5 s\)\n/);
    expect(at(2, done("train a"), counts(2))).toBe("done    train a (1.5 s)\n");
    const lost = { event: "lost", label: "train b", kind: "train", key: "b" } as const;
    expect(at(3, { ...lost, reason: "stopped" }, counts(2))).toBe("stopped train b\n");
    expect(at(4, { ...lost, reason: "its node failed" }, counts(2))).toBe("again   train b: its node failed\n");
  });

  it("counts the time left down between the ends of steps", () => {
    const { at } = displayed(200);
    for (let i = 1; i <= 3; i++) at(10 * i, done(`s${i}`), counts(i));
    // Three in 30 s, seven and two that run to go.
    expect(at(30.5, done("s3"), counts(3))).toContain(", about 1 min 32 s left");
    const waiting: RunEvent = { event: "progress", label: "s4", key: "s4", share: 0.1, what: "" };
    expect(at(50.5, waiting, counts(3))).toContain(", about 1 min 12 s left");
    expect(at(121.5, waiting, counts(3))).not.toContain("left");
  });

  it("counts in words", () => {
    expect(describeCounts(counts(1, { failed: 1, waiting: 20 }))).toBe("1 of about 33 steps done, 2 running, 1 failed");
  });
});
