// Merging two 1B checkpoints from a hub on loopback: streamed, and after downloading both.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DATA, LLAMA_1B, writeCheckpoint } from "./checkpoints.js";
import { CLI, describeMachine, measure, spread } from "./measure.js";

const SERVER = fileURLToPath(new URL("./hub_server.js", import.meta.url));

/** @param {string[]} args */
export async function benchmarkHub(args) {
  const { values } = parseArgs({
    args,
    options: { rounds: { type: "string", default: "3" }, rate: { type: "string", default: "100e6" } },
  });
  const [rounds, rate] = [Number(values.rounds), Number(values.rate)];
  console.log(`machine: ${describeMachine()}`);
  console.log(`models: Llama 3.2 1B's shape, bfloat16; a hub that sends ${rate / 1e6} MB/s\n`);
  const folders = [1, 2].map((seed) => {
    return writeCheckpoint(join(DATA, seed === 1 ? "1b-task" : "1b-language"), LLAMA_1B, { seed });
  });
  const server = spawn(process.execPath, [SERVER, "--rate", String(rate), ...folders], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  try {
    const [address] = await once(server.stdout, "data");
    const endpoint = String(address).trim();
    const home = join(DATA, "hub-home");
    const out = join(DATA, "out-hub");
    Object.assign(process.env, { HF_ENDPOINT: endpoint, HF_HOME: home, HF_HUB_OFFLINE: "0", HF_TOKEN: "" });
    const models = ["--task", "org/1b-task", "--language", "org/1b-language"];
    const run = async (/** @type {string[]} */ ...command) => {
      for (const folder of [home, out]) rmSync(folder, { recursive: true, force: true });
      spawnSync("sync");
      const { seconds, peakBytes } = await measure(process.execPath, [CLI, ...command, "--quiet"]);
      const bytes = Number(await (await fetch(`${endpoint}/sent`)).text());
      return { seconds, peak: (peakBytes ?? 0) / 1e6, bytes };
    };
    await fetch(`${endpoint}/sent`);
    const soup = ["soup", "--model", "org/1b-task", "--model", "org/1b-language"];
    /** @type {Record<string, string[]>} */
    const short = {
      inspect: ["inspect", "org/1b-task"],
      "swap --dry-run": ["swap", ...models, "--dry-run"],
    };
    for (const [name, command] of Object.entries(short)) {
      const { seconds, bytes, peak } = await run(...command);
      console.log(`${name.padEnd(24)} ${seconds.toFixed(2)} s  ${(bytes / 1e3).toFixed(0)} kB  ${peak.toFixed(0)} MB`);
    }
    /** @type {Record<string, string[]>} */
    const peers = {
      "swap, streamed": ["swap", ...models, "--out", out],
      "swap, downloaded first": ["swap", ...models, "--out", out, "--download"],
      "soup, streamed": [...soup, "--out", out],
      "soup, downloaded first": [...soup, "--out", out, "--download"],
    };
    /** @type {Map<string, { seconds: number[], peak: number[], bytes: number }>} */
    const results = new Map(Object.keys(peers).map((name) => [name, { seconds: [], peak: [], bytes: 0 }]));
    for (let round = 0; round < rounds; round++) {
      for (const [name, command] of Object.entries(peers)) {
        const { seconds, peak, bytes } = await run(...command);
        const result = results.get(name);
        result?.seconds.push(seconds);
        result?.peak.push(peak);
        if (result) result.bytes = bytes;
      }
    }
    for (const [name, { seconds, peak, bytes }] of results) {
      console.log(`${name.padEnd(24)} ${spread(seconds)} s  ${(bytes / 1e9).toFixed(2)} GB  ${spread(peak, 0)} MB`);
    }
    for (const folder of [home, out]) rmSync(folder, { recursive: true, force: true });
  } finally {
    server.kill();
  }
}
