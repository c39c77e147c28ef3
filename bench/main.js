// Benchmarks: npm run bench -- NAME. Each prints the machine, every peer's times in one interleaved run, and ratios.
import { existsSync } from "node:fs";
import { benchmarkAnalyze } from "./analyze.js";
import { benchmarkCoverage } from "./coverage.js";
import { benchmarkEngine } from "./engine.js";
import { benchmarkEval } from "./eval.js";
import { benchmarkExperts } from "./experts.js";
import { benchmarkExport } from "./export.js";
import { benchmarkExtract } from "./extract.js";
import { benchmarkHeadToHead, headToHeadPage } from "./head-to-head.js";
import { benchmarkHub } from "./hub.js";
import { benchmarkLadder } from "./ladder/main.js";
import { benchmarkLlama } from "./llama.js";
import { benchmarkMethods } from "./methods.js";
import { benchmarkQuantize } from "./quantize.js";
import { benchmarkRanks } from "./ranks.js";
import { benchmarkReal } from "./real/main.js";
import { benchmarkServe } from "./serve.js";
import { benchmarkSignals } from "./signals.js";
import { benchmarkSwap } from "./swap.js";
import { benchmarkTrain } from "./train.js";

const [name, ...args] = process.argv.slice(2);
const benchmarks = {
  swap: benchmarkSwap,
  analyze: benchmarkAnalyze,
  methods: benchmarkMethods,
  extract: benchmarkExtract,
  ranks: benchmarkRanks,
  hub: benchmarkHub,
  engine: benchmarkEngine,
  eval: benchmarkEval,
  train: benchmarkTrain,
  serve: benchmarkServe,
  signals: benchmarkSignals,
  experts: benchmarkExperts,
  llama: benchmarkLlama,
  export: benchmarkExport,
  quantize: benchmarkQuantize,
  coverage: benchmarkCoverage,
  real: benchmarkReal,
  ladder: benchmarkLadder,
  "head-to-head": benchmarkHeadToHead,
  "head-to-head-page": headToHeadPage,
};

if (!name || !(name in benchmarks)) {
  console.error(`usage: npm run bench -- ${Object.keys(benchmarks).join(" | ")}`);
  process.exit(2);
}
if (!existsSync(new URL("../dist/cli/main.js", import.meta.url))) {
  console.error("build first: npm run build");
  process.exit(1);
}
await benchmarks[/** @type {keyof typeof benchmarks} */ (name)](args);
