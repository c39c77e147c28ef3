// Can a merge be chosen without labels, and does it merge at all? Trains pairs of experts from one base, and scores many
// merges of each pair, with what is known of them without labels (README.md, "Without labels").
//
//   node examples/miniature/label-free.js train WORLD BASE SEED [all]   WORLD: a folder that `npm run miniature -- WORLD SEED`
//       wrote; `all`: the experts change all layers
//   node examples/miniature/label-free.js score WORLD BASE MATH LANGUAGE FILE   appends one line of JSON for each merge
//       that FILE lacks
//
// judge.js makes the tables of docs/results.md from these lines.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { analyze, train } from "layergraft";
import { openEngine } from "#engine";

/** @typedef {Awaited<ReturnType<typeof analyze>>} Analysis */
/** @typedef {{ sw: string, en: string, answer: number, solution: string }} Problem */
/** @typedef {Awaited<ReturnType<typeof openEngine>>} Engine */

/** Test problems of the grid and of other merges, prompts without labels, texts of the language expert, samples of some prompts. */
const COUNTS = { test: 300, others: 150, prompts: 100, texts: 60, sampled: 40, samples: 3 };
/** The first of the language expert's texts. */
const TEXTS = 19_940;
const BATCH = 64;

/** @param {string} file @returns {any[]} */
const rowsOf = (file) =>
  readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

/**
 * As plan.yaml, with half the steps of the language expert.
 * @param {string} world @param {string} base @param {number} seed @param {boolean} isFree both experts change all layers
 */
async function trainPair(world, base, seed, isFree) {
  const like = {
    base,
    sequence_length: 128,
    batch: 12,
    packing: true,
    optimizer: { betas: [0.9, 0.98], decay: 0 },
    schedule: { kind: "cosine", warmup: 15, floor: 0.05 },
    checkpoints: { every_samples: 1e9, keep: "last" },
    seed,
    threads: 1,
  };
  for (const [name, steps, lr, part] of /** @type {const} */ ([
    ["math", 200, 4e-4, "layers 3-7"],
    ["language", 400, 1e-3, "embeddings, layers 0-2"],
  ])) {
    const source = resolve(world, "data", `${name}.jsonl`);
    const data = {
      sets: [{ source, map: { prompt: "prompt", response: "response" } }],
      template: "{prompt} {response}",
    };
    const optimizer = { ...like.optimizer, lr };
    const run = { ...like, out: join(world, name), data, steps, optimizer, ...(!isFree && { train: part }) };
    await train(/** @type {any} */ (run));
  }
}

/** The merges by name; those of the first group are the demo's grid. @param {string} base @param {string} math @param {string} language */
function recipesOf(base, math, language) {
  const models = [math, language];
  const deltas = { models, base };
  /** @type {{ group: string, name: string, recipe: any }[]} */
  const all = [];
  /** @param {string} group @param {string} name @param {object} recipe */
  const add = (group, name, recipe) => all.push({ group, name, recipe });
  const swap = { method: "swap", task: math, language };
  for (const bottom of [1, 2, 3])
    for (const top of [0, 1, 2]) add("grid", `swap ${bottom} ${top}`, { ...swap, bottom, top });
  for (const bottom of [4, 5, 6]) add("swap", `swap ${bottom} 0`, { ...swap, bottom, top: 0 });
  for (const top of [1, 2, 3]) add("swap", `swap 0 ${top}`, { ...swap, bottom: 0, top });
  for (const outside of ["language", "task"])
    for (const bottom of [1, 3])
      add("swap", `swap ${bottom} 0, outside ${outside}`, { ...swap, bottom, top: 0, outside });
  for (const [bottom, top] of [
    [2, 1],
    [3, 0],
  ])
    add("reverse", `reverse ${bottom} ${top}`, { method: "swap", task: language, language: math, bottom, top });
  add("into base", "into base 2 1", { ...swap, task: base, bottom: 2, top: 1 });
  for (const seed of [0, 1, 2, 3]) add("random", `random ${seed}`, { method: "shuffle", models, layers: 3, seed });
  for (const lambda of [0.3, 0.5, 0.7, 1, 1.5, 2])
    add("task arithmetic", `task arithmetic ${lambda}`, { method: "task_arithmetic", ...deltas, lambda });
  for (const density of [0.1, 0.2, 0.5, 0.8]) add("ties", `ties ${density}`, { method: "ties", ...deltas, density });
  for (const share of [0.25, 0.5, 0.75])
    add("soup", `soup ${share}`, {
      method: "soup",
      models: [
        { model: math, weight: 1 - share },
        { model: language, weight: share },
      ],
    });
  for (const t of [0.3, 0.5, 0.7]) add("slerp", `slerp ${t}`, { method: "slerp", models, t });
  for (const density of [0.5, 0.9]) add("dare", `dare ${density}`, { method: "dare_linear", ...deltas, density });
  for (const method of ["breadcrumbs", "sce", "magmax", "model_stock", "ram"])
    add(method, method, { method, ...deltas });
  return all;
}

/** The last number of an answer; null if there is none. @param {string} text */
const numberOf = (text) => {
  const found = text.match(/-?\d+/g)?.at(-1);
  return found === undefined ? null : Number(found);
};

/** Whether an answer is an equation that holds. @param {string} text */
const holds = (text) => {
  const [, a, sign, b, c] = text.match(/^\s*(\d+) ([+-]) (\d+) = (-?\d+)\./) ?? [];
  return a !== undefined && (sign === "+" ? Number(a) + Number(b) : Number(a) - Number(b)) === Number(c);
};

