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
  expect(page.lead).toContain("cannot be merged");
  expect(JSON.stringify(page)).not.toContain(root);
});

it.each([
  ["a list", []],
  ["experts that are a number", { experts: 3, columns: [], marks: [], cells: [] }],
  ["cells of texts", { experts: ["one"], columns: ["q"], marks: [{ steps: [0] }], cells: [[["q"]]] }],
])("leaves out a stranger's analysis that has %s", async (_, result) => {
  const [project, base] = [at("stranger"), at("base")];
  for (const [seed, name] of ["base", "one"].entries()) await writeTiny(at(name), { seed });
  const job = { id: "1-analyze", kind: "analyze", title: "Changes", state: "done", started: 1, ended: 2 };
  const experts = [{ name: "one", source: at("one") }];
  mkdirSync(join(project, ".layergraft-studio", "jobs", job.id), { recursive: true });
  mkdirSync(join(project, "recipes"), { recursive: true });
  const settings = { base, experts, recipe: "mine", prompts: [] };
  writeFileSync(join(project, "studio.json"), JSON.stringify({ revision: 1, settings }));
  writeFileSync(join(project, "recipes", "mine.yaml"), `method: soup\nmodels: [${base}, ${at("one")}]\n`);
  const keep = (name: string, json: unknown) =>
    writeFileSync(join(project, ".layergraft-studio", "jobs", job.id, name), JSON.stringify(json));
  keep("job.json", { ...job, input: { base, experts }, progress: null, error: null });
  const changes = async () => (await sharedPage(project, "mine")).sections.find(({ id }) => id === "changes")?.figures;
  const cells = [[[{ rows: 4, above: [1], mean: 0.5 }]]];
  const marks = [{ name: "auto", steps: [0] }];
  keep("result.json", { experts: ["one"], columns: ["q"], steps: [0.25], marks, cells });
  expect(await changes()).toMatchObject([{ title: "one", note: "Threshold 2.50e-1; mean change 5.00e-1." }]);
  keep("result.json", result);
  expect(await changes()).toBeUndefined();
});
