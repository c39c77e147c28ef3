// Evaluation: items per second of the engine on prompts like MGSM's (shots that all share, a problem of each one's own,
// an answer), by how they are computed; and what bounded concurrency brings with a server that takes its time.
import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openOpenAI } from "#evaluate";
import { DATA, LLAMA_125M, writeCheckpoint } from "./checkpoints.js";
import { describeMachine, median, spread } from "./measure.js";

const WORKER = fileURLToPath(new URL("./eval_worker.js", import.meta.url));

/** The first is what `layergraft eval` does, the last the plain way. */
const MODES = {
  shared: "batches of 8, shots computed once",
  batched: "batches of 8, shots computed for each",
  single: "one at a time, shots computed for each",
};
const CONCURRENCIES = [1, 4, 8, 16, 32];

/** @param {string[]} args */
export async function benchmarkEval(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "3" },
      threads: { type: "string", default: "2" },
      items: { type: "string", default: "16" },
      shots: { type: "string", default: "480" },
      own: { type: "string", default: "60" },
      answer: { type: "string", default: "32" },
      latency: { type: "string", default: "100" },
    },
  });
  const { items, shots, own, answer, threads } = values;
  const folder = writeCheckpoint(join(DATA, "125m"), LLAMA_125M, { seed: 1 });
  console.log(`machine: ${describeMachine()}`);
  console.log(`model: Llama, 125M parameters, float32; ${threads} threads`);
  console.log(`${items} items: ${shots} tokens of shots, ${own} of their own, ${answer} of the answer\n`);
  /** @type {Map<string, { rate: number, peak: number, digest: string }[]>} */
  const results = new Map(Object.keys(MODES).map((mode) => [mode, []]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [mode, runs] of results) {
      const run = spawnSync(process.execPath, [WORKER, folder, mode, items, shots, own, answer, threads], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "inherit"],
        env: { ...process.env, OMP_NUM_THREADS: threads },
      });
      if (run.status !== 0) throw new Error(`${WORKER} ${mode} ended with ${run.status}`);
      runs.push(JSON.parse(run.stdout));
    }
  }
  const plain = results.get("single") ?? [];
  for (const [mode, title] of Object.entries(MODES)) {
    const runs = results.get(mode) ?? [];
    const rates = spread(runs.map(({ rate }) => rate));
    const peak = median(runs.map((run) => run.peak)) / 1e6;
    const times = spread(runs.map(({ rate }, i) => rate / (plain[i]?.rate ?? Number.NaN)));
    console.log(`${title.padEnd(40)} ${rates} items/s  peak ${peak.toFixed(0)} MB  ${times} x one at a time`);
  }
  const same = results.get("shared")?.every(({ digest }, i) => digest === plain[i]?.digest);
  console.log(`answers of the first and the last way: ${same ? "the same" : "DIFFERENT"}\n`);
  await benchmarkServer(Number(values.latency));
}

/** @param {number} latency milliseconds of every answer */
async function benchmarkServer(latency) {
  const server = createServer((request, response) => {
    const reply = request.url?.endsWith("/models")
      ? { data: [{ id: "model", owned_by: "bench" }] }
      : request.url?.endsWith("/completions")
        ? { choices: [{ text: " 7", finish_reason: "stop" }], usage: { prompt_tokens: 9, completion_tokens: 1 } }
        : undefined;
    request.resume();
    request.on("end", () =>
      setTimeout(() => {
        response.writeHead(reply ? 200 : 404, { "content-type": "application/json" });
        response.end(JSON.stringify(reply ?? {}));
      }, latency),
    );
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`a local server that takes ${latency} ms for an answer`);
  for (const concurrency of CONCURRENCIES) {
    const backend = await openOpenAI({ url: `http://127.0.0.1:${address.port}`, concurrency });
    const count = 8 * concurrency;
    const requests = Array.from({ length: count }, (_, i) => ({ prompt: `${i} + 1 =`, maxNewTokens: 8, stop: ["\n"] }));
    const start = performance.now();
    const answers = await backend.generate(requests);
    const rate = (1000 * count) / (performance.now() - start);
    await backend.close();
    if (answers.some((answer) => "error" in answer)) throw new Error("the server's answers were not taken");
    const share = (100 * rate * latency) / (1000 * concurrency);
    console.log(
      `${String(concurrency).padStart(2)} at once: ${rate.toFixed(1)} items/s, ${share.toFixed(0)}% of what the latency allows`,
    );
  }
  await new Promise((resolve) => server.close(resolve));
}
