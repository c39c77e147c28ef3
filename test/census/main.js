// Census of the families of transformers: npm run census. Needs a Python with torch and transformers, LAYERGRAFT_PYTHON.
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Python } from "./python.js";

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: "" },
    workers: { type: "string", default: "2" },
    out: { type: "string", default: "" },
    keep: { type: "boolean", default: false },
  },
});

if (!existsSync(new URL("../../dist/index.js", import.meta.url))) fail("build first: npm run build");
const { analyze, inspect, planMerge } = await import("layergraft");

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(message);
  process.exit(1);
}

/**
 * @typedef {{ family: string, class: string, kind: string }} Family
 * @typedef {{ state: "works" | "refused" | "wrong" | "unmade", details: string[] }} Outcome
 * @typedef {Family & { outcomes: Record<string, Outcome>, made?: any, steps?: any, seconds?: number, error?: string }} Row
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
    const { layers, parameters } = await inspect(at("base"));
    if (layers !== row.made.layers) throw new Error(`${layers} layers, not ${row.made.layers}`);
    if (parameters !== row.made.parameters) throw new Error(`${parameters} parameters, not ${row.made.parameters}`);
  });
  for (const [name, recipe] of Object.entries(RECIPES)) {
    await attempt(name, async () => {
      const plan = await planMerge(recipe(at));
      if (name === "swap") row.steps = plan.steps.map(({ tensor, shape, layer, part }) => [tensor, shape, layer, part]);
      await plan.write({ out: at(`out-${name}`), threads: 1 });
      outs[name] = at(`out-${name}`);
    });
  }
  await attempt("analyze", async () => {
    const { total } = await analyze({ base: at("base"), experts: { a: at("a"), b: at("b") }, threads: 1 });
    analysis = Object.fromEntries(["a", "b"].map((one, i) => [one, total.experts[i]?.relativeNorm ?? Number.NaN]));
  });
  try {
    const found = await python.ask("check", { ...named, outs, layers: row.made.layers ?? 0, analysis });
    for (const [name, problems] of Object.entries(found)) {
      if (problems.length === 0) continue;
      const details = problems.map((/** @type {string[]} */ [kind, text]) => `${kind}: ${text}`);
      row.outcomes[name] = { state: name === "source" ? "unmade" : "wrong", details };
    }
  } catch (error) {
    row.error = textOf(error);
  }
  return row;
}

const command = process.env.LAYERGRAFT_PYTHON ?? "python3";
const scratch = mkdtempSync(join(tmpdir(), "layergraft-census-"));
const start = performance.now();
const workers = Array.from({ length: Number(options.workers) }, () => new Python(command));
/** @type {Row[]} */
const rows = [];
try {
  const all = /** @type {Family[]} */ (await workers[0]?.ask("families", {}));
  const only = options.only === "" ? undefined : options.only.split(",");
  const queue = all.filter(({ family }) => only?.includes(family) ?? true);
  await Promise.all(
    workers.map(async (python) => {
      for (let family = queue.shift(); family; family = queue.shift()) {
        const folder = join(scratch, family.family);
        const from = performance.now();
        const row = await census(python, family, folder);
        row.seconds = (performance.now() - from) / 1000;
        rows.push(row);
        const bad = Object.entries(row.outcomes).filter(([, { state }]) => state !== "works");
        const said = bad.map(([name, { state, details }]) => `\n    ${name} ${state}: ${details.join("; ")}`).join("");
        console.log(`${family.family} ${row.seconds.toFixed(1)} s${row.error ? ` ERROR ${row.error}` : ""}${said}`);
        if (!options.keep) rmSync(folder, { recursive: true, force: true });
      }
    }),
  );
} catch (error) {
  fail(textOf(error));
} finally {
  for (const python of workers) python.close();
  if (!options.keep) rmSync(scratch, { recursive: true, force: true });
}
const seconds = (performance.now() - start) / 1000;
console.log(`${rows.length} families in ${seconds.toFixed(0)} s`);
const out = options.out || fileURLToPath(new URL("../../dist.census.json", import.meta.url));
writeFileSync(out, `${JSON.stringify({ seconds, rows }, undefined, 1)}\n`);
