// Merge methods on three 1B experts and their base, each beside the floor of the machine: reading all inputs once and
// writing the output.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { DATA, LLAMA_1B, writeCheckpoint } from "./checkpoints.js";
import { CLI, comparePeers, describeMachine, measure } from "./measure.js";

/** Recipes by name; models and base are filled in. @type {Record<string, object>} */
const RECIPES = {
  soup: { method: "soup" },
  "task arithmetic": { method: "task_arithmetic", lambda: 0.5 },
  "TIES by model": { method: "ties", density: 0.2 },
  "TIES by tensor": { method: "ties", density: 0.2, trim: "tensor" },
  "DARE linear": { method: "dare_linear", density: 0.3 },
  "DARE TIES": { method: "dare_ties", density: 0.3 },
  Breadcrumbs: { method: "breadcrumbs", density: 0.9 },
  DELLA: { method: "della", density: 0.4 },
  "Model Stock": { method: "model_stock" },
  SCE: { method: "sce", select: 0.1 },
};

/** @param {string[]} args */
export async function benchmarkMethods(args) {
  const { values } = parseArgs({
    args,
    options: { rounds: { type: "string", default: "3" }, only: { type: "string" } },
  });
  console.log(`machine: ${describeMachine()}`);
  console.log("models: Llama 3.2 1B's shape, bfloat16; three experts and their base; warm cache\n");
  const names = ["1b-task", "1b-language", "1b-third", "1b-base"];
  const folders = names.map((name, i) => writeCheckpoint(join(DATA, name), LLAMA_1B, { seed: [1, 2, 4, 3][i] ?? 0 }));
  const weights = folders.map((folder) => join(folder, "model.safetensors"));
  const out = (/** @type {string} */ name) => join(DATA, `out-${name.replaceAll(" ", "-")}`);
  mkdirSync(join(DATA, "recipes"), { recursive: true });

  /** @type {import("./measure.js").Peers} */
  const peers = {
    floor: () =>
      measure("sh", ["-c", 'cat "$0" "$1" "$2" > /dev/null && cp "$3" "$4" && sync "$4"', ...weights, out("floor")]),
  };
  for (const [name, recipe] of Object.entries(RECIPES)) {
    if (values.only !== undefined && !values.only.split(",").includes(name)) continue;
    const file = join(DATA, "recipes", `${name.replaceAll(" ", "-")}.json`);
    const [models, base] = [folders.slice(0, 3), folders[3]];
    writeFileSync(file, JSON.stringify({ ...recipe, models, ...(name === "soup" ? {} : { base }) }));
    peers[name] = () => measure(process.execPath, [CLI, "merge", file, "--out", out(name), "--quiet"]);
  }
  await comparePeers(peers, Number(values.rounds), (name) => rmSync(out(name), { recursive: true, force: true }));
}
