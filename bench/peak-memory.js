// Loaded into a measured Node process (--import): on its end writes the peak of its resident memory, in bytes, and its CPU seconds.
import { writeFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const report = process.env.PEAK_MEMORY_REPORT;
if (report && isMainThread) {
  process.on("exit", () => {
    const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage();
    writeFileSync(report, `${maxRSS * 1024} ${(userCPUTime + systemCPUTime) / 1e6}`);
  });
}
