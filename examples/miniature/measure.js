// What label-free.js, here and in examples/experiments/smollm2, measure alike: lines of JSON that judge.js reads.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { analyze } from "layergraft";
import { openEngine } from "#engine";

/** @typedef {Awaited<ReturnType<typeof analyze>>} Analysis */
/** @typedef {Awaited<ReturnType<typeof openEngine>>} Engine */
/** @typedef {{ group: string, name: string, recipe: any, default?: true }} Merge A merge; those of the group grid are chosen from. */
/** @typedef {{ context: readonly number[], continuation: readonly number[] }} Pair */

const BATCH = 64;

/** @param {string} file @returns {any[]} */
export const rowsOf = (file) =>
  readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

/** @param {boolean[]} list */
export const bits = (list) => list.map(Number).join("");

/**
 * The swaps that are chosen from.
 * @param {object} swap @param {readonly number[]} bottoms @param {readonly number[]} tops @param {readonly [number, number]} standard
 * @returns {Merge[]}
 */
export const gridOf = (swap, bottoms, tops, [standardBottom, standardTop]) =>
  bottoms.flatMap((bottom) =>
    tops.map((top) => ({
      group: "grid",
      name: `swap ${bottom} ${top}`,
      ...(bottom === standardBottom && top === standardTop ? { default: /** @type {const} */ (true) } : {}),
      recipe: { ...swap, bottom, top },
    })),
  );

/** Mean log-probability of a token. @param {Engine} engine @param {readonly Pair[]} pairs */
export async function likelihood(engine, pairs) {
  const scores = await engine.scoreContinuations(
    pairs.filter(({ continuation }) => continuation.length > 0),
    { batch: BATCH },
  );
  const tokens = scores.flatMap(({ tokens }) => tokens);
  return tokens.reduce((sum, one) => sum + one, 0) / tokens.length;
}

/** @param {Engine} engine @param {readonly { prompt: string, response: string }[]} rows @returns {Promise<Pair[]>} */
export async function pairsOf(engine, rows) {
  const whole = await Promise.all(rows.map(({ prompt, response }) => engine.encode(`${prompt} ${response}`)));
  const contexts = await Promise.all(rows.map(({ prompt }) => engine.encode(prompt)));
  return whole.map((ids, i) => ({ context: contexts[i] ?? [], continuation: ids.slice(contexts[i]?.length) }));
}

/**
 * What changed, in all and by layer: norms of math, language and the merge, and cosines of math with language, math with
 * the merge, and language with the merge.
 * @param {Analysis} analysis of math, language and all merges @param {number} merge its place among them
 */
function changesOf({ total, byLayer, experts: { length } }, merge) {
  const three = [0, 1, merge];
  const figures = (/** @type {Analysis["total"]} */ { experts, pairs }) => {
    const cosine = (/** @type {number} */ i, /** @type {number} */ j) =>
      pairs[i * length - (i * (i + 1)) / 2 + j - i - 1]?.cosine ?? null;
    return {
      norms: three.map((i) => experts[i]?.norm ?? 0),
      relative: three.map((i) => experts[i]?.relativeNorm ?? 0),
      cosines: [cosine(0, 1), cosine(0, merge), cosine(1, merge)],
    };
  };
  return { total: figures(total), layers: byLayer.map((one) => ({ layer: one.layer, ...figures(one) })) };
}

/**
 * Appends a line for each merge that a file lacks.
 * @param {string} file @param {{ base: string, math: string, language: string, on: string[], chance?: number }} pair `on`: prompts in
 *   the language; `chance`: share of problems that guessing solves
 * @param {readonly Merge[]} merges @param {(engine: Engine, merge: Merge) => Promise<object>} score
 */
export async function scoreMerges(file, { base, math, language, on, chance = 0 }, merges, score) {
  const scored = new Set(existsSync(file) ? rowsOf(file).map(({ name }) => name) : []);
  const experts = { math, language };
  const { alignment } = await analyze({ base, experts, on });
  const recipes = Object.fromEntries(merges.map(({ recipe }, index) => [`merge ${index}`, recipe]));
  const analysis = await analyze({ base, experts: { ...experts, ...recipes } });
  for (const [index, merge] of merges.entries()) {
    const { recipe, ...named } = merge;
    if (scored.has(named.name)) continue;
    const engine = await openEngine(recipe, { threads: 1 });
    const line = {
      ...named,
      chance,
      ...(await score(engine, merge)),
      changes: changesOf(analysis, index + 2),
      // After each layer: base with math, base with language, math with language.
      alignment: alignment?.pairs,
    };
    await engine.close();
    appendFileSync(file, `${JSON.stringify(line)}\n`);
  }
}