/** @param {Engine} engine @param {readonly string[]} prompts @param {object} [sampling] */
async function answer(engine, prompts, sampling = {}) {
  const ids = await Promise.all(prompts.map((prompt) => engine.encode(prompt)));
  const answers = await engine.generate(ids, { maxNewTokens: 8, batch: BATCH, ...sampling });
  return answers.map((one, i) => ({ context: ids[i] ?? [], continuation: one.ids, text: one.text }));
}

/** Mean log-probability of a token. @param {Engine} engine @param {any[]} pairs */
async function likelihood(engine, pairs) {
  const scores = await engine.scoreContinuations(
    pairs.filter(({ continuation }) => continuation.length > 0),
    { batch: BATCH },
  );
  const tokens = scores.flatMap(({ tokens }) => tokens);
  return tokens.reduce((sum, one) => sum + one, 0) / tokens.length;
}

/** @param {Engine} engine @param {{ prompt: string, response: string }[]} rows */
async function pairsOf(engine, rows) {
  const whole = await Promise.all(rows.map(({ prompt, response }) => engine.encode(`${prompt} ${response}`)));
  const contexts = await Promise.all(rows.map(({ prompt }) => engine.encode(prompt)));
  return whole.map((ids, i) => ({ context: contexts[i], continuation: ids.slice(contexts[i]?.length) }));
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

/** @param {string} world @param {string} base @param {string} math @param {string} language @param {string} file */
async function score(world, base, math, language, file) {
  const scored = new Set(existsSync(file) ? rowsOf(file).map(({ name }) => name) : []);
  /** @type {Problem[]} */
  const test = rowsOf(join(world, "data/problems.jsonl")).slice(0, COUNTS.test);
  /** @type {Problem[]} */
  const choosing = rowsOf(join(world, "data/choosing.jsonl"));
  const prompts = choosing.slice(0, COUNTS.prompts);
  const texts = rowsOf(join(world, "data/language.jsonl")).slice(TEXTS, TEXTS + COUNTS.texts);
  const ask = (/** @type {Problem[]} */ problems, /** @type {"sw" | "en"} */ language) =>
    problems.map((problem) => `${problem[language]} Solve:`);
  const expert = await openEngine(math);
  const taught = (await answer(expert, ask(prompts, "en"))).map(({ text }) => numberOf(text));
  await expert.close();
  const experts = { math, language };
  const on = prompts.map(({ sw }) => sw);
  const { alignment } = await analyze({ base, experts, on });
  const recipes = recipesOf(base, math, language);
  const merges = Object.fromEntries(recipes.map(({ recipe }, index) => [`merge ${index}`, recipe]));
  const analysis = await analyze({ base, experts: { ...experts, ...merges } });
  for (const [index, { group, name, recipe }] of recipes.entries()) {
    if (scored.has(name)) continue;
    const engine = await openEngine(recipe, { threads: 1 });
    const inGrid = group === "grid";
    const graded = async (/** @type {Problem[]} */ problems) =>
      (await answer(engine, ask(problems, "sw"))).map(({ text }, i) => numberOf(text) === problems[i]?.answer);
    const bits = (/** @type {boolean[]} */ list) => list.map(Number).join("");
    const line = {
      group,
      name,
      test: bits(await graded(inGrid ? test : test.slice(0, COUNTS.others))),
      ...(inGrid && { ...(await signals(engine)), taught }),
      changes: changesOf(analysis, index + 2),
      // After each layer: base with math, base with language, math with language.
      alignment: alignment?.pairs,
    };
    await engine.close();
    appendFileSync(file, `${JSON.stringify(line)}\n`);
  }

  /** What a merge of the grid answers and how likely it finds texts. @param {Engine} engine */
  async function signals(engine) {
    const greedy = await answer(engine, ask(choosing, "sw"));
    const unlabelled = greedy.slice(0, COUNTS.prompts);
    const english = await answer(engine, ask(prompts, "en"));
    const repeated = ask(prompts.slice(0, COUNTS.sampled), "sw").flatMap((prompt) =>
      Array(COUNTS.samples).fill(prompt),
    );
    const sampled = await answer(engine, repeated, { temperature: 1, seed: repeated.map((_, i) => i) });
    const rows = prompts.map(({ en, solution }) => ({ prompt: `${en} Solve:`, response: solution }));
    return {
      choosing: greedy.map(({ text }, i) => Number(numberOf(text) === choosing[i]?.answer)).join(""),
      answers: unlabelled.map(({ text }) => numberOf(text)),
      english: english.map(({ text }) => numberOf(text)),
      solved: english.map(({ text }, i) => Number(numberOf(text) === prompts[i]?.answer)).join(""),
      samples: sampled.map(({ text }) => numberOf(text)),
      equations: unlabelled.filter(({ text }) => holds(text)).length / unlabelled.length,
      confidence: await likelihood(engine, unlabelled),
      entropy: -(await likelihood(engine, sampled)),
      texts: await likelihood(engine, await pairsOf(engine, texts)),
      solutions: await likelihood(engine, await pairsOf(engine, rows)),
    };
  }
}

const [, , verb, world = "", ...rest] = process.argv;
if (verb === "train") await trainPair(world, resolve(rest[0] ?? ""), Number(rest[1]), rest[2] === "all");
else if (verb === "score")
  await score(world, .../** @type {[string, string, string, string]} */ (rest.map((one) => resolve(one))));
else throw new Error("give train or score (the first lines of label-free.js)");
