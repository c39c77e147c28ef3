// A swap of two 1B checkpoints exported as GGUF, against the floor of the machine: reading both and writing the file.
import { rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { DATA, LLAMA_1B, writeCheckpoint } from "./checkpoints.js";
import { CLI, comparePeers, describeMachine, measure } from "./measure.js";

/** @param {string[]} args */
export async function benchmarkExport(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "3" },
      types: { type: "string", default: "q8_0,q4_k_m" },
      against: { type: "string" }, // the command line of another build
    },
  });
  console.log(`machine: ${describeMachine()}`);
  console.log("models: Llama 3.2 1B's shape, bfloat16; swap with the default configuration; warm cache");
  const task = writeCheckpoint(join(DATA, "1b-task"), LLAMA_1B, { seed: 1 });
  const language = writeCheckpoint(join(DATA, "1b-language"), LLAMA_1B, { seed: 2 });
  writeTokenizer(task, LLAMA_1B.vocabulary);
  const recipe = join(DATA, "export.yaml");
  writeFileSync(recipe, `method: swap\ntask: ${task}\nlanguage: ${language}\n`);
  for (const type of values.types.split(",")) {
    const out = join(DATA, `swap-${type}.gguf`);
    const write = (cli = CLI) =>
      measure(process.execPath, [cli, "export", recipe, "--type", type, "--out", out, "--force", "--quiet"]);
    await write();
    const bytes = statSync(out).size;
    console.log(`\n${type}: ${(bytes / 1e9).toFixed(2)} GB`);
    const weights = [task, language].map((folder) => join(folder, "model.safetensors"));
    const copy = join(DATA, "floor.gguf");
    const floor = 'cat "$0" "$1" > /dev/null && dd if="$2" of="$3" bs=1048576 2>/dev/null && sync "$3"';
    const peers = { floor: () => measure("sh", ["-c", floor, ...weights, out, copy]), layergraft: () => write() };
    if (values.against) Object.assign(peers, { against: () => write(values.against) });
    await comparePeers(peers, Number(values.rounds), (name) => {
      if (name === "floor") rmSync(copy, { force: true });
    });
    rmSync(out);
  }
}

/** As many tokens and merges as Llama 3 has. @param {string} folder @param {number} size */
export function writeTokenizer(folder, size) {
  const tokens = Array.from({ length: size }, (_, id) => `t${id}`);
  const model = {
    type: "BPE",
    vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    merges: tokens.slice(1).map((token, id) => [tokens[id], token]),
  };
  const pre_tokenizer = { type: "ByteLevel", add_prefix_space: false, use_regex: true };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify({ pre_tokenizer, model }));
}
