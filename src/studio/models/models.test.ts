// What the server says of models and recipes: problems as facts, with their lines.
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { checkRecipeText } from "./check-recipe.js";
import { MODELS } from "./models.js";

const folder = temporaryFolder();

beforeAll(async () => {
  await writeTiny(join(folder, "base"), { seed: 1 });
  await writeTiny(join(folder, "expert"), { seed: 2 });
  await writeTiny(join(folder, "other"), { seed: 3, root: 3 });
  await writeTiny(join(folder, "deep"), { seed: 4, layers: 6 });
});

it.each([
  ["base", []],
  ["expert", []],
  ["other", [/^the weights of expert \(other\) and base \(base\) look unrelated: /]],
  ["deep", [/^expert \(deep\) has 6 layers, base \(base\) has \d$/]],
])("a card says why a model does not fit the base: %s", async (source, problems) => {
  const card = await MODELS.card({ folder, source, base: "base" });
  expect(card.problems).toEqual(problems.map((problem) => expect.stringMatching(problem)));
});

it("a problem of a recipe has its field", async () => {
  const { problems } = await checkRecipeText("method: swap\ntask: base\nlanguage: 7\nbottum: 2\n", folder);
  expect(problems.map(({ field }) => field).sort()).toEqual(["bottum", "language"]);
});

it.each([
  ["method: soup\nmodels: [base, expert]\n  x: 1\n", 3],
  ["method: soup\nmodel: [base, expert]\n", 2],
  ["method: soup\nmodels:\n  - base\n  - expert\nmethod: soup\n", 5],
])("a problem of a recipe has its line: %j", async (text, line) => {
  const { problems } = await checkRecipeText(text, folder);
  expect(problems.map((problem) => problem.line)).toContain(line);
  for (const { message } of problems) expect(message).not.toMatch(/^line \d/);
});
