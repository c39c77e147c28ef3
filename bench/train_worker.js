// One mode of the training benchmark in a process of its own: prints tokens per second and peak memory as JSON.
import { openModelSource } from "#engine";
import { Optimizer, planLora, resolveSelection, TrainableDecoder } from "#train";

const [folder = "", mode = "", threads = "2", rows = "2", time = "256", steps = "3"] = process.argv.slice(2);

const source = await openModelSource(folder);
const { layers = 0 } = source.config;
/** The same as in train_peer.py. @type {Record<string, string>} */
const selections = { full: "all", lora: "layers", frozen: `all but embeddings and layers 0-${(layers >> 1) - 1}` };
const trained = resolveSelection(selections[mode] ?? "", { tensors: source.tensors, layers });
const factors = { rank: 64, alpha: 16, rank_stabilised: true, dropout: 0 };
const model = await TrainableDecoder.open(source, {
  trained,
  threads: Number(threads),
  ...(mode === "lora" ? { lora: planLora(trained, source, factors) } : {}),
});
const settings = { eps: 1e-8, decay: 0.1, decay_all: false, clip: 1 };
const optimizer = new Optimizer(model.parameters, { betas: [0.9, 0.99], ...settings });
await model.initialise(optimizer, 0);

const [B, T] = [Number(rows), Number(time)];
const ids = Int32Array.from({ length: B * T }, (_, i) => 3 + ((7919 + i * 104729) % 11000));
const batch = {
  rows: B,
  time: T,
  ids,
  positions: ids.map((_, i) => i % T),
  segments: ids.map(() => 1),
  labels: ids.map((_, i) => (i % T === T - 1 ? -1 : (ids[i + 1] ?? -1))),
};
/** Seconds of the passes, and of the optimizer. */
let best = [Number.POSITIVE_INFINITY, 0];
for (let step = -1; step < Number(steps); step++) {
  const start = performance.now();
  const { labels } = await model.accumulate(batch, optimizer);
  const middle = performance.now();
  optimizer.step({ learningRate: 1e-5, scale: 1 / labels });
  const seconds = [(middle - start) / 1000, (performance.now() - middle) / 1000];
  // The first one loads, plans memory and packs.
  if (step >= 0 && sum(seconds) < sum(best)) best = seconds;
}
await model.close();

/** @param {number[]} values */
function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}

const peak = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify({ rate: (B * T) / sum(best), optimizer: (best[1] ?? 0) / sum(best), peak }));
