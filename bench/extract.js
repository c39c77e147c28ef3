// The adapter of one 1B expert, beside the floor of the machine (reading both files).
import { rmSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { DATA, LLAMA_1B, writeCheckpoint } from "./checkpoints.js";
import { CLI, comparePeers, describeMachine, measure } from "./measure.js";

/** @param {string[]} args */
export async function benchmarkExtract(args) {
  const { values } = parseArgs({
    args,
    options: { rounds: { type: "string", default: "3" }, rank: { type: "string", default: "64" } },
  });
  console.log(`machine: ${describeMachine()}`);
  console.log(`models: Llama 3.2 1B's shape, bfloat16; base and one expert; rank ${values.rank}; warm cache\n`);
  const base = writeCheckpoint(join(DATA, "1b-base"), LLAMA_1B, { seed: 3 });
  const model = writeCheckpoint(join(DATA, "1b-task"), LLAMA_1B, { seed: 1 });
  const out = join(DATA, "1b-adapter");
  const command = [CLI, "extract", "--base", base, "--model", model, "--rank", values.rank, "--linear-only", "--quiet"];
  const weights = [join(base, "model.safetensors"), join(model, "model.safetensors")];
  await comparePeers(
    {
      floor: () => measure("sh", ["-c", 'cat "$0" "$1" > /dev/null', ...weights]),
      layergraft: () => measure(process.execPath, [...command, "--out", out]),
    },
    Number(values.rounds),
    () => rmSync(out, { recursive: true, force: true }),
  );
}
