// The questions of examples/miniature/label-free.js asked of SmolLM2 (README.md, "Without labels") and of Gemma:
//
//   node label-free.js BASE MATH EXPERT FILE [LANGUAGE]   in the folder of what data.js wrote; appends one line of JSON
//       for each merge that FILE lacks. LANGUAGE is that of the expert: spanish, the default, or swahili
//
// examples/miniature/judge.js makes the tables of docs/results.md from these lines.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { openEngine } from "#engine";
import { bits, gridOf, likelihood, pairsOf, rowsOf, scoreMerges } from "../../miniature/measure.js";

/** @typedef {import("../../miniature/measure.js").Engine} Engine */
/** @typedef {import("../../miniature/measure.js").Merge} Merge */
/** @typedef {"english" | "spanish" | "swahili"} Language */
/** @typedef {Record<Language, string> & { options: string[], answer: number }} Problem */

/** Problems that choose, of them prompts without labels; test problems of the grid and of other merges; texts. */
const COUNTS = { choosing: 240, prompts: 100, test: 360, others: 100, texts: 16 };
const BATCH = 16;

/**
 * Bottom and top layers that are chosen from, and the paper's default, by the layers of a model.
 *
 * @type {Record<number, { bottoms: number[], tops: number[], standard: [number, number] }>}
 */
const GRIDS = {
  18: { bottoms: [1, 3, 5], tops: [1, 3], standard: [3, 1] },
  30: { bottoms: [2, 5, 8], tops: [2, 5], standard: [5, 2] },
};

/** @param {string} base @param {string} math @param {string} language @returns {Merge[]} */
function mergesOf(base, math, language) {
  const models = [math, language];
  const deltas = { models, base };
  const swap = { method: "swap", task: math, language };
  const { num_hidden_layers: layers } = JSON.parse(readFileSync(join(base, "config.json"), "utf8"));
  const grid = GRIDS[layers];
  if (!grid) throw new Error(`${base} has ${layers} layers; there are grids for ${Object.keys(GRIDS).join(" and ")}`);
  const [bottom, top] = grid.standard;
  const all = gridOf(swap, grid.bottoms, grid.tops, grid.standard);
  /** @param {string} name @param {object} recipe */
  const add = (name, recipe) => all.push({ group: name.split(" ")[0] ?? "", name, recipe });
  const most = Math.floor(0.4 * layers);
  for (const [low, high] of [
    [0, top],
    [bottom, 0],
    [most, most],
  ])
    add(`swap ${low} ${high}`, { ...swap, bottom: low, top: high });
  const [at, placed] = [`${bottom} ${top}`, { bottom, top }];
  add(`swap ${at}, outside language`, { ...swap, ...placed, outside: "language" });
  add(`reverse ${at}`, { ...swap, ...placed, task: language, language: math });
  add(`into base ${at}`, { ...swap, ...placed, task: base });
  for (const seed of [0, 1]) add(`random ${seed}`, { method: "shuffle", models, layers: bottom + top, seed });
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
 * @param {Engine} engine @param {readonly Problem[]} problems @param {Language} language
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

/** @param {string} base @param {string} math @param {string} expert @param {string} file @param {Language} language */
async function score(base, math, expert, file, language) {
  /** @type {Problem[]} */
  const problems = rowsOf(`${language}-problems.jsonl`);
  const choosing = problems.slice(0, COUNTS.choosing);
  const prompts = choosing.slice(0, COUNTS.prompts);
  const test = problems.slice(COUNTS.choosing, COUNTS.choosing + COUNTS.test);
  /** @type {{ text: string }[]} */
  const texts = rowsOf(`${language}.jsonl`).slice(-COUNTS.texts);
  const right = (/** @type {{ choice: number }[]} */ answers, /** @type {readonly Problem[]} */ asked) =>
    bits(answers.map(({ choice }, i) => choice === asked[i]?.answer));
  const choices = (/** @type {{ choice: number }[]} */ answers) => answers.map(({ choice }) => choice);
  const teacher = await openEngine(math, { threads: 1 });
  const taught = choices(await answer(teacher, prompts, "english"));
  await teacher.close();
  const pair = { base, math, language: expert, on: prompts.map((one) => one[language]), chance: 0.25 };
  await scoreMerges(file, pair, mergesOf(base, math, expert), async (engine, { group }) => {
    if (group !== "grid") {
      const asked = test.slice(0, COUNTS.others);
      return { test: right(await answer(engine, asked, language), asked) };
    }
    const answers = await answer(engine, choosing, language);
    const unlabelled = answers.slice(0, COUNTS.prompts);
    const english = await answer(engine, prompts, "english");
    const solutions = prompts.map(({ english: question, options, answer: at }) => ({
      prompt: `Question: ${question}\nAnswer:`,
      response: options[at] ?? "",
    }));
    const read = await Promise.all(texts.map(({ text }) => engine.encode(text)));
    return {
      test: right(await answer(engine, test, language), test),
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

const [, , base, math, expert, file, language = "spanish"] = process.argv;
const [at, task, other, to] = /** @type {string[]} */ ([base, math, expert, file]).map((one) => resolve(one));
await score(at ?? "", task ?? "", other ?? "", to ?? "", /** @type {Language} */ (language));
