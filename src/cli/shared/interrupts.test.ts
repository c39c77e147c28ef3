// A process whose main thread is blocked for seconds, and interrupted.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it, vi } from "vitest";
import { END_SIGNALS } from "../../kit/stopping/index.js";
import { ANSWERED, SAID, WATCHER, watchInterrupts } from "./interrupts.js";
import { interruptSignal } from "./output.js";

// As under Node.js's permission model without --allow-worker.
vi.mock("node:worker_threads", () => ({
  Worker: class {
    constructor() {
      throw new Error("Access to this API has been restricted");
    }
  },
}));

/**
 * Blocks the main thread once the thread listens, and reports how often it was interrupted.
 * @param closing seconds that it blocks once it has answered
 */
const script = (seconds: number, closing: number) => `
  import { Worker } from "node:worker_threads";
  const answered = new Int32Array(new SharedArrayBuffer(4));
  let count = 0;
  const block = (seconds) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000 * seconds);
  process.on("SIGINT", () => {
    count++;
    Atomics.compareExchange(answered, 0, 0, ${ANSWERED});
    if (${closing}) block(${closing});
  });
  const names = ["SIGINT", "SIGTERM", "SIGHUP"];
  const workerData = { answered, text: "stopping after this step\\n", grace: 50, prompt: 300, ANSWERED: ${ANSWERED}, SAID: ${SAID}, names };
  const worker = new Worker(${JSON.stringify(WATCHER)}, { eval: true, execArgv: [], workerData });
  await new Promise((resolve) => worker.once("message", resolve));
  console.log("begins");
  block(${seconds});
  await new Promise((resolve) => setTimeout(resolve, ${closing === 0 ? 200 : 500}));
  console.log("interrupted " + count);
  process.exit(130);`;

async function start(seconds: number, closing = 0) {
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script(seconds, closing)]);
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  const ended = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  await Promise.race([once(child.stdout, "data"), ended]);
  return { child, ended, output: () => output };
}

it("says at once what an interrupt waits for, and ends at once on the second", async () => {
  const { child, ended, output } = await start(60);
  child.kill("SIGINT");
  const [line] = (await once(child.stderr, "data")) as [Buffer];
  expect(String(line)).toBe("stopping after this step\n");
  child.kill("SIGINT");
  expect(await ended).toEqual([null, "SIGKILL"]);
  expect(output()).toBe("begins\n");
});

it("does not take the second SIGHUP of a closed terminal for haste", async () => {
  const { child, ended, output } = await start(1);
  child.kill("SIGHUP");
  await once(child.stderr, "data");
  child.kill("SIGHUP");
  child.kill("SIGINT");
  expect(await ended).toEqual([130, null]);
  expect(output()).toBe("begins\ninterrupted 1\n");
});

it("leaves an interrupt to a main thread that answers", async () => {
  const { child, ended, output } = await start(0);
  let text = "";
  child.stderr.on("data", (data) => (text += data));
  child.kill("SIGINT");
  expect(await ended).toEqual([130, null]);
  expect([output(), text]).toEqual(["begins\ninterrupted 1\n", ""]);
});

it("says what an interrupt waits for where a main thread that answered blocks again", async () => {
  const { child, ended } = await start(0, 60);
  child.kill("SIGINT");
  const [line] = (await once(child.stderr, "data")) as [Buffer];
  expect(String(line)).toBe("stopping after this step\n");
  child.kill("SIGINT");
  expect(await ended).toEqual([null, "SIGKILL"]);
});

it("leaves interrupts to the main thread where no other can be started", () => {
  expect(watchInterrupts("this step")).toEqual(new Int32Array(1));
});

it("stops what begins after an interrupt that nothing heard, and says what it waits for", () => {
  const before = process.listeners("SIGINT");
  const planning = interruptSignal();
  const [interrupt] = process.listeners("SIGINT").filter((listener) => !before.includes(listener));
  expect(planning.aborted).toBe(false);
  vi.useFakeTimers();
  const printed = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  interrupt?.("SIGINT");
  vi.advanceTimersByTime(10);
  expect(printed).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1000);
  expect(printed.mock.calls.join("")).toContain(
    "stopping after what is under way; press Ctrl-C again to end at once\n",
  );
  printed.mockRestore();
  vi.useRealTimers();
  expect([planning.aborted, interruptSignal().aborted]).toEqual([true, true]);
  for (const name of END_SIGNALS) process.removeAllListeners(name);
  for (const listener of before) process.on("SIGINT", listener);
});
