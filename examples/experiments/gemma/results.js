// The tables of docs/results.md, "On Gemma 3 270M", from the steps that are done: node results.js gemma.experiment
//
// Rows are means over the seeds whose scores are all there. Scores are of the problems that no search saw; differences are those of the
// chosen layer swap, on the same problems, with intervals over problems and seeds.

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { crossedDifference, holmAdjust } from "layergraft/evaluate";

/** @typedef {{ entry: string, seed: string, configuration: string, isDefault: boolean, task: string, isSearch: boolean, language: string | undefined, values: Map<string, number> }} Scored */

const [folder = "gemma.experiment"] = process.argv.slice(2);
/** @param {string} path */
const read = (path) => JSON.parse(readFileSync(path, "utf8"));

const steps = readdirSync(join(folder, "steps")).flatMap((key) => {
  const own = join(folder, "steps", key);
  return existsSync(join(own, "result.json"))
    ? [{ ...read(join(own, "step.json")).step, result: read(join(own, "result.json")) }]
    : [];
});
/** Languages of the texts that runs train on. @type {Map<string, string>} */
const trained = new Map(
  steps
    .filter(({ kind }) => kind === "train")
    .flatMap(({ key, run }) => {
      const found = /swahili|spanish/.exec(JSON.stringify(run.data));
      return found ? [[key, found[0]]] : [];
    }),
);
/** @type {Scored[]} */
const scored = steps
  .filter(({ kind }) => kind === "evaluate")
  .map(({ of, label, request, needs, result }) => ({
    entry: of.entry,
    seed: /-(\d+)/.exec(of.name)?.[1] ?? "",
    configuration: of.configuration,
    isDefault: of.isDefault === true,
    task: request.task.replace(".yaml", ""),
    isSearch: label.includes(", search ("),
    language: needs.map((/** @type {string} */ key) => trained.get(key)).find(Boolean),
    values: new Map(result.items.map((/** @type {any} */ { index, value }) => [String(index), Number(value)])),
  }));

/** @param {Iterable<number>} values */
const mean = (values) => {
  const list = [...values];
  return list.reduce((sum, one) => sum + one, 0) / list.length;
};
/** @param {number} share */
const percent = (share) => (100 * share).toFixed(1);
/** @param {number} share */
const signed = (share) => `${share > 0 ? "+" : ""}${percent(share)}`;

/** The items that no search saw: those of the default layer swap that it did not choose on. @param {readonly Scored[]} own */
function heldOut(own) {
  const found = own.find(({ entry, isDefault, isSearch }) => entry === "layer swap" && isDefault && !isSearch);
  return new Set(found?.values.keys());
}

/**
 * The configuration with the highest mean on the items of the search; of several, the default.
 * @param {readonly Scored[]} searched of one merge
 */
function chosenOf(searched) {
  const configurations = [...new Set(searched.map(({ configuration }) => configuration))];
  const ranked = configurations.map((configuration) => {
    const own = searched.filter((one) => one.configuration === configuration);
    return {
      configuration,
      isDefault: own.some(({ isDefault }) => isDefault),
      score: mean(own.map(({ values }) => mean(values.values()))),
      seeds: own.length,
    };
  });
  return ranked.sort((a, b) => b.score - a.score || Number(b.isDefault) - Number(a.isDefault))[0]?.configuration;
}

/** Scores of a row on a task, one for each seed, or one model. @param {readonly Scored[]} own @param {ReadonlySet<string>} items */
const modelsOf = (own, items) =>
  own.map(({ seed, configuration, values }) => ({
    levels: {
      ...(seed === "" ? {} : { seed }),
      ...(configuration.startsWith("layers") ? { draw: configuration } : {}),
    },
    values: items.size === 0 ? values : new Map([...values].filter(([index]) => items.has(index))),
  }));

for (const [language, code] of [
  ["swahili", "sw"],
  ["spanish", "es"],
]) {
  const here = scored.filter((one) => one.language === undefined || one.language === language);
  const problems = here.filter(({ task }) => task === `problems_${code}`);
  const items = heldOut(problems);
  const entries = [...new Set(problems.map(({ entry }) => entry))];
  const rows = entries.flatMap((entry) => {
    const own = problems.filter((one) => one.entry === entry && !one.isSearch);
    const searched = problems.filter((one) => one.entry === entry && one.isSearch);
    if (searched.length === 0) return [{ name: entry, entry, own, configuration: undefined }];
    const chosen = chosenOf(searched);
    const standard = searched.find(({ isDefault }) => isDefault)?.configuration;
    return [...new Set([standard, chosen])].map((configuration) => ({
      name: `${entry}, ${configuration === chosen ? `chosen (${chosen})` : `default (${configuration})`}`,
      entry,
      own: own.filter((one) => one.configuration === configuration),
      configuration,
    }));
  });
  const subject = rows.find(({ entry, name }) => entry === "layer swap" && name.includes("chosen"));
  const seeds = [...new Set(subject?.own.map(({ seed }) => seed))].sort();
  if (!subject || seeds.length === 0) {
    console.log(`${language}: no seed of the layer swap is scored\n`);
    continue;
  }
  const inSeeds = (/** @type {Scored} */ { seed }) => seed === "" || seeds.includes(seed);
  const compared = rows
    .map((row) => ({ ...row, models: modelsOf(row.own.filter(inSeeds), items) }))
    .filter(({ models }) => models.length > 0)
    .map((row) => {
      const also = (/** @type {string} */ task) => {
        const found = here.filter(
          (one) =>
            one.task === task &&
            one.entry === row.entry &&
            inSeeds(one) &&
            (row.configuration === undefined || one.configuration === row.configuration),
        );
        return found.length === 0 ? "" : percent(mean(found.map(({ values }) => mean(values.values()))));
      };
      const score = mean(row.models.map(({ values }) => mean(values.values())));
      const mine = modelsOf(subject.own.filter(inSeeds), items);
      const lead = row.own === subject.own ? undefined : crossedDifference(row.models, mine);
      return { ...row, score, english: also("english"), written: also(`written_${code}`), lead };
    })
    .sort((a, b) => b.score - a.score);
  const leads = compared.flatMap(({ lead }) => lead ?? []);
  const adjusted = holmAdjust(leads.map(({ pValue }) => pValue));
  console.log(`${language}: seeds ${seeds.join(", ")}; ${items.size} problems that no search saw\n`);
  console.log("| model | problems | English | in text | layer swap − model (95%) | p (Holm) |");
  console.log("| --- | --- | --- | --- | --- | --- |");
  for (const { name, score, english, written, lead } of compared) {
    const p = lead ? (adjusted[leads.indexOf(lead)] ?? Number.NaN) : Number.NaN;
    const range = lead?.interval ? ` (${percent(lead.interval.low)} to ${percent(lead.interval.high)})` : "";
    const cells = lead
      ? [`${signed(lead.difference)}${range}`, Number.isNaN(p) ? "" : p < 0.001 ? "< 0.001" : p.toFixed(3)]
      : ["", ""];
    console.log(`| ${[name, percent(score), english, written, ...cells].join(" | ")} |`);
  }
  console.log();
}
