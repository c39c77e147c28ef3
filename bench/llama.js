// Decoding of a GGUF file through layergraft and through node-llama-cpp alone: greedy answers to the same prompts, in turns, in one process.
import { parseArgs } from "node:util";
import { describeMachine, median, spread } from "./measure.js";

/** @param {string[]} args `FILE [--rounds 9] [--tokens 64] [--threads 2]` */
export async function benchmarkLlama(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      rounds: { type: "string", default: "9" },
      tokens: { type: "string", default: "64" },
      threads: { type: "string", default: "2" },
    },
  });
  const [file] = positionals;
  if (!file) throw new Error("usage: npm run bench -- llama FILE.gguf [--rounds 9] [--tokens 64] [--threads 2]");
  const threads = Number(values.threads);
  const count = Number(values.tokens);
  const { openLlama } = await import("#export/llama");
  const { getLlama } = await import(process.env.NODE_LLAMA_CPP ?? "node-llama-cpp");

  const engine = await openLlama(file, { threads });
  const llama = await getLlama({ build: "never", maxThreads: 0, logLevel: "error", progressLogs: false });
  const model = await llama.loadModel({ modelPath: file });
  const context = await model.createContext({ contextSize: 513, sequences: 1, threads, batchSize: 128 });
  const sequence = context.getSequence();
  /** Prompts differ, as both keep what they have read. @param {number} seed */
  const prompt = (seed) => Array.from({ length: 32 }, (_, i) => 100 + ((seed * 7919 + i * 104729) % 20000));

  /** Answers a prompt with so many tokens. @type {Record<string, (seed: number, tokens: number) => Promise<unknown>>} */
  const peers = {
    layergraft: (seed, maxNewTokens) =>
      engine.generate([prompt(seed)], { maxNewTokens, stopIds: [], onText: () => undefined }),
    "node-llama-cpp": async (seed, tokens) => {
      await sequence.clearHistory();
      let left = tokens;
      for await (const token of sequence.evaluate(prompt(seed), { temperature: 0, yieldEogToken: true })) {
        model.detokenize([token]);
        if (--left === 0) break;
      }
    },
  };
  /** Milliseconds of time and of CPU. @param {() => Promise<unknown>} work */
  const timed = async (work) => {
    const [start, before] = [performance.now(), process.cpuUsage()];
    await work();
    const { user, system } = process.cpuUsage(before);
    return { time: performance.now() - start, cpu: (user + system) / 1000 };
  };
  console.log(`machine: ${describeMachine()}\nfile: ${file}, ${threads} threads, ${count} tokens\n`);
  const names = Object.keys(peers);
  /** @type {Record<string, { time: number[], cpu: number[] }>} milliseconds a token */
  const found = Object.fromEntries(names.map((name) => [name, { time: [], cpu: [] }]));
  for (let round = -1; round < Number(values.rounds); round++) {
    // Each goes first in every other round.
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const run = /** @type {(typeof peers)[string]} */ (peers[name]);
      const whole = await timed(() => run(2 * round + 2, count + 1));
      const first = await timed(() => run(2 * round + 3, 1));
      if (round < 0) continue;
      found[name]?.time.push((whole.time - first.time) / count);
      found[name]?.cpu.push((whole.cpu - first.cpu) / count);
    }
  }
  for (const name of names) {
    const { time = [], cpu = [] } = found[name] ?? {};
    console.log(
      `${name.padEnd(16)} ${spread(time)} ms a token, CPU ${spread(cpu)} ms; ${(1000 / median(time)).toFixed(1)} tokens/s`,
    );
  }
  for (const unit of /** @type {const} */ (["time", "cpu"])) {
    const ratios = (found.layergraft?.[unit] ?? []).map(
      (one, i) => one / (found["node-llama-cpp"]?.[unit][i] ?? Number.NaN),
    );
    console.log(`layergraft / node-llama-cpp, ${unit}: ${spread(ratios)}`);
  }
  // llama.cpp's threads outlive the work.
  process.exit();
}
