// Can a merge be chosen without labels, and does it merge at all? Trains pairs of experts from one base, and scores many
// merges of each pair, with what is known of them without labels (README.md, "Without labels").
//
//   node examples/miniature/label-free.js train WORLD BASE SEED [all]   WORLD: a folder that `npm run miniature -- WORLD SEED`
//       wrote; `all`: the experts change all layers
//   node examples/miniature/label-free.js score WORLD BASE MATH LANGUAGE FILE   appends one line of JSON for each merge
//       that FILE lacks
//
// judge.js makes the tables of docs/results.md from these lines.
import { join, resolve } from "node:path";
import { train } from "layergraft";
import { openEngine } from "#engine";
import { bits, gridOf, likelihood, pairsOf, rowsOf, scoreMerges } from "./measure.js";

/** @typedef {import("./measure.js").Engine} Engine */
/** @typedef {import("./measure.js").Merge} Merge */
/** @typedef {{ sw: string, en: string, answer: number, solution: string }} Problem */

/** Test problems of the grid and of other merges, prompts without labels, texts of the language expert, samples of some prompts. */
const COUNTS = { test: 300, others: 150, prompts: 100, texts: 60, sampled: 40, samples: 3 };
/** The first of the language expert's texts. */
const TEXTS = 19_940;
const BATCH = 64;

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
  const swap = { method: "swap", task: math, language };
  const all = gridOf(swap, [1, 2, 3], [0, 1, 2], [2, 1]);
  /** @param {string} group @param {string} name @param {object} recipe */
  const add = (group, name, recipe) => all.push({ group, name, recipe });
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

/** @param {string} world @param {string} base @param {string} math @param {string} language @param {string} file */
async function score(world, base, math, language, file) {
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
  const on = prompts.map(({ sw }) => sw);
  await scoreMerges(file, { base, math, language, on }, recipesOf(base, math, language), async (engine, { group }) => {
    const asked = group === "grid" ? test : test.slice(0, COUNTS.others);
    const answers = await answer(engine, ask(asked, "sw"));
    const right = bits(answers.map(({ text }, i) => numberOf(text) === asked[i]?.answer));
    return { test: right, ...(group === "grid" && { ...(await signals(engine)), taught }) };
  });

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
      choosing: bits(greedy.map(({ text }, i) => numberOf(text) === choosing[i]?.answer)),
      answers: unlabelled.map(({ text }) => numberOf(text)),
      english: english.map(({ text }) => numberOf(text)),
      solved: bits(english.map(({ text }, i) => numberOf(text) === prompts[i]?.answer)),
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
