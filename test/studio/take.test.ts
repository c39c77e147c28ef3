// What people bring into the studio: files dropped onto the window, a pasted configuration, and a task written in the page.
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { layergraft } from "../support/command.js";
import { openStudio } from "../support/studio-page.js";
import { writeProjectOfWorld } from "../support/studio-project.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

describeInBrowser("bringing things into the studio", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    await writeProjectOfWorld(root);
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
    await page.getByRole("article", { name: "Base" }).waitFor();
  });
  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  /** As a person drags them from a window of files. */
  async function drop(...files: string[]): Promise<void> {
    const session = await page.context().newCDPSession(page);
    const data = { items: [], files, dragOperationsMask: 1 };
    const drag = (type: "dragEnter" | "dragOver" | "drop") =>
      session.send("Input.dispatchDragEvent", { type, x: 300, y: 300, data });
    await page.evaluate(
      "window.isDropped = false; addEventListener('drop', () => (window.isDropped = true), { once: true })",
    );
    // A busy browser refuses a drop on an element that has not answered yet.
    await expect
      .poll(
        async () => {
          await drag("dragEnter");
          await drag("dragOver");
          if (!(await page.getByText("Drop a recipe, a mergekit").isVisible())) return false;
          // The element below is another one now, which has to accept them, too.
          await drag("dragOver");
          await drag("drop");
          return page.evaluate("window.isDropped");
        },
        { timeout: 20_000 },
      )
      .toBe(true);
  }
  const read = (...names: string[]) => readFileSync(at("project", ...names), "utf8");
  const soup = () =>
    `merge_method: linear\nmodels:\n${["math-expert", "swahili-expert"]
      .map((name) => `  - model: ${at("world", name)}\n    parameters: { weight: 0.5 }\n`)
      .join("")}dtype: float32\n`;

  it("takes a recipe, and never in place of another", async () => {
    writeFileSync(at("mine.yaml"), `# mine\nmethod: soup\nmodels: [${at("world", "math-expert")}]\n`);
    await drop(at("mine.yaml"));
    await expect.poll(() => page.getByLabel("Open a recipe").inputValue()).toBe("mine-2");
    expect(read("recipes", "mine-2.yaml")).toBe(readFileSync(at("mine.yaml"), "utf8"));
    expect(read("recipes", "mine.yaml")).toContain("method: swap");
  });

  it("takes a mergekit configuration as the recipe that convert prints", async () => {
    writeFileSync(at("kit.yml"), soup());
    await drop(at("kit.yml"));
    await expect.poll(() => page.getByLabel("Open a recipe").inputValue()).toBe("kit");
    const { stdout } = await layergraft(["convert", "kit.yml", "--json"], { cwd: root });
    expect(parse(read("recipes", "kit.yaml"))).toEqual(JSON.parse(stdout).recipe);
  });

  it("converts a configuration that is pasted into the editor, and undoes it", async () => {
    const editor = page.getByRole("textbox", { name: "Recipe as YAML" });
    await editor.click();
    await page.keyboard.press("ControlOrMeta+A");
    await page.keyboard.insertText(soup());
    await page.getByRole("button", { name: "Convert to a recipe" }).click();
    await expect.poll(() => read("recipes", "kit.yaml")).toContain("method: soup");
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("This is a mergekit configuration.").waitFor();
    await page.getByRole("button", { name: "Convert to a recipe" }).click();
    await page.getByText("This is a mergekit configuration.").waitFor({ state: "detached" });
  });

  it("takes a task with its data, and says what is wrong with one", async () => {
    writeFileSync(at("broken.yaml"), "task: broken\nanswer: generate\n");
    await drop(at("broken.yaml"));
    await page.locator(".said .notice").getByText("prompt").waitFor();
    expect(existsSync(at("project", "broken"))).toBe(false);
    await drop(at("world", "quiz.yaml"), at("world", "rows.jsonl"));
    await page.getByRole("button", { name: "Evaluate", exact: true }).click();
    await page.getByLabel("Task", { exact: true }).selectOption("quiz/quiz.yaml");
    expect(read("quiz", "rows.jsonl")).toBe(readFileSync(at("world", "rows.jsonl"), "utf8"));
    await drop(at("world", "quiz.yaml"));
    await page.locator(".said .notice").getByText("exists").waitFor();
  });

  it("takes a folder of results, and refuses another", { timeout: 60_000 }, async () => {
    const options = ["--tasks", "quiz.yaml", "--limit", "20", "--out"];
    const { stderr } = await layergraft(["eval", "base", ...options, at("results", "of-base")], { cwd: at("world") });
    expect(existsSync(at("results", "of-base", "results.json")), stderr).toBe(true);
    await drop(at("results"));
    await page.locator(".results").getByRole("row", { name: "base" }).waitFor();
    const stored = ["evaluations", "of-base", "results.json"];
    expect(read(...stored)).toBe(readFileSync(at("results", "of-base", "results.json"), "utf8"));
    mkdirSync(at("other"));
    copyFileSync(at("mine.yaml"), at("other", "results.json"));
    await drop(at("other"));
    await page.locator(".said .notice").getByText("other is not an evaluation.").waitFor();
    expect(existsSync(at("project", "evaluations", "other"))).toBe(false);
    // What is no longer there does not take the page away.
    await drop(at("gone"));
    await page.locator(".said .notice").getByText("Drop a recipe").waitFor();
  });

  it("writes a small task, of answers or of choices", async () => {
    const write = async (name: string, isOfChoices: boolean) => {
      await page.getByRole("button", { name: "Write a small task" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByLabel("Name").fill(name);
      if (isOfChoices) await dialog.getByRole("button", { name: "Choices" }).click();
      for (const row of [1, 2]) {
        await dialog.getByLabel(`Question ${row}`).fill(`1 + ${row}?`);
        await dialog.getByLabel(`Right answer ${row}`).fill(`${1 + row}`);
        if (isOfChoices) await dialog.getByLabel(`Wrong choices, one a line ${row}`).fill("7\n8");
      }
      expect(await seriousViolations(page)).toEqual([]);
      await dialog.getByRole("button", { name: "Add the task" }).click();
      await dialog.waitFor({ state: "detached" });
      await expect.poll(() => page.getByLabel("Task", { exact: true }).inputValue()).toBe(`${name}/${name}.yaml`);
    };
    const rows = (name: string) =>
      read(name, `${name}.jsonl`)
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    await write("sums", false);
    expect(rows("sums")).toEqual([1, 2].map((row) => ({ question: `1 + ${row}?`, answer: `${1 + row}` })));
    await write("quiz-2", true);
    expect(rows("quiz-2")).toEqual([
      { question: "1 + 1?", choices: ["2", "7", "8"], correct: 0 },
      { question: "1 + 2?", choices: ["7", "3", "8"], correct: 1 },
    ]);
    for (const name of ["sums", "quiz-2"]) {
      const out = at("by-command", name);
      await layergraft(["eval", at("world", "base"), "--tasks", `${name}/${name}.yaml`, "--out", out], {
        cwd: at("project"),
      });
      expect(JSON.parse(readFileSync(join(out, "results.json"), "utf8")).tasks[0].items).toBe(2);
    }
    expect(bugs).toEqual([]);
  });
});
