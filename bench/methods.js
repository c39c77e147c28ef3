// Merge methods on three experts of 1B (or 125M) parameters and their base, each beside the floor of the machine: reading all inputs once and
// writing the output; and beside mergekit in the same round, with --mergekit PYTHON.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DATA, LLAMA_1B, LLAMA_125M, writeCheckpoint } from "./checkpoints.js";
import { CLI, comparePeers, describeMachine, measure } from "./measure.js";

/**
 * Recipes by name, and what mergekit calls the same; models and base are filled in.
 * @type {Record<string, { recipe: object, mergekit?: [method: string, parameters: object] }>}
 */
const RECIPES = {
  soup: { recipe: { method: "soup" }, mergekit: ["linear", {}] },
  "task arithmetic": {
    recipe: { method: "task_arithmetic", lambda: 0.5 },
    mergekit: ["task_arithmetic", { lambda: 0.5 }],
  },
  "TIES by model": { recipe: { method: "ties", density: 0.2 } },
  "TIES by tensor": { recipe: { method: "ties", density: 0.2, trim: "tensor" }, mergekit: ["ties", { density: 0.2 }] },
  "DARE linear": { recipe: { method: "dare_linear", density: 0.3 }, mergekit: ["dare_linear", { density: 0.3 }] },
  "DARE TIES": { recipe: { method: "dare_ties", density: 0.3 }, mergekit: ["dare_ties", { density: 0.3 }] },
  Breadcrumbs: { recipe: { method: "breadcrumbs", density: 0.9 }, mergekit: ["breadcrumbs", { density: 0.9 }] },
  DELLA: { recipe: { method: "della", density: 0.4, rescale: "norm" }, mergekit: ["della", { density: 0.4 }] },
  "Model Stock": { recipe: { method: "model_stock" }, mergekit: ["model_stock", {}] },
  SCE: { recipe: { method: "sce", select: 0.1 }, mergekit: ["sce", { select_topk: 0.1 }] },
  "Multi-SLERP": { recipe: { method: "multislerp" }, mergekit: ["multislerp", {}] },
  Karcher: { recipe: { method: "karcher" }, mergekit: ["karcher", {}] },
  RAM: { recipe: { method: "ram" }, mergekit: ["ram", {}] },
  "RAM+": { recipe: { method: "ramplus_tl" }, mergekit: ["ramplus_tl", {}] },
  consensus: { recipe: { method: "consensus" } },
};
const WITHOUT_BASE = new Set(["soup", "Karcher"]);
const PEER = fileURLToPath(new URL("./methods_peer.py", import.meta.url));

/** @param {string[]} args */
export async function benchmarkMethods(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "3" },
      only: { type: "string" },
      model: { type: "string", default: "1b" },
      mergekit: { type: "string" },
    },
  });
  console.log(`machine: ${describeMachine()}`);
  const isSmall = values.model === "125m";
  const shape = isSmall ? "a Llama of 125M parameters" : "Llama 3.2 1B's shape";
  console.log(`models: ${shape}, bfloat16; three experts and their base; warm cache\n`);
  const names = ["task", "language", "third", "base"].map((name) => `${values.model}-${name}`);
  const folders = names.map((name, i) =>
    writeCheckpoint(join(DATA, name), isSmall ? LLAMA_125M : LLAMA_1B, { seed: [1, 2, 4, 3][i] ?? 0 }),
  );
  const weights = folders.map((folder) => join(folder, "model.safetensors"));
  const out = (/** @type {string} */ name) => join(DATA, `out-${name.replaceAll(" ", "-")}`);
  mkdirSync(join(DATA, "recipes"), { recursive: true });

  /** @type {import("./measure.js").Peers} */
  const peers = {
    floor: () =>
      measure("sh", [
        "-c",
        'cat "$0" "$1" "$2" > /dev/null && dd if="$3" of="$4" bs=1048576 2>/dev/null && sync "$4"',
        ...weights,
        out("floor"),
      ]),
  };
  for (const [name, { recipe, mergekit }] of Object.entries(RECIPES)) {
    if (values.only !== undefined && !values.only.split(",").includes(name)) continue;
    const file = join(DATA, "recipes", `${name.replaceAll(" ", "-")}.json`);
    const [models, base] = [folders.slice(0, 3), folders[3]];
    const from = WITHOUT_BASE.has(name) ? {} : { base };
    writeFileSync(file, JSON.stringify({ ...recipe, models, ...from }));
    peers[name] = () => measure(process.execPath, [CLI, "merge", file, "--out", out(name), "--quiet"]);
    const python = values.mergekit;
    if (python === undefined || mergekit === undefined) continue;
    const [merge_method, parameters] = mergekit;
    const config = join(DATA, "recipes", `${name.replaceAll(" ", "-")}.yml`);
    const weighted = models.map((model) => ({ model, parameters: { weight: 1 } }));
    const origin = WITHOUT_BASE.has(name) ? {} : { base_model: base };
    writeFileSync(config, JSON.stringify({ merge_method, ...origin, models: weighted, parameters, dtype: "bfloat16" }));
    const theirs = `${name}, mergekit`;
    peers[theirs] = () => measure(python, [PEER, config, out(theirs)]);
  }
  await comparePeers(peers, Number(values.rounds), (name) => rmSync(out(name), { recursive: true, force: true }));
}
