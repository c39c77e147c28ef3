// The time of a merge: in proportion to the bytes of one like it, and none where nothing is known.
import { expect, it } from "vitest";
import type { Job } from "../protocol.js";
import { timeOf } from "./merge-time.js";

const done = { method: "swap", seconds: 4, bytes: 4e9, resumed: false, alreadyComplete: false };

/** Jobs with these results, the latest first. */
function jobsOf(results: readonly object[], state: Job["state"] = "done") {
  const list = results.map((_, i) => ({ id: String(i), kind: "merge", state }) as Job);
  return { list: () => list, result: async (id: string) => results[Number(id)] };
}
const planned = (bytes: number, method = "swap", bytesToFetch = 0) =>
  ({ method, bytesToRead: bytes / 2, bytesToWrite: bytes / 2, bytesToFetch }) as Parameters<typeof timeOf>[0];
const secondsOf = async (...args: Parameters<typeof timeOf>) => (await timeOf(...args))?.seconds;

it("is that of the merge of the same method whose size is closest, by its bytes", async () => {
  const small = { ...done, bytes: 1e9, seconds: 3 };
  const jobs = jobsOf([{ ...done, method: "ties", seconds: 40 }, done, { ...done, seconds: 100 }, small]);
  expect(await secondsOf(planned(4e9), jobs)).toBe(4);
  expect(await secondsOf(planned(8e9), jobs)).toBe(8);
  expect(await secondsOf(planned(1.5e9), jobs)).toBe(4.5);
  expect(await secondsOf(planned(1e9, "ties"), jobs)).toBe(10);
  expect(await timeOf(planned(4e9), jobs)).toEqual({
    seconds: 4,
    basis: "A merge written in this project: a swap of 4.00 GB, read and written, took 4.0 s.",
  });
  expect((await timeOf(planned(4e9, "soup"), jobs))?.basis).toMatch(/a ties of .* Another method may take longer\.$/);
});

it.each([
  ["no merge was written", jobsOf([]), planned(1e9)],
  ["none was finished", jobsOf([done], "failed"), planned(1e9)],
  ["it was resumed", jobsOf([{ ...done, resumed: true }]), planned(1e9)],
  ["nothing had to be written", jobsOf([{ ...done, alreadyComplete: true }]), planned(1e9)],
  ["it was much smaller", jobsOf([done]), planned(1e11)],
  ["its result is of an earlier version", jobsOf([{ seconds: 1 }]), planned(1e9)],
  ["bytes come from the hub", jobsOf([done]), planned(1e9, "swap", 1)],
])("is not known where %s", async (_, jobs, plan) => {
  expect(await timeOf(plan, jobs)).toBeNull();
});
