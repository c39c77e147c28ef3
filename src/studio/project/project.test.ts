// A project's folder: what it keeps, and whom it refuses.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { ProjectFolder } from "./project.js";

const root = temporaryFolder();
let count = 0;
const opened: ProjectFolder[] = [];
const next = () => join(root, `project-${count++}`);
async function open(folder = next()): Promise<ProjectFolder> {
  const project = await ProjectFolder.open(folder);
  opened.push(project);
  return project;
}
afterEach(async () => {
  await Promise.all(opened.splice(0).map((project) => project.close()));
});

const expert = (name: string) => ({ name, source: `/models/${name}` });

it("keeps models and prompts when it is opened again", async () => {
  const folder = next();
  const first = await ProjectFolder.open(folder);
  await first.change(0, { base: "/models/base", experts: [expert("math")] });
  const changed = await first.change(1, { experts: [expert("swahili")], prompts: [{ text: "<b>2 + 2</b>" }] });
  await first.close();
  expect(await (await open(folder)).read()).toEqual(changed);
});

it("refuses a change of an older state, and keeps the newer one", async () => {
  const project = await open();
  const results = await Promise.allSettled([
    project.change(0, { base: "/models/a" }),
    project.change(0, { base: "/models/b" }),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  expect(results[1]).toMatchObject({ reason: { code: "conflict" } });
  expect((await project.read()).settings.base).toBe("/models/a");
});

it("is open in one process at a time", async () => {
  const project = await open();
  await expect(ProjectFolder.open(project.folder)).rejects.toMatchObject({ code: "locked" });
});

it.each(["", "{", "[]", '{"revision":-1}', '{"revision":0,"settings":{},"recent":[]}'])(
  "refuses studio.json with %j, and leaves it and the lock alone",
  async (text) => {
    const project = await open();
    const file = join(project.folder, "studio.json");
    await project.close();
    writeFileSync(file, text);
    for (let attempt = 0; attempt < 2; attempt++) {
      await expect(ProjectFolder.open(project.folder)).rejects.toThrow("is not a project of the studio");
    }
    expect(readFileSync(file, "utf8")).toBe(text);
  },
);

it("writes a recipe only over the version that was edited", async () => {
  const project = await open();
  const { version } = await project.writeRecipe("swap", "method: swap\n", null);
  await expect(project.writeRecipe("swap", "other", null)).rejects.toMatchObject({ code: "conflict" });
  writeFileSync(join(project.folder, "recipes", "swap.yaml"), "edited elsewhere");
  await expect(project.writeRecipe("swap", "mine", version)).rejects.toMatchObject({ code: "conflict" });
  const now = await project.readRecipe("swap");
  expect(now.text).toBe("edited elsewhere");
  await project.writeRecipe("swap", "mine", now.version);
  expect(readFileSync(join(project.folder, "recipes", "swap.yaml"), "utf8")).toBe("mine");
  expect((await project.read()).recipes).toEqual(["swap"]);
  await project.removeRecipe("swap");
  expect(existsSync(join(project.folder, "recipes", "swap.yaml"))).toBe(false);
});

it("renames a recipe only where there is one, and onto no other", async () => {
  const project = await open();
  const moved: string[] = [];
  const rename = (name: string, to: string) => project.renameRecipe(name, to, async () => void moved.push(to));
  await project.writeRecipe("one", "method: swap\n", null);
  await project.writeRecipe("two", "method: soup\n", null);
  await expect(rename("none", "new")).rejects.toMatchObject({ code: "not-found" });
  await expect(rename("one", "two")).rejects.toMatchObject({ code: "conflict" });
  expect(moved).toEqual([]);
  await rename("one", "three");
  expect([moved, (await project.read()).recipes]).toEqual([["three"], ["three", "two"]]);
});

it("has one token, for as long as its file is whole", async () => {
  const project = await open();
  const token = await project.token();
  expect(token).toMatch(/^[\w-]{43}$/);
  expect(await project.token()).toBe(token);
  writeFileSync(join(project.private, "token"), "short");
  expect(await project.token()).not.toBe("short");
});
