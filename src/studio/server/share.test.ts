// The shared page of a recipe that cannot be merged.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { sharedPage } from "./share.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

it.each([
  ["missing statistics", `method: aim\nexpert: ${at("one")}\nbase: ${at("base")}\nstatistics: ${at("absent")}\n`],
  ["a method of its own", `method: ${at("own.js")}\nmodels: [${at("one")}]\n`],
])("has no path of the machine, with %s", async (_, text) => {
  for (const [seed, name] of ["base", "one"].entries()) await writeTiny(at(name), { seed });
  mkdirSync(at("project", "recipes"), { recursive: true });
  const settings = { base: at("base"), experts: [], recipe: "mine", prompts: [] };
  writeFileSync(at("project", "studio.json"), JSON.stringify({ revision: 1, settings }));
  writeFileSync(at("project", "recipes", "mine.yaml"), text);
  const page = await sharedPage(at("project"), "mine");
  expect(page.verdicts[0]?.text).toContain("cannot be merged");
  expect(JSON.stringify(page)).not.toContain(root);
});
