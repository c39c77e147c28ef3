import { expect, it } from "vitest";
import { FakeWorld } from "../../../test/support/fake-world.js";
import { checkedConfigurations } from "./configurations.js";
import { parsePlan } from "./plan-file.js";
import { TUNE_METHODS, tunePlan } from "./tune-plan.js";

const settings = { task: "a", language: "b", on: "quiz.yaml", how: "cma-es", budget: 40, seed: 0, layers: 32 } as const;

it.each(TUNE_METHODS)("makes a valid plan with %s", (method) => {
  const plan = parsePlan(JSON.stringify(tunePlan({ ...settings, method, base: "base" })));
  expect(plan.search).toMatchObject({ how: "cma-es", budget: 40, choose_on: "held-out" });
  expect(plan.merges[0]?.recipe?.method).toBe(method);
});

it.each(TUNE_METHODS)(
  "gives each expert one name with %s, and without a base no second row for the task expert",
  (method) => {
    const { plan, expand } = ((world) => ({ plan: world.plan, expand: world.expand() }))(
      new FakeWorld(
        parsePlan(JSON.stringify(tunePlan({ ...settings, method, ...(method === "ties" ? { base: "base" } : {}) }))),
      ),
    );
    const names = expand.models.flatMap(({ model }) => (model.kind === "merge" ? [] : [model.name]));
    const experts = ["task-expert", "language-expert"];
    expect(names).toEqual(method === "ties" ? ["base", ...experts] : experts);
    expect(JSON.stringify(plan.merges[0]?.recipe)).toMatch(/"task-expert".*"language-expert"/);
  },
);

it("never swaps more layers than there are", () => {
  for (const layers of [1, 2, 4, 8, 28, 32, 80]) {
    const plan = parsePlan(JSON.stringify(tunePlan({ ...settings, method: "swap", layers })));
    const all = checkedConfigurations(plan.merges[0] as never).map(({ fields }) =>
      Object.values(fields).reduce<number>((sum, value) => sum + Number(value), 0),
    );
    expect(Math.max(...all)).toBeLessThanOrEqual(layers);
    expect(Math.max(...all)).toBeGreaterThan(0);
  }
});
