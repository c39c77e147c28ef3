// Published scores beside a plan: read, matched with the rows of the main tables, and those of the example plan.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { numbersOf, reportOf } from "../../../test/support/report-of.js";
import { readPublished } from "../plan/published.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-published-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const PLAN = `
name: small
base: b
experts: { math: { role: task, folders: [m1, m2] } }
evaluate: { tasks: [mgsm_sw] }
`;

function read(text: string) {
  writeFileSync(join(root, "plan.published.csv"), text);
  return readPublished(join(root, "plan.yaml"));
}

it("puts published scores beside those of the main tables", async () => {
  const published = await read("task,row,score,min,max\nmgsm_sw,base,24.8,,\nmgsm_sw,math,29.5,27.2,32.8\n");
  const { report } = reportOf(PLAN, ({ model }) => (model === "id:m2" ? 4 : 3), { place: { published } });
  const table = report.published;
  expect(table?.rows.map((row) => row.slice(0, 2))).toEqual([
    ["mgsm_sw", "base"],
    ["mgsm_sw", "math"],
  ]);
  expect(table?.rows.map((row) => numbersOf(row).map(({ value }) => value))).toEqual([
    [0.3, null, null, 0.248, null, null],
    [0.35, 0.3, 0.4, 0.295, 0.272, 0.328],
  ]);
  expect(table?.note).not.toContain("Not in the main tables");
  expect(table?.rows.map((row) => row.at(-1))).toEqual(["yes", "yes"]);
});

it("says which rows cannot be compared and why, and which have no published score", async () => {
  const csv = 'task,row,score,differs\nmgsm_sw,base,24.8,\nmgsm_sw,math,29.5,"no: other translations"\n';
  const published = await read(csv);
  const comparable = (tasks: string, rows = published) => {
    const { report } = reportOf(PLAN.replace("[mgsm_sw]", tasks), () => 3, { place: { published: rows } });
    return { cells: report.published?.rows.map((row) => row.at(-1)), note: report.published?.note };
  };
  expect(comparable("[mgsm_sw]").cells).toEqual(["yes", "no: other translations"]);
  expect(comparable("[{ task: mgsm_sw, limit: 4 }]").cells).toEqual([
    "no: at most 4 items asked",
    "no: other translations",
  ]);
  expect(comparable("[mgsm_sw]").note).not.toContain("Without a published score");
  const [base] = published;
  expect(comparable("[mgsm_sw, mgsm_en]", base ? [base] : []).note).toContain(
    "Without a published score: math of mgsm_sw, base of mgsm_en, math of mgsm_en.",
  );
});

it("names the rows that the main tables do not have", async () => {
  const published = await read("task,row,score\nmgsm_sw,base,24.8\nmgsm_sw,maths,29.5\nmgsm_te,base,12\n");
  const { report } = reportOf(PLAN, () => 3, { place: { published } });
  const table = report.published;
  expect(table?.rows).toHaveLength(1);
  expect(table?.note).toContain("Not in the main tables: maths of mgsm_sw, base of mgsm_te.");
  expect(reportOf(PLAN, () => 3).report.published).toBeUndefined();
});

it("reads no file where there is none, and refuses one that is not valid", async () => {
  expect(await readPublished(join(root, "other.yaml"))).toEqual([]);
  await expect(read("task,row,score\nmgsm_sw,base,24.8\nmgsm_sw,math,high\nmgsm_sw,math,\n")).rejects.toMatchObject({
    problems: ["line 3: score: must be a number", "line 4: score: must be a number"],
  });
});

it("has a row for every score of the paper in the example plan", { tags: ["slow"] }, async () => {
  const plan = join(import.meta.dirname, "../../../examples/experiments/paper-mgsm-swahili.yaml");
  const published = await readPublished(plan);
  // The fake tasks have their names as titles.
  const real = published.map((score) => ({ ...score, row: score.row.replace("MGSM Swahili", "mgsm_sw") }));
  const { report } = reportOf(readFileSync(plan, "utf8"), () => 3, {
    place: { published: real },
    checkpoints: [{ path: "c5000", samples: 5000 }],
  });
  const table = report.published;
  expect(table?.note).not.toContain("Not in the main tables");
  expect(table?.rows).toHaveLength(published.length);
});
