// The shared page of a recipe that cannot be merged, and its picture in the cards of models.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { merge } from "../../verbs/index.js";
import { fingerprintsOf } from "../models/fingerprints.js";
import { keepPixels, sharedPage, shareRecipe } from "./share.js";

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

it("puts the picture into the card of the model that was written from the recipe as it is", async () => {
  const project = at("written");
  mkdirSync(join(project, "models"), { recursive: true });
  for (const [seed, name] of ["base", "one", "two"].entries()) await writeTiny(at(name), { seed });
  mkdirSync(join(project, "recipes"), { recursive: true });
  const settings = { base: at("base"), experts: [], recipe: "mine", prompts: [] };
  writeFileSync(join(project, "studio.json"), JSON.stringify({ revision: 1, settings }));
  const recipe = join(project, "recipes", "mine.yaml");
  const of = (bottom: number) =>
    `method: swap\ntask: ${at("one")}\nlanguage: ${at("two")}\nbottom: ${bottom}\ntop: 0\n`;
  const write = async (out: string, number: number) => {
    await merge(recipe, { out: join(project, out) });
    const id = `${number}-merge`;
    const fingerprints = await fingerprintsOf(["recipes/mine.yaml"], project);
    const job = { kind: "merge", title: "", state: "done", started: 1, ended: 2, progress: null, error: null };
    mkdirSync(join(project, ".layergraft-studio", "jobs", id), { recursive: true });
    const file = join(project, ".layergraft-studio", "jobs", id, "job.json");
    writeFileSync(file, JSON.stringify({ ...job, id, fingerprints, input: { recipe: "mine", out } }));
  };
  writeFileSync(recipe, of(1));
  await write("models/earlier", 1);
  writeFileSync(recipe, of(2));
  await write("models/mine", 2);
  await shareRecipe(project, "mine", { force: false });
  const png = Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), Buffer.from("pixels")]);
  for (let times = 0; times < 2; times++) await keepPixels(project, "mine", png.toString("base64"));
  expect(readFileSync(join(project, "models", "mine", "merge.png"))).toEqual(png);
  const card = readFileSync(join(project, "models", "mine", "README.md"), "utf8");
  expect(card.match(/^# mine\n\n!\[[^\]]+\]\(merge\.png\)\n\n/gm)).toHaveLength(1);
  expect(card.match(/merge\.png/g)).toHaveLength(1);
  expect(existsSync(join(project, "models", "earlier", "merge.png"))).toBe(false);
  // Its picture does not keep the model from being written again.
  await merge(recipe, { out: join(project, "models", "mine"), force: true });
  expect(existsSync(join(project, "models", "mine", "merge.png"))).toBe(false);
});
