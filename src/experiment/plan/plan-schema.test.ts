import { expect, it } from "vitest";
import { planFields, planJsonSchema } from "./plan-schema.js";

it("describes every field", () => {
  const fields = planFields();
  expect(fields.map(({ name }) => name)).toEqual(
    expect.arrayContaining([
      "name",
      "experts.NAME.train.runs[].name",
      "merges[].grid",
      "evaluate.tasks[].shots",
      "executor.train.gpus",
    ]),
  );
  expect(fields.filter(({ description }) => description === "")).toEqual([]);
  expect(fields.find(({ name }) => name === "search.share")).toMatchObject({ required: false, default: 0.4 });
  expect(planJsonSchema()).toMatchObject({ title: "layergraft experiment", type: "object" });
});
