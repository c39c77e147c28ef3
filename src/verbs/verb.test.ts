import { describe, expect, it } from "vitest";
import { extract } from "./extract.js";

describe("an input that is not valid", () => {
  const models = { base: "a", model: "b", out: "c" };

  it("is refused with every problem before anything is read", async () => {
    await expect(extract({ ...models, rank: 0, energy: 1.5 })).rejects.toMatchObject({
      message: expect.stringContaining("This is not a valid input of extract"),
      problems: ["rank: must be at least 1", "energy: must be a number above 0 and at most 1"],
    });
  });

  it("with an option in it says where options go", async () => {
    const wrong = { ...models, force: true } as typeof models;
    await expect(extract(wrong)).rejects.toMatchObject({
      problems: ["force is an option. Pass it in the second argument."],
    });
  });
});
