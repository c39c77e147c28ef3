// Progress: a line every ten seconds off a terminal, a bar on one, and estimated times.
import { expect, it } from "vitest";
import { type ShownProgress, showProgress } from "./progress.js";

function displayed(isTTY = false) {
  let now = 0;
  let text = "";
  const stream = { isTTY, columns: 100, write: (more: string) => (text += more), on() {}, removeListener() {} };
  const display = showProgress(stream as unknown as NodeJS.WriteStream, () => now);
  const taken = () => {
    const [all] = [text];
    text = "";
    return all;
  };
  const at = (seconds: number, state: ShownProgress) => {
    now = seconds;
    display.update(state);
    return taken();
  };
  return { at, display, taken };
}

const state = (done: number, more: Partial<ShownProgress> = {}): ShownProgress => ({
  phase: "asking",
  done,
  total: 100,
  ...more,
});

it("writes a line every ten seconds and at the end of each phase, off a terminal", () => {
  const { at, display, taken } = displayed();
  expect(at(0, state(0))).toBe("");
  expect(at(9, state(10))).toBe("");
  expect(at(10, state(20, { detail: "strict 41.7" }))).toBe("asking 20%  20 of 100  strict 41.7  40 s left\n");
  expect(at(19, state(90))).toBe("");
  expect(at(25, state(100))).toBe("asking 100%  100 of 100  in 25 s\n");
  expect(at(25, state(100))).toBe("");
  expect(at(26, { phase: "writing", done: 1e9, total: 3e9, unit: "bytes" })).toBe("");
  display.note("fetched x");
  expect(taken()).toBe("fetched x\n");
  display.stop();
  expect(taken()).toBe("");
});

it("measures speed and time left from this run's work", () => {
  const { at } = displayed();
  at(0, { phase: "writing", done: 1e9, total: 4e9, unit: "bytes" });
  expect(at(10, { phase: "writing", done: 2e9, total: 4e9, unit: "bytes" })).toBe(
    "writing 50%  2.00 GB of 4.00 GB  100 MB/s  20 s left\n",
  );
});

it("counts down the time left between updates", () => {
  const { at } = displayed();
  at(0, state(0));
  expect(at(10, state(20))).toContain("  40 s left");
  expect(at(30, state(20))).toContain("  20 s left");
  expect(at(60, state(20))).not.toContain("left");
});

it("lets the time left grow while no bytes come", () => {
  const { at } = displayed();
  const bytes = (done: number) => ({ phase: "writing", done, total: 100e6, unit: "bytes" }) as const;
  at(0, bytes(0));
  expect(at(10, bytes(20e6))).toContain("2.00 MB/s  40 s left");
  expect(at(40, bytes(20e6))).toContain("500 kB/s  2 min 40 s left");
});

it("clears its bar on a terminal and leaves a line for each phase", () => {
  const { at, display, taken } = displayed(true);
  expect(at(0, state(50))).toMatch(/asking .*50% {2}50 of 100/);
  display.note("fetched x");
  // Whatever is below its first line is erased: a bar that another thread's message moved down.
  expect(taken().endsWith("\u001b[Jfetched x\n")).toBe(true);
  expect(at(1, state(60))).toMatch(/60% {2}60 of 100/);
  expect(at(2, state(100)).endsWith("asking 100%  100 of 100  in 2.0 s\n")).toBe(true);
  at(3, { ...state(10), phase: "writing" });
  display.stop();
  expect(taken().endsWith("writing 10%  10 of 100\n")).toBe(true);
});

it("shows control characters of names, in lines and in the bar", () => {
  const phase = "loading \u001b]0;title\u0007\n\u001b[2Jmodel";
  const { at, display, taken } = displayed();
  at(0, { phase, done: 0, total: 10, detail: "\u009b1A" });
  expect(at(10, { phase, done: 5, total: 10, detail: "\u009b1A" })).toBe(
    "loading ␛]0;title␇ ␛[2Jmodel 50%  5 of 10  \\u009b1A  10 s left\n",
  );
  display.note("kept \u001b[2J");
  expect(taken()).toBe("kept ␛[2J\n");
  const terminal = displayed(true);
  expect(terminal.at(0, { phase, done: 5, total: 10 })).toContain("loading ␛]0;title␇ ␛[2Jmodel");
});
