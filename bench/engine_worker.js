// One mode of the engine benchmark in a process of its own: prints tokens per second and peak memory as JSON.
import { openEngine, openModelSource } from "#engine";
import { openLlama } from "#export/llama";
import { Optimizer, TrainableDecoder } from "#train";

// A type, such as q8_0, has llama.cpp run the model.
const [folder = "", mode = "", threads = "2", type = "", cache = ""] = process.argv.slice(2);
const tokens = (/** @type {number} */ count, /** @type {number} */ seed) =>
  Array.from({ length: count }, (_, i) => 3 + ((seed * 7919 + i * 104729) % 31000));

/** Best of several repetitions, a warm-up first. @param {number} count @param {() => Promise<number>} run tokens done */
async function bestRate(count, run) {
  let best = 0;
  for (let i = -1; i < count; i++) {
    const start = performance.now();
    const done = await run();
    if (i >= 0) best = Math.max(best, (1000 * done) / (performance.now() - start));
  }
  return best;
}

/** @returns {Promise<number>} */
async function rateOfTraining() {
  const source = await openModelSource(folder);
  const model = await TrainableDecoder.open(source, {
    trained: new Set(source.tensors.keys()),
    threads: Number(threads),
  });
  const optimizer = new Optimizer(model.parameters, {
    betas: [0.9, 0.99],
    eps: 1e-8,
    decay: 0.1,
    decay_all: false,
    clip: 1,
  });
  await model.initialise(optimizer, 0);
  const [rows, time] = [2, 256];
  const ids = Int32Array.from(tokens(rows * time, 1));
  const batch = {
    rows,
    time,
    ids,
    positions: ids.map((_, i) => i % time),
    segments: ids.map(() => 1),
    labels: ids.map((_, i) => (i % time === time - 1 ? -1 : (ids[i + 1] ?? -1))),
  };
  return bestRate(3, async () => {
    optimizer.clear();
    await model.accumulate(batch, optimizer);
    return rows * time;
  });
}

/** @returns {Promise<number>} */
async function rateOfInference() {
  const engine =
    cache === ""
      ? await openEngine(folder, { threads: Number(threads) })
      : await openLlama(folder, {
          threads: Number(threads),
          type: /** @type {"q8_0" | "q4_k_m"} */ (type),
          cache: { folder: cache, mostBytes: 20e9 },
        });
  // Texts differ, as llama.cpp keeps what it has read.
  let seed = 0;
  if (mode === "prefill") {
    return bestRate(3, async () => {
      await engine.topNext([tokens(512, ++seed)], { count: 1 });
      return 512;
    });
  }
  const rows = mode === "decode-8" ? 8 : 1;
  const decode = async (/** @type {number} */ maxNewTokens) => {
    const prompts = Array.from({ length: rows }, () => tokens(64, ++seed));
    const start = performance.now();
    await engine.generate(prompts, { maxNewTokens, stopIds: [], batch: rows });
    return performance.now() - start;
  };
  // The first token comes from the prompt; what is between the two is decoding alone.
  return bestRateOf(3, async () => (1000 * rows * 48) / ((await decode(49)) - (await decode(1))));
}

/** @param {number} count @param {() => Promise<number>} measure */
async function bestRateOf(count, measure) {
  await measure();
  let best = 0;
  for (let i = 0; i < count; i++) best = Math.max(best, await measure());
  return best;
}

const rate = mode === "train" ? await rateOfTraining() : await rateOfInference();
const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage();
console.log(JSON.stringify({ rate, peak: maxRSS * 1024, cpu: (userCPUTime + systemCPUTime) / 1e6 }));
// llama.cpp's threads outlive the work.
process.exit();
