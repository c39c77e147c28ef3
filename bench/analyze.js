// The analysis of one 1B expert against its base, beside the floor of the machine (reading both files) and, where
// PyTorch is there, the loop people write by hand.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DATA, LLAMA_1B, writeCheckpoint } from "./checkpoints.js";
import { CLI, comparePeers, describeMachine, measure } from "./measure.js";

const PEER = fileURLToPath(new URL("./analyze_peer.py", import.meta.url));

/** @param {string[]} args */
export async function benchmarkAnalyze(args) {
  const { values } = parseArgs({
    args,
    options: { rounds: { type: "string", default: "5" }, python: { type: "string", default: "python3" } },
  });
  console.log(`machine: ${describeMachine()}`);
  console.log("models: Llama 3.2 1B's shape, bfloat16; base and one expert; warm cache\n");
  const base = writeCheckpoint(join(DATA, "1b-base"), LLAMA_1B, { seed: 3 });
  const expert = writeCheckpoint(join(DATA, "1b-task"), LLAMA_1B, { seed: 1 });
  const weights = [join(base, "model.safetensors"), join(expert, "model.safetensors")];
  /** @type {import("./measure.js").Peers} */
  const peers = {
    floor: () => measure("sh", ["-c", 'cat "$0" "$1" > /dev/null', ...weights]),
    layergraft: () =>
      measure(process.execPath, [CLI, "analyze", "--base", base, "--expert", `task=${expert}`, "--quiet"]),
  };
  const hasTorch = spawnSync(values.python, ["-c", "import torch, safetensors"]).status === 0;
  if (hasTorch) peers["PyTorch loop"] = () => measure(values.python, [PEER, ...weights]);
  else console.log(`(no torch and safetensors for ${values.python}; give --python to compare with PyTorch)\n`);
  await comparePeers(peers, Number(values.rounds));
}
