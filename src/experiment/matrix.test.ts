// A plan with a matrix, run with tiny models.
// @module-tag slow
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { runHere, writeSmallWorld } from "../../test/support/small-world.js";
import { planRecipe } from "../merge/index.js";
import { statusOf } from "./experiment.js";
import { gatherReport, ofPlan } from "./report/gather.js";
import { findRecipe } from "./report/recipes.js";
import type { MatrixReport } from "./report/report-data.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-matrix-run-"));
afterAll(() => rmSync(root, { recursive: true }));
const file = (name: string) => join(root, name);
beforeAll(() => writeSmallWorld(root));

it("runs a matrix as one experiment, with the results of separate plans", async () => {
  const plan = (name: string, samples: number) => `
name: ${name}
base: base
allow_unrelated: true
training:
  common:
    run:
      data: { source: problems.jsonl, map: { prompt: prompt, response: response } }
      sequence_length: 96
      batch: 4
      samples: ${samples}
      optimizer: { lr: 1.0e-3 }
experts:
  math: { role: task, train: { like: common } }
  swahili: { role: language, language: sw, folders: [language] }
merges:
  - name: swap
    recipe: { method: swap, task: math, language: swahili, bottom: 1, top: 0, bottom_transition: 0, top_transition: 0 }
evaluate: { tasks: ["problems_{language}.yaml"] }
`;
  writeFileSync(file("long.yaml"), plan("long", 8));
  writeFileSync(file("short.yaml"), plan("short", 4));
  writeFileSync(
    file("both.yaml"),
    `${plan("both", 8)}matrix: { length: { long run: {}, short: { training: { common: { run: { samples: 4 } } } } } }\n`,
  );
  // Stopped after two steps, then resumed.
  const stop = new AbortController();
  let ended = 0;
  const stopped = runHere(file("both.yaml"), {
    signal: stop.signal,
    onEvent: ({ event }) => {
      if (event === "done" && ++ended === 2) stop.abort();
    },
  });
  await expect(stopped).rejects.toThrow(/^stopped; 2 steps are done and about \d+ left/);
  const { experiment, summary, ran } = await runHere(file("both.yaml"));
  expect(summary.failures).toEqual([]);
  expect(ran).toHaveLength(summary.counts.done - 2);
  expect((await runHere(file("both.yaml"))).ran).toEqual([]);

  const status = await statusOf(experiment);
  const report = gatherReport(experiment, status) as MatrixReport;
  const separate = [];
  for (const name of ["long.yaml", "short.yaml"]) {
    const one = await runHere(file(name));
    separate.push({ ...one, report: ofPlan(gatherReport(one.experiment, await statusOf(one.experiment)), "it") });
  }
  // Base and Swahili expert are evaluated once.
  const each = separate.map((one) => one.ran.length).reduce((sum, count) => sum + count, 0);
  expect(summary.counts.done).toBe(each - 2);
  for (const [i, { id, title, report: own }] of report.variants.entries()) {
    expect(title).toBe(["long run", "short"][i]);
    const other = separate[i]?.report;
    for (const part of ["scores", "overviews", "searches", "flips", "lines"] as const) {
      expect(own[part]).toEqual(other?.[part]);
    }
    expect(own.recipes.map((one) => one.id)).toEqual(other?.recipes.map((one) => one.id));
    for (const { id: row, text, command } of own.recipes) {
      const folder = file(`both.experiment/report/variants/${id}/recipes`);
      const [written, found] = await Promise.all([
        planRecipe(parse(text), { folder }),
        planRecipe(findRecipe(`${id}/${row}`, report, status).recipe),
      ]);
      expect([...found.sources.values()].map((one) => one.folder)).toEqual(
        [...written.sources.values()].map((one) => one.folder),
      );
      expect(command).toBe(`layergraft experiment both.yaml export ${id}/${row} --out ${row}`);
    }
  }
  expect(() => findRecipe("swap", report, status)).toThrow(
    "Write the variant before the row, as in long-run/ROW. There is no variant swap; there are long-run, short",
  );
  const [table] = report.compared;
  expect(table?.rows.map(([first]) => first)).toEqual(["long run", "short", "mean of 2 variants"]);
  expect(report.scores.map(({ values }) => values?.length)).toEqual(
    report.variants.flatMap(({ report: own, title }) => own.scores.map(() => title)),
  );
}, 120_000);
