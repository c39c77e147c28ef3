import { expect, it } from "vitest";
import { recipeIdentities } from "./facts.js";

const soup = (fields: object = {}) => ({ method: "soup", models: ["sha256:1", "sha256:2"], ...fields });

it("a recipe's identity has its defaults filled in, whatever the order of its fields", () => {
  const identityOf = recipeIdentities();
  const { models, method } = soup();
  expect(identityOf({ models, method } as never)).toEqual(identityOf(soup()));
  expect(identityOf(soup({ dtype: "float32" }))).not.toEqual(identityOf(soup()));
  expect(Object.keys(identityOf(soup()) as object).length).toBeGreaterThan(2);
  expect(identityOf("sha256:1")).toBe("sha256:1");
  // The plan's check reports it.
  expect(identityOf({ method: "none" })).toEqual({ method: "none" });
});

it("identities are remembered by whoever asks, and by nobody else", () => {
  const [one, other] = [recipeIdentities(), recipeIdentities()];
  const first = one(soup());
  expect(one(soup())).toBe(first);
  expect(other(soup())).not.toBe(first);
});
