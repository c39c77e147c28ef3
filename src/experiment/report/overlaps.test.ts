import { expect, it } from "vitest";
import { drawnPage } from "../../../test/support/drawn-page.js";
import { FakeWorld } from "../../../test/support/fake-world.js";
import { markdownOf, reportOf, tablesIn } from "../../../test/support/report-of.js";
import { csvLines } from "../../figures/render.js";
import { parsePlan } from "../plan/plan-file.js";
import { experimentPage } from "./page.js";

const plan = (overlaps: string, more = "") => `
name: small
base: b
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: [s1] }
overlaps: ${overlaps}
${more}
evaluate: { tasks: [quiz] }
`;
const OVERLAP = {
  columns: ["q", "gate"],
  cells: [
    [0.5, null],
    [0.25, 0],
  ],
  total: 0.3,
  shares: [0.2, 0.1],
};

it("compares the changed rows of every pair, by the analysis that suggestions use", () => {
  const world = new FakeWorld(plan("[[math, swahili]]"));
  const analyses = world.finish().steps.filter(({ kind }) => kind === "analyze");
  expect(analyses.map(({ label }) => label)).toEqual(["analyze math-1 and swahili-1", "analyze math-2 and swahili-1"]);
  const suggest = "merges: [{ name: s, suggest: { task: math-1, language: swahili } }]";
  const suggested = new FakeWorld(plan("[]", suggest)).expand().steps.filter(({ kind }) => kind === "analyze");
  expect(suggested.map(({ key }) => key)).toEqual([analyses[0]?.key]);
});

it("reports the overlap as a figure, in Markdown and CSV, with what chance gives", async () => {
  const { report } = reportOf(plan("[[math-1, swahili]]"), () => 5, { overlap: OVERLAP });
  expect(report.overlaps).toMatchObject([
    { title: "Changed rows that math-1 and swahili-1 share", rows: ["1", "0"], columns: ["q", "gate"] },
  ]);
  // 0.2 0.1 / (0.2 + 0.1 - 0.2 0.1)
  expect(report.overlaps[0]?.note).toBe(
    "Over the whole model, with embeddings and norms, 30.0%; 7.1% if the experts had changed as many rows drawn at random.",
  );
  const table = tablesIn(report).find(({ id }) => id.startsWith("overlap-"));
  expect(csvLines(table ?? { columns: [], rows: [] })).toEqual(["layer \\ projection,q,gate", "1,0.25,0", "0,0.5,"]);
  expect(markdownOf(report)).toContain("| 0 | 50.0 | – |");
  const page = await drawnPage(experimentPage(report));
  expect(page).toContain("What pairs of experts both changed");
  // Colours begin at zero, also where all cells are equal.
  expect([...page.matchAll(/class="heat" style="--depth:(\d+)%"/g)].map(([, depth]) => depth)).toEqual([
    "50",
    "0",
    "100",
  ]);
  const { report: two } = reportOf(plan("[[math, swahili]]"), () => 5, { overlap: OVERLAP });
  const [first, second] = two.overlaps;
  const halved = second && { ...second, cells: second.cells.map((row) => row.map((share) => share && share / 2)) };
  const both = await drawnPage(experimentPage({ ...two, overlaps: first && halved ? [first, halved] : [] }));
  expect([...both.matchAll(/class="heat" style="--depth:(\d+)%"/g)].map(([, depth]) => depth).join(" ")).toBe(
    "50 0 100 25 0 50",
  );
  const none = {
    ...OVERLAP,
    cells: [
      [0, null],
      [0, 0],
    ],
    total: 0,
  };
  const { report: apart } = reportOf(plan("[[math-1, swahili]]"), () => 5, { overlap: none });
  const drawn = await drawnPage(experimentPage(apart));
  expect([...drawn.matchAll(/class="heat" style="--depth:(\d+)%"/g)].map(([, depth]) => depth)).toEqual([
    "0",
    "0",
    "0",
  ]);
  const { report: earlier } = reportOf(plan("[[math-1, swahili]]"), () => 5);
  expect(earlier.overlaps).toEqual([]);
});

it.each([
  ["[[math, base]]", "must be experts"],
  ["[[math]]", "must be a list of two experts or families"],
  ["[[math, swahilli]]", "did you mean swahili"],
])("refuses %s", (overlaps, message) => {
  expect(() => parsePlan(plan(overlaps))).toThrow(message);
});
