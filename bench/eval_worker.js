// One way of computing MGSM-like answers, in a process of its own: prints items per second, peak memory and a digest of
// the answers as JSON.
import { createHash } from "node:crypto";
import { openEngine } from "#engine";

const [folder = "", mode = "", ...numbers] = process.argv.slice(2);
const [items = 16, shots = 480, own = 60, answer = 32, threads = 2] = numbers.map(Number);
const tokens = (/** @type {number} */ count, /** @type {number} */ seed) =>
  Array.from({ length: count }, (_, i) => 3 + ((seed * 7919 + i * 104729) % 31000));

const shared = tokens(shots, 0);
// Another first token leaves nothing to share, at the same cost otherwise.
const prompts = Array.from({ length: items }, (_, i) => [
  ...(mode === "batched" ? [3 + i, ...shared.slice(1)] : shared),
  ...tokens(own, i + 1),
]);
const engine = await openEngine(folder, { threads: Number(threads) });
const batch = mode === "single" ? 1 : 8;
await engine.generate([tokens(16, 1)], { maxNewTokens: 2, stopIds: [], batch: 1 }); // sessions are built, pages read
const start = performance.now();
const answers = await engine.generate(prompts, { maxNewTokens: answer, stopIds: [], batch });
const rate = (1000 * items) / (performance.now() - start);
const digest = createHash("sha256")
  .update(JSON.stringify(answers.map(({ ids }) => ids)))
  .digest("hex");
await engine.close();
console.log(JSON.stringify({ rate, digest, peak: process.resourceUsage().maxRSS * 1024 }));
