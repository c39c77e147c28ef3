// What merges of mixtures lose by their routing, and what calibrated routers regain (README.md, "Mixtures that route").
//
//   node examples/miniature/mixtures.js score WORLD BASE MATH LANGUAGE FILE   appends one line of JSON for each model and merge
//       that FILE lacks. WORLD: a folder that `npm run miniature -- WORLD SEED moe` wrote
//   node examples/miniature/mixtures.js table FILE...                         means over files, with the range of the files
import { appendFileSync, existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { analyze, evaluate, planMerge } from "layergraft";
import { rowsOf } from "./measure.js";

/** Texts of each expert that routers are calibrated on, and test problems. */
const COUNTS = { calibration: [10, 100], standard: 100, sw: 300, en: 100, routed: 100 };

/** @param {string} file @param {number} count */
const textsOf = (file, count) =>
  rowsOf(file)
    .slice(0, count)
    .map(({ prompt, response }) => `${prompt} ${response}`.trim());

/** Merges by name. @param {string} world @param {string} base @param {string} math @param {string} language */
function mergesOf(world, base, math, language) {
  const models = [math, language];
  const soup = { method: "soup", models };
  const ties = { method: "ties", models, base, density: 0.2 };
  /** @param {string} one @param {string} other */
  const routersOf = (one, other) => ({
    method: "soup",
    models: [one, { model: other, weight: [{ parts: ["router"], value: 0 }, { value: 1 }] }],
  });
  /** @param {object} model @param {number} count */
  const calibrated = (model, count) => ({
    ...{ method: "harc", model },
    models: [
      { model: math, texts: textsOf(join(world, "data/math.jsonl"), count) },
      { model: language, texts: textsOf(join(world, "data/language.jsonl"), count) },
    ],
  });
  return {
    soup,
    ties,
    swap: { method: "swap", task: math, language, bottom: 2, top: 1, bottom_transition: 0, top_transition: 0 },
    "ties, calibrated": calibrated(ties, COUNTS.standard),
    // The soup with the routers of one model: nothing done to routers alone makes it choose more like that model.
    "soup, routers of math": routersOf(math, language),
    "soup, routers of language": routersOf(language, math),
    ...Object.fromEntries(
      COUNTS.calibration.map((count) => {
        const name = count === COUNTS.standard ? "soup, calibrated" : `soup, calibrated on ${count}`;
        return [name, calibrated(soup, count)];
      }),
    ),
  };
}

/** @param {string} world @param {string} base @param {string} math @param {string} language @param {string} file */
async function score(world, base, math, language, file) {
  const known = new Set(existsSync(file) ? rowsOf(file).map(({ name }) => name) : []);
  const problems = rowsOf(join(world, "data/problems.jsonl")).slice(0, COUNTS.routed);
  const own = { base, math, language };
  const all = { ...own, ...mergesOf(world, base, math, language) };
  const folder = mkdtempSync(join(tmpdir(), "mixtures-"));
  try {
    for (const [name, source] of Object.entries(all)) {
      if (known.has(name)) continue;
      const model = typeof source === "string" ? source : join(folder, name);
      if (typeof source !== "string") await (await planMerge(/** @type {any} */ (source))).write({ out: model });
      const tasks = { sw: join(world, "problems_sw.yaml"), en: join(world, "problems_en.yaml") };
      /** @type {Record<string, unknown>} */
      const line = { name };
      for (const [field, task] of Object.entries(tasks)) {
        const limit = field === "sw" ? COUNTS.sw : COUNTS.en;
        const { scores } = await evaluate(model, { tasks: [task], limit, threads: 1, batch: 32 });
        line[field] = 100 * Number(scores[0]?.value);
        // How often it chooses as each expert: pairs (0,1), (0,2), (0,3), (1,2), (1,3), (2,3) of base, math, language, itself.
        const on = problems.map((problem) => `${problem[field]} Solve:`);
        const experts = { math, language, model };
        const { routing } = await analyze({ base, experts, on }, { threads: 1 });
        const layers = routing?.layers ?? [];
        line[`${field} math`] = layers.map(({ pairs }) => 100 * (pairs[4] ?? 0));
        line[`${field} language`] = layers.map(({ pairs }) => 100 * (pairs[5] ?? 0));
      }
      appendFileSync(file, `${JSON.stringify(line)}\n`);
      if (model !== source) rmSync(model, { recursive: true });
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** @param {readonly number[]} list */
const mean = (list) => list.reduce((sum, one) => sum + one, 0) / list.length;

/** @param {readonly string[]} files */
function table(files) {
  const runs = files.map((file) => new Map(rowsOf(file).map((line) => [line.name, line])));
  const columns = {
    "Swahili problems": (/** @type {any} */ line) => line.sw,
    "English problems": (/** @type {any} */ line) => line.en,
    "as math, English": (/** @type {any} */ line) => mean(line["en math"]),
    "as the Swahili expert, Swahili": (/** @type {any} */ line) => mean(line["sw language"]),
  };
  console.log(`| model | ${Object.keys(columns).join(" | ")} |\n|${" --- |".repeat(1 + Object.keys(columns).length)}`);
  for (const name of runs[0]?.keys() ?? []) {
    const cells = Object.values(columns).map((of) => {
      const values = runs.flatMap((run) => (run.has(name) ? [of(run.get(name))] : []));
      return `${mean(values).toFixed(1)} (${Math.min(...values).toFixed(1)} to ${Math.max(...values).toFixed(1)})`;
    });
    console.log(`| ${name} | ${cells.join(" | ")} |`);
  }
}

const [command, ...rest] = process.argv.slice(2);
if (command === "score" && rest.length === 5) {
  const [world, base, math, language, file] = rest.map((path) => resolve(path));
  await score(/** @type {string} */ (world), base ?? "", math ?? "", language ?? "", file ?? "");
} else if (command === "table" && rest.length > 0) table(rest);
else throw new Error("see the first lines of this file");
