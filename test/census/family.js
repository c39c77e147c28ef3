// Census of one family at a time, in a process of its own: takes families from main.js, and answers with their rows.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { analyze, inspect, planMerge } from "layergraft";
import { Python } from "./python.js";

const options = JSON.parse(process.argv[2] ?? "{}");

/**
 * @typedef {{ id: string, family: string, class: string }} Family
 * @typedef {{ state: "works" | "refused" | "wrong" | "unmade", details: string[] }} Outcome
 * @typedef {Family & { outcomes: Record<string, Outcome>, made?: any, tensors?: [string, number | null, string][], seconds?: number, error?: string }} Row
 */

/** Recipes by name, of the folders of a family. @type {Record<string, (at: (name: string) => string) => any>} */
const RECIPES = {
  swap: (at) => ({ method: "swap", task: at("a"), language: at("b"), bottom: 1, top: 1 }),
  transitions: (at) => ({
    method: "swap",
    ...{ task: at("a"), language: at("b"), bottom: 1, top: 1, bottom_transition: 1 },
  }),
  soup: (at) => ({ method: "soup", models: [at("a"), at("b")] }),
  ties: (at) => ({ method: "ties", models: [at("a"), at("b")], base: at("base"), density: 0.5, trim: "tensor" }),
  stack: (at) => ({
    method: "passthrough",
    slices: [
      { model: at("a"), layers: "0-2" },
      { model: at("b"), layers: "1-3" },
    ],
  }),
};

/** @param {unknown} error */
const textOf = (error) => (error instanceof Error ? error.message : String(error));

/** @param {Python} python @param {Family} family @param {string} folder @returns {Promise<Row>} */
async function census(python, family, folder) {
  mkdirSync(folder);
  const at = (/** @type {string} */ name) => join(folder, name);
  const named = { family: family.family, kind: family.class, folder };
  /** @type {Row} */
  const row = { ...family, outcomes: {} };
  try {
    row.made = await python.ask("make", named);
  } catch (error) {
    return { ...row, error: textOf(error) };
  }
  /** @param {string} name @param {() => Promise<void>} run */
  const attempt = async (name, run) => {
    try {
      await run();
      row.outcomes[name] = { state: "works", details: [] };
    } catch (error) {
      row.outcomes[name] = { state: "refused", details: [textOf(error)] };
    }
  };
  /** @type {Record<string, string>} */
  const outs = {};
  /** @type {Record<string, number> | undefined} */
  let analysis;
  await attempt("inspect", async () => {
    const { layers, parameters, allTensors } = await inspect({ source: at("base") });
    row.tensors = allTensors.map(({ name, layer, part }) => [name, layer, part]);
    if (layers !== row.made.layers) throw new Error(`${layers} layers, not ${row.made.layers}`);
    if (parameters !== row.made.parameters) throw new Error(`${parameters} parameters, not ${row.made.parameters}`);
  });
  if (options.place) return row;
  for (const [name, recipe] of Object.entries(RECIPES)) {
    await attempt(name, async () => {
      const plan = await planMerge(recipe(at));
      await plan.write({ out: at(`out-${name}`) });
      outs[name] = at(`out-${name}`);
    });
  }
  await attempt("analyze", async () => {
    const { total } = await analyze({ base: at("base"), experts: { a: at("a"), b: at("b") } });
    analysis = Object.fromEntries(["a", "b"].map((one, i) => [one, total.experts[i]?.relativeNorm ?? Number.NaN]));
  });
  try {
    const found = await python.ask("check", { ...named, outs, layers: row.made.layers, analysis });
    for (const [name, problems] of Object.entries(found)) {
      if (problems.length === 0) continue;
      const details = problems.map((/** @type {string[]} */ [kind, text]) => `${kind}: ${text}`);
      row.outcomes[name] = { state: name === "source" ? "unmade" : "wrong", details };
    }
  } catch (error) {
    row.error = textOf(error);
  }
  try {
    await censusOfVariants(python, named, row);
  } catch (error) {
    row.error = textOf(error);
  }
  return row;
}

/**
 * Merges pairs of checkpoints of the family that are stored in two ways.
 * @param {Python} python @param {{ family: string, kind: string, folder: string }} named @param {Row} row
 */
async function censusOfVariants(python, named, row) {
  const at = (/** @type {string} */ name) => join(named.folder, name);
  const variants = await python.ask("make variants", named);
  /** @type {Record<string, any>} */
  const merged = {};
  for (const [name, variant] of Object.entries(variants)) {
    if (variant.unmade) {
      row.outcomes[name] = { state: "unmade", details: [variant.unmade] };
      continue;
    }
    const [x = "", y = ""] = variant.models.map((/** @type {string} */ one) => one.split("+").map(at).join("+"));
    const write = async (/** @type {any} */ recipe, /** @type {string} */ out) => {
      const plan = await planMerge(recipe);
      return (await plan.write({ out: at(out) })).out;
    };
    try {
      const out = await write({ method: "soup", models: [x, y] }, `out-${name}`);
      const swapped =
        variant.swap && (await write({ method: "swap", task: x, language: y, bottom: 1, top: 1 }, `swap-${name}`));
      merged[name] = { ...variant, out, ...(swapped ? { swapped } : {}) };
      row.outcomes[name] = { state: "works", details: [] };
    } catch (error) {
      row.outcomes[name] = { state: "refused", details: [textOf(error)] };
    }
  }
  const found = await python.ask("check variants", { folder: named.folder, variants: merged });
  for (const [name, problems] of Object.entries(found)) {
    if (problems.length === 0) continue;
    const details = problems.map((/** @type {string[]} */ [kind, text]) => `${kind}: ${text}`);
    row.outcomes[name] = { state: "wrong", details };
  }
}

const python = new Python(options.python);
const scratch = mkdtempSync(join(tmpdir(), "layergraft-census-"));

process.on("message", async (/** @type {Family} */ family) => {
  const folder = join(scratch, family.id.replace(":", "-"));
  const from = performance.now();
  const row = await census(python, family, folder);
  if (python.ended) process.exit(1);
  row.seconds = (performance.now() - from) / 1000;
  if (!options.keep) rmSync(folder, { recursive: true, force: true });
  process.send?.(row);
});
process.on("disconnect", () => {
  python.close();
  if (!options.keep) rmSync(scratch, { recursive: true, force: true });
});
