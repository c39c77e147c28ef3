// Merge methods on experts and their base, each beside the floor of the machine: reading all inputs once and writing the output; and beside
// mergekit in the same round, with --mergekit PYTHON. `--only swap,q4_k_m` takes those named; a type of GGUF exports one of the experts.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { DATA, SHAPES, writeCheckpoint } from "./checkpoints.js";
import { writeTokenizer } from "./export.js";
import { CLI, comparePeers, describeMachine, measure } from "./measure.js";

/**
 * Recipes by name, and what mergekit calls the same; models and base are filled in.
 * @type {Record<string, { recipe: object, mergekit?: [method: string, parameters: object] }>}
 */
const RECIPES = {
  swap: { recipe: { method: "swap" } },
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
const SEEDS = { task: 1, language: 2, third: 4 };
const PEER = fileURLToPath(new URL("./methods_peer.py", import.meta.url));

/** @param {string[]} args */
export async function benchmarkMethods(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "3" },
      only: { type: "string" },
      model: { type: "string", default: "1b" },
      experts: { type: "string", default: "3" },
      data: { type: "string", default: DATA },
      mergekit: { type: "string" },
      cuda: { type: "boolean", default: false },
    },
  });
  console.log(`machine: ${describeMachine()}`);
  const shape = SHAPES[/** @type {keyof typeof SHAPES} */ (values.model)];
  const count = Number(values.experts);
  console.log(`models: a Llama of ${values.model}, bfloat16; ${count} experts and their base; warm cache\n`);
  const at = (/** @type {string} */ name) => join(values.data, name);
  const models = Object.entries(SEEDS)
    .slice(0, count)
    .map(([name, seed]) => writeCheckpoint(at(`${values.model}-${name}`), shape, { seed }));
  const base = writeCheckpoint(at(`${values.model}-base`), shape, { seed: 3 });
  const out = (/** @type {string} */ name) => at(`out-${name.replaceAll(" ", "-")}`);
  mkdirSync(at("recipes"), { recursive: true });

  const floor = 'out=$1; base=$2; shift 2; for one in "$base" "$@"; do cat "$one"/*.safetensors > /dev/null; done';
  const copy = 'cat "$base"/*.safetensors > "$out" && sync "$out"';
  /** @type {import("./measure.js").Peers} */
  const peers = {
    floor: () => measure("sh", ["-c", `${floor} && ${copy}`, "sh", out("floor"), base, ...models]),
  };
  const isWanted = (/** @type {string} */ name, isDefault = true) =>
    values.only?.split(",").includes(name) ?? isDefault;
  for (const [name, { recipe, mergekit }] of Object.entries(RECIPES)) {
    if (!isWanted(name)) continue;
    const file = at(`recipes/${name.replaceAll(" ", "-")}.json`);
    const ours = WITHOUT_BASE.has(name) ? { models } : { models, base };
    const from = name === "swap" ? { task: models[0], language: models[1] } : ours;
    writeFileSync(file, JSON.stringify({ ...recipe, ...from }));
    peers[name] = () => measure(process.execPath, [CLI, "merge", file, "--out", out(name), "--quiet"]);
    const python = values.mergekit;
    if (python === undefined || mergekit === undefined) continue;
    const [merge_method, parameters] = mergekit;
    const weighted = models.map((model) => ({ model, parameters: { weight: 1 } }));
    const theirs = `${name}, mergekit`;
    const config = file.replace(/json$/, "yml");
    const theirBase = WITHOUT_BASE.has(name) ? {} : { base_model: base };
    writeFileSync(
      config,
      JSON.stringify({ merge_method, ...theirBase, models: weighted, parameters, dtype: "bfloat16" }),
    );
    peers[theirs] = () => measure(python, [PEER, config, out(theirs), ...(values.cuda ? ["--cuda"] : [])]);
  }
  for (const type of ["q8_0", "q4_k_m"]) {
    if (!isWanted(type, false)) continue;
    const [model = ""] = models;
    writeTokenizer(model, shape.vocabulary);
    const args = ["export", model, "--type", type, "--out", out(type), "--force", "--quiet"];
    peers[type] = () => measure(process.execPath, [CLI, ...args]);
  }
  await comparePeers(peers, Number(values.rounds), (name) => rmSync(out(name), { recursive: true, force: true }));
}
