// Records what the board on the first page of the documentation shows: every swap of the example's whole layers on the first 100
// word problems, and where the experts changed. Run: npm run build && node docs/living.js (two minutes on two cores)

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { evaluate } from "../dist/index.js";

const ITEMS = 100;
const LAYERS = 8;

const parent = mkdtempSync(join(tmpdir(), "living-"));
const at = (/** @type {string} */ name) => join(parent, "example", name);
const command = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
try {
  execFileSync(process.execPath, [command, "example", join(parent, "example")]);
  const experts = ["--expert", `task=${at("math-expert")}`, "--expert", `language=${at("swahili-expert")}`];
  execFileSync(process.execPath, [command, "analyze", "--base", at("base"), ...experts, "--out", at("changes")]);
  /** @type {{ byLayer: { layer: number, experts: { name: string, shares: number[] }[] }[] }} */
  const { byLayer } = JSON.parse(readFileSync(at("changes/analysis.json"), "utf8"));
  /** @param {string} name */
  const changed = (name) =>
    Array.from({ length: LAYERS }, (_, layer) => {
      const found = byLayer.find((one) => one.layer === layer)?.experts.find((one) => one.name === name);
      return Number((found?.shares[0] ?? 0).toFixed(3));
    });
  /** @type {number[]} */
  const right = [];
  /** @type {Record<string, [number, number]>} */
  const intervals = {};
  for (let index = 0; index < 2 ** LAYERS; index++) {
    const layers = Array.from({ length: LAYERS }, (_, layer) => layer).filter((layer) => (index >> layer) & 1);
    const chosen = layers.length === 0 ? { bottom: 0, top: 0 } : { layers: { language: layers.join(",") } };
    const recipe = /** @type {const} */ ({
      ...{ method: "swap", task: at("math-expert"), language: at("swahili-expert") },
      ...chosen,
    });
    const { scores } = await evaluate(recipe, { tasks: [at("problems.yaml")], limit: ITEMS });
    const [{ value, interval }] = scores;
    right.push(Math.round(ITEMS * value));
    intervals[Math.round(ITEMS * value)] = [interval.low, interval.high].map((end) => Number(end.toFixed(4)));
  }
  const recorded = {
    items: ITEMS,
    right,
    intervals,
    changed: { task: changed("task"), language: changed("language") },
  };
  writeFileSync(new URL("site/swaps.json", import.meta.url), `${JSON.stringify(recorded)}\n`);
} finally {
  rmSync(parent, { recursive: true, force: true });
}
