// Loaded into a measured Node process (--import): on its end writes the peak of its resident memory, in bytes.
import { writeFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const report = process.env.PEAK_MEMORY_REPORT;
if (report && isMainThread) {
  process.on("exit", () => writeFileSync(report, String(process.resourceUsage().maxRSS * 1024)));
}
