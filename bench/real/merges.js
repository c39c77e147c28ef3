// Merges of two real experts (--experts A,B) by mergekit and by layergraft, from the same configuration.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CLI, measure } from "../measure.js";
import { askPeer } from "./peers.js";

const METHODS = {
  linear: {},
  slerp: { t: 0.4 },
  nuslerp: {},
  task_arithmetic: {},
  ties: { density: 0.4 },
  breadcrumbs: { density: 0.8, gamma: 0.02 },
  breadcrumbs_ties: { density: 0.8, gamma: 0.02 },
  model_stock: {},
  "model_stock by row": { filter_wise: true },
  multislerp: {},
  "multislerp of changes": {},
  karcher: {},
  ram: {},
  ramplus_tl: {},
  arcee_fusion: {},
  sce: { select_topk: 0.5 },
  nearswap: { t: 0.001 },
};
const WITHOUT_BASE = new Set(["linear", "nuslerp", "multislerp", "karcher"]);
const FROM_AN_EXPERT = new Set(["slerp", "nearswap", "arcee_fusion"]);

/** @param {import("./main.js").Given} given @returns {AsyncGenerator<import("./main.js").Row>} */
export async function* compareMerges(given) {
  const [a, b] = given.experts.map((expert) => resolve(expert));
  if (a === undefined || b === undefined) return;
  const folder = join(given.out, "merges");
  mkdirSync(folder, { recursive: true });
  for (const [name, parameters] of Object.entries(METHODS)) {
    const [method = name] = name.split(" ");
    const config = join(folder, `${name}.yml`);
    const base = FROM_AN_EXPERT.has(name)
      ? { base_model: a }
      : WITHOUT_BASE.has(name)
        ? {}
        : { base_model: given.float32 };
    const models = [a, b].map((model) => ({ model, parameters: { weight: 0.5 } }));
    const recipe = { merge_method: method, ...base, models, parameters, dtype: "float32", tokenizer_source: "base" };
    writeFileSync(config, JSON.stringify("base_model" in recipe ? recipe : { ...recipe, tokenizer_source: "union" }));
    const [ours, theirs] = [join(folder, "ours"), join(folder, "theirs")];
    await measure(process.execPath, [CLI, "merge", config, "--out", ours, "--force", "--quiet"]);
    const { version, elements, differing, worst } = askPeer(given.python, "merges_peer.py", { config, ours, theirs });
    const difference = differing === 0 ? "none" : `${differing} by at most ${worst.toExponential(1)}`;
    yield { what: `merge, ${name}`, against: `mergekit ${version}`, compared: `${elements} weights`, difference };
    rmSync(ours, { recursive: true });
    rmSync(theirs, { recursive: true });
  }
}
