// What the documentation says of plans is what their schema says. To renew the page: UPDATE_DOCS=1 vitest run this file.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { planFields, planFieldsMarkdown, planJsonSchema } from "./plan-fields.js";

const page = join(import.meta.dirname, "../../../docs/experiments.md");
const BEGIN = "<!-- generated from the schema from here -->";
const END = "<!-- to here -->";

it("has every field, each with its meaning", () => {
  const fields = planFields();
  expect(fields.map(({ field }) => field)).toEqual(
    expect.arrayContaining([
      "name",
      "experts.NAME.train.runs[].name",
      "merges[].grid",
      "evaluate.tasks[].shots",
      "executor.train.gpus",
    ]),
  );
  expect(fields.filter(({ description }) => description === "")).toEqual([]);
  expect(fields.find(({ field }) => field === "search.share")).toMatchObject({ required: false, default: 0.4 });
  expect(planJsonSchema()).toMatchObject({ title: "layergraft experiment", type: "object" });
});

it("stands in the documentation", () => {
  const text = readFileSync(page, "utf8");
  const [head = "", rest = ""] = text.split(BEGIN);
  const renewed = `${head}${BEGIN}\n\n${planFieldsMarkdown()}\n\n${END}${rest.split(END)[1] ?? ""}`;
  if (process.env.UPDATE_DOCS === "1") writeFileSync(page, renewed);
  else expect(text).toBe(renewed);
});
