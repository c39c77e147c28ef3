// The swap of two 1B checkpoints against the floor of the machine (reading both, copying one) and, where PyTorch is
// there, the script people write by hand. With --8b: layergraft alone on an 8B layout, for its memory.
import { spawnSync } from "node:child_process";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DATA, LLAMA_1B, LLAMA_8B, writeCheckpoint } from "./checkpoints.js";
import { CLI, comparePeers, describeMachine, measure } from "./measure.js";

const PEER = fileURLToPath(new URL("./swap_peer.py", import.meta.url));

/** @param {string[]} args */
export async function benchmarkSwap(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "5" },
      python: { type: "string", default: "python3" },
      "8b": { type: "boolean", default: false },
    },
  });
  if (values["8b"]) return memoryOf8B();
  const rounds = Number(values.rounds);
  console.log(`machine: ${describeMachine()}`);
  console.log("models: Llama 3.2 1B's shape, bfloat16; swap with the default configuration; warm cache\n");
  const task = writeCheckpoint(join(DATA, "1b-task"), LLAMA_1B, { seed: 1 });
  const language = writeCheckpoint(join(DATA, "1b-language"), LLAMA_1B, { seed: 2 });
  const base = writeCheckpoint(join(DATA, "1b-base"), LLAMA_1B, { seed: 3 });
  const weights = [join(task, "model.safetensors"), join(language, "model.safetensors")];
  const out = (/** @type {string} */ name) => join(DATA, `out-${name}`);
  const python = spawnSync(values.python, ["-c", "import torch, safetensors"]).status === 0 ? values.python : undefined;

  const swap = (/** @type {string} */ name, /** @type {string[]} */ ...more) =>
    measure(process.execPath, [
      CLI,
      "swap",
      "--task",
      task,
      "--language",
      language,
      "--out",
      out(name),
      "--quiet",
      ...more,
    ]);
  /** @type {import("./measure.js").Peers} */
  const peers = {
    // By magnitude reads each expert and the base once more, to measure.
    // layergraft syncs what it writes before it gives it its name, so the floor's copy is synced too.
    floor: () =>
      measure("sh", [
        "-c",
        `cat "$0" "$1" > /dev/null && dd if="$0" of="$2" bs=1048576 2>/dev/null && sync "$2"`,
        ...weights,
        out("floor"),
      ]),
    layergraft: () => swap("layergraft"),
    "by magnitude": () => swap("by magnitude", "--base", base, "--weights", "magnitude"),
  };
  if (python)
    peers["PyTorch script"] = () => measure(python, [PEER, task, language, out("PyTorch script"), "3", "1", "16"]);
  else console.log(`(no torch and safetensors for ${values.python}; give --python to compare with PyTorch)\n`);

  await comparePeers(peers, rounds, (name) => rmSync(out(name), { recursive: true, force: true }));
}

/** Peak memory on an 8B layout; the sources are sparse files, the output is real. */
async function memoryOf8B() {
  const task = writeCheckpoint(join(DATA, "8b-task"), LLAMA_8B, { seed: 1, sparse: true });
  const language = writeCheckpoint(join(DATA, "8b-language"), LLAMA_8B, { seed: 2, sparse: true });
  const out = join(DATA, "out-8b");
  const command = [CLI, "swap", "--task", task, "--language", language, "--out", out, "--quiet"];
  const { seconds, peakBytes } = await measure(process.execPath, command);
  rmSync(out, { recursive: true });
  console.log(
    `8B layout (sparse sources): ${seconds.toFixed(1)} s, peak memory ${((peakBytes ?? 0) / 1e6).toFixed(0)} MB`,
  );
}
