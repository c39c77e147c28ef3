// Plans of recipes are valid plans, whatever the names are.
import { expect, it } from "vitest";
import { stringify } from "yaml";
import { parsePlan } from "../../experiment/index.js";
import { experimentOf } from "./experiment-plan.js";

const settings = (...names: string[]) => ({
  ...{ base: "/models/base", recipe: null, prompts: [] },
  experts: names.map((name, i) => ({ name, source: `/models/${i}` })),
});

it.each([
  ["mine", ["math", "swahili"]],
  ["soup", ["Swahili 2", "数学"]],
  ["a.b c", ["math-expert", "task-expert"]],
])("%s of %j", (name, experts) => {
  const recipe = { method: "swap", task: "/models/0", language: "/models/1" };
  const plan = experimentOf({ name, recipe, settings: settings(...experts), task: "mgsm_sw" });
  const { merges, experts: families } = parsePlan(stringify(plan));
  expect(merges).toHaveLength(2);
  expect(Object.values(families).map(({ folders }) => folders)).toEqual([["/models/0"], ["/models/1"]]);
});

it("maps numbers of layers in place of a list of them", () => {
  const layers = { language: "0,4" };
  const recipe = { method: "swap", task: "/models/0", language: "/models/1", layers };
  const mapped = (grid?: Record<string, number[]>) => {
    const plan = experimentOf({ name: "x", recipe, settings: settings("a", "b"), task: "quiz", grid });
    return parsePlan(stringify(plan)).merges[0]?.recipe as { layers?: unknown };
  };
  expect(mapped({ top: [0, 1] }).layers).toBeUndefined();
  expect(mapped().layers).toEqual(layers);
});

it("refuses a recipe with a model that the project has not", () => {
  const recipe = { method: "soup", models: ["/models/0", "/elsewhere"] };
  expect(() => experimentOf({ name: "x", recipe, settings: settings("a", "b"), task: "quiz" })).toThrow(
    "/elsewhere is in the recipe, but not among the models. Add it there.",
  );
});
