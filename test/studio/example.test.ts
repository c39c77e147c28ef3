// The example in the studio, from an empty project: what a person who only wants to see it work does.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { openStudio, takePicture } from "../support/studio-page.js";

const root = temporaryFolder();

describeInBrowser("the example", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    ({ studio, browser, page } = await openStudio(root, bugs));
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  it("shows the four steps, and opens in one click", { timeout: 60_000 }, async () => {
    expect(await page.getByRole("listitem").allInnerTexts()).toEqual([
      "See what changed\nChanges",
      "Choose layers\nRecipe",
      "Ask and score it\nTry",
      "Make a model, an experiment or a page\nWrite",
    ]);
    for (const width of [1440, 900, 390]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
      expect(await seriousViolations(page)).toEqual([]);
      await takePicture(page, `example-${width}`);
    }
    await page.getByRole("button", { name: "Open the example" }).click();
    await page.getByRole("article", { name: "swahili-expert" }).getByText("Llama").waitFor();
    const { settings } = JSON.parse(readFileSync(join(root, "studio.json"), "utf8"));
    expect(settings).toMatchObject({
      base: join(root, "example", "base"),
      experts: ["math-expert", "swahili-expert"].map((name) => ({ name, source: join(root, "example", name) })),
    });
    await page.getByRole("link", { name: "See what changed" }).waitFor();
  });

  it("has all methods to choose from, and says what a changed row is", { timeout: 60_000 }, async () => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.getByRole("link", { name: "Recipe" }).click();
    await page.getByRole("button", { name: "New recipe" }).click();
    await page.getByRole("button", { name: "Make the recipe" }).click();
    await page.getByRole("gridcell", { name: "Layer 0 of math-expert:" }).waitFor();
    await page.getByRole("link", { name: "Measure changes" }).click();
    await page.getByRole("button", { name: "Measure changes" }).click();
    await page.getByRole("heading", { name: "All parts, by layer" }).waitFor();
    await page.getByRole("link", { name: "Recipe" }).click();
    await page.getByRole("button", { name: "What a changed row is" }).click();
    await page.getByText("their mean absolute change is its change").waitFor();
    await page.keyboard.press("Escape");
  });

  it("compares the recipe with the best expert, in percent", { timeout: 120_000 }, async () => {
    await page.getByRole("link", { name: "Try", exact: true }).click();
    await page.getByRole("button", { name: "Evaluate", exact: true }).click();
    await page.getByLabel("Task", { exact: true }).selectOption("example/problems.yaml");
    await page.getByLabel("Items, at most").fill("20");
    await page.getByRole("button", { name: "Evaluate 4 models" }).click();
    const scores = page.getByRole("region", { name: /^Scores on/ });
    await scores.getByRole("row", { name: "recipe" }).waitFor({ timeout: 100_000 });
    const rows = await scores.locator("tbody tr").all();
    const read = await Promise.all(rows.map((row) => row.locator("th, td").allInnerTexts()));
    const values = read.map(([name = "", score = "", interval = ""]) => {
      expect(score).toMatch(/^\d+\.\d%$/);
      expect(interval).toMatch(/^\d+\.\d to \d+\.\d%$/);
      return { name, value: Number(score.slice(0, -1)) };
    });
    expect(await scores.locator(".ticks span").first().innerText()).toMatch(/%$/);
    const experts = values.filter(({ name }) => name !== "recipe").toSorted((a, b) => b.value - a.value);
    const chosen = (label: string) => page.getByLabel(label, { exact: true }).locator("option:checked").innerText();
    expect(await chosen("Compare")).toBe(`${experts[0]?.name}, ${experts[0]?.value.toFixed(1)}%`);
    expect(await chosen("with")).toMatch(/^recipe, /);
    await page.getByRole("button", { name: "Compare item by item" }).click();
    await page.getByText(/points, p/).waitFor();
    for (const width of [1440, 900, 390]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await seriousViolations(page)).toEqual([]);
      await takePicture(page, `best-${width}`);
    }
  });

  it("has shown no error", () => {
    expect(bugs).toEqual([]);
  });
});
