// What experts were trained from, and how.
import { expect, it } from "vitest";
import { markdownOf, reportOf } from "../../../test/support/report-of.js";
import { experimentPage } from "./page.js";

const RUN = "data: { sets: [{ source: x.jsonl }] }, optimizer: { lr: 0.1 }, samples: 8";
const plan = (from: string) => `
name: small
base: b
experts:
  math: { role: task, train: { run: { ${RUN} } } }
  swahili: { role: language, language: sw, train: { run: { ${RUN}, method: lora } } }
  again: { role: task, train: { ${from} run: { ${RUN}, train: "layers 0-1" } } }
merges: [{ name: graft, recipe: { method: swap, task: math, language: swahili, bottom: 1 } }]
evaluate: { tasks: [quiz] }
`;

it("names the start and the kind of training of each expert", () => {
  const { report } = reportOf(plan("from: graft,"), () => 5);
  expect(report.experts.map(({ family, from, how }) => [family, from, how])).toEqual([
    ["math", "base", "all weights"],
    ["swahili", "base", "LoRA"],
    ["again", "graft", "only layers 0-1"],
  ]);
  expect(markdownOf(report)).toContain("| again-1 | again | graft | only layers 0-1 | again-1 after ");
  expect(experimentPage(report).lead).toBe(
    "Experts (math, swahili, again) fine-tuned from b, 1.2 billion parameters, 16 layers, and then from graft, merged and compared on quiz. The layer swap takes layers 0, 15 from swahili, layers 1-14 from math, embeddings and output from the average of both.",
  );
});

it("says that nothing was trained after merging where that is so", () => {
  const { report } = reportOf(plan(""), () => 5);
  expect(report.experts.map(({ from }) => from)).toEqual(["base", "base", "base"]);
  expect(experimentPage(report).lead).toContain("merged without further training and compared on quiz.");
});
