// The questions of examples/miniature/label-free.js asked of SmolLM2 (README.md, "Without labels"):
//
//   node label-free.js BASE MATH SPANISH FILE   in the folder of what data.js wrote; appends one line of JSON for each
//       merge that FILE lacks
//
// examples/miniature/judge.js makes the tables of docs/results.md from these lines.
import { resolve } from "node:path";
import { openEngine } from "#engine";
import { bits, gridOf, likelihood, pairsOf, rowsOf, scoreMerges } from "../../miniature/measure.js";

/** @typedef {import("../../miniature/measure.js").Engine} Engine */
/** @typedef {import("../../miniature/measure.js").Merge} Merge */
/** @typedef {{ english: string, spanish: string, options: string[], answer: number }} Problem */

/** Problems that choose, of them prompts without labels; test problems of the grid and of other merges; texts in Spanish. */
const COUNTS = { choosing: 240, prompts: 100, test: 360, others: 100, texts: 16 };
const BATCH = 16;

/** @param {string} base @param {string} math @param {string} language @returns {Merge[]} */
function mergesOf(base, math, language) {
  const models = [math, language];
  const deltas = { models, base };
  const swap = { method: "swap", task: math, language };
  const all = gridOf(swap, [2, 5, 8], [2, 5], [5, 2]);
  /** @param {string} name @param {object} recipe */
  const add = (name, recipe) => all.push({ group: name.split(" ")[0] ?? "", name, recipe });
  for (const [bottom, top] of [
    [0, 2],
    [5, 0],
    [12, 12],
  ])
    add(`swap ${bottom} ${top}`, { ...swap, bottom, top });
  add("swap 5 2, outside language", { ...swap, bottom: 5, top: 2, outside: "language" });
  add("reverse 5 2", { ...swap, task: language, language: math, bottom: 5, top: 2 });
  add("into base 5 2", { ...swap, task: base, bottom: 5, top: 2 });
  for (const seed of [0, 1]) add(`random ${seed}`, { method: "shuffle", models, layers: 7, seed });
  for (const lambda of [0.5, 1]) add(`task arithmetic ${lambda}`, { method: "task_arithmetic", ...deltas, lambda });
  for (const density of [0.2, 0.5]) add(`ties ${density}`, { method: "ties", ...deltas, density });
  for (const share of [0.25, 0.5]) {
    const weighted = [
      { model: math, weight: 1 - share },
      { model: language, weight: share },
    ];
    add(`soup ${share}`, { method: "soup", models: weighted });
  }
  for (const method of ["sce", "model_stock"]) add(method, { method, ...deltas });
  return all;
}

/** @param {number[]} list */
const mean = (list) => list.reduce((sum, one) => sum + one, 0) / list.length;

/**
 * Of each problem: the choice, its log-likelihood for a token, and the entropy of the four, in nats.
 * @param {Engine} engine @param {readonly Problem[]} problems @param {"spanish" | "english"} language
 */
async function answer(engine, problems, language) {
  const rows = problems.flatMap((one) =>
    one.options.map((response) => ({ prompt: `Question: ${one[language]}\nAnswer:`, response })),
  );
  const scores = (await engine.scoreContinuations(await pairsOf(engine, rows), { batch: BATCH })).values();
  return problems.map(({ options }) => {
    const found = options.map(() => scores.next().value ?? { logprob: Number.NaN, tokens: [] });
    const sums = found.map(({ logprob }) => logprob);
    const choice = sums.indexOf(Math.max(...sums));
    const shares = sums.map((sum) => Math.exp(sum - (sums[choice] ?? 0)));
    const whole = shares.reduce((sum, one) => sum + one, 0);
    const entropy = -shares.reduce(
      (sum, share) => sum + (share > 0 ? (share / whole) * Math.log(share / whole) : 0),
      0,
    );
    return { choice, tokens: found[choice]?.tokens ?? [], entropy };
  });
}

/** @param {string} base @param {string} math @param {string} language @param {string} file */
async function score(base, math, language, file) {
  /** @type {Problem[]} */
  const problems = rowsOf("spanish-problems.jsonl");
  const choosing = problems.slice(0, COUNTS.choosing);
  const prompts = choosing.slice(0, COUNTS.prompts);
  const test = problems.slice(COUNTS.choosing, COUNTS.choosing + COUNTS.test);
  /** @type {{ text: string }[]} */
  const texts = rowsOf("spanish.jsonl").slice(-COUNTS.texts);
  const right = (/** @type {{ choice: number }[]} */ answers, /** @type {readonly Problem[]} */ asked) =>
    bits(answers.map(({ choice }, i) => choice === asked[i]?.answer));
  const choices = (/** @type {{ choice: number }[]} */ answers) => answers.map(({ choice }) => choice);
  const expert = await openEngine(math, { threads: 1 });
  const taught = choices(await answer(expert, prompts, "english"));
  await expert.close();
  const pair = { base, math, language, on: prompts.map(({ spanish }) => spanish), chance: 0.25 };
  await scoreMerges(file, pair, mergesOf(base, math, language), async (engine, { group }) => {
    if (group !== "grid") {
      const asked = test.slice(0, COUNTS.others);
      return { test: right(await answer(engine, asked, "spanish"), asked) };
    }
    const answers = await answer(engine, choosing, "spanish");
    const unlabelled = answers.slice(0, COUNTS.prompts);
    const english = await answer(engine, prompts, "english");
    const solutions = prompts.map(({ english: question, options, answer: at }) => ({
      prompt: `Question: ${question}\nAnswer:`,
      response: options[at] ?? "",
    }));
    const read = await Promise.all(texts.map(({ text }) => engine.encode(text)));
    return {
      test: right(await answer(engine, test, "spanish"), test),
      choosing: right(answers, choosing),
      answers: choices(unlabelled),
      english: choices(english),
      solved: right(english, prompts),
      taught,
      confidence: mean(unlabelled.flatMap(({ tokens }) => tokens)),
      entropy: mean(unlabelled.map(({ entropy }) => entropy)),
      texts: await likelihood(
        engine,
        read.map((ids) => ({ context: ids.slice(0, 1), continuation: ids.slice(1, 256) })),
      ),
      solutions: await likelihood(engine, await pairsOf(engine, solutions)),
    };
  });
}

const [, , ...given] = process.argv;
await score(.../** @type {[string, string, string, string]} */ (given.map((one) => resolve(one))));
