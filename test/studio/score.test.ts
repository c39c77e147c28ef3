// Scores while one chooses layers, in a browser: each version is scored as the command line scores it, and can be opened again.
import { copyFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { PlanReport } from "../../src/experiment/report/index.js";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { layergraft } from "../support/command.js";
import { openStudio, takePicture } from "../support/studio-page.js";
import { writeProjectOfWorld } from "../support/studio-project.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const PICTURES = process.env.LAYERGRAFT_TEST_PICTURES;

describeInBrowser("scoring while choosing", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    await writeProjectOfWorld(root);
    for (const name of ["quiz.yaml", "rows.jsonl"]) copyFileSync(at("world", name), at("project", name));
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
    await page.getByRole("link", { name: "Recipe" }).click();
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
    expect(bugs).toEqual([]);
  });

  const picture = (name: string) => takePicture(page, name);
  const live = () => page.getByRole("region", { name: "Live score" });
  const score = () => live().locator(".value").innerText();
  const settled = () => live().locator("[aria-busy=false] .value").waitFor();
  const file = () => readFileSync(at("project", "recipes", "mine.yaml"), "utf8");

  it("scores the recipe as the command line does", { timeout: 120_000 }, async () => {
    await live().getByLabel("Task").selectOption("quiz.yaml");
    await live().getByRole("button", { name: "Score every version" }).click();
    await settled();
    const given = ["eval", "recipes/mine.yaml", "--tasks", "quiz.yaml", "--limit", "50", "--out", "by-command"];
    await layergraft([...given, "--backend", "engine"], { cwd: at("project") });
    const { tasks } = JSON.parse(readFileSync(at("project", "by-command", "results.json"), "utf8")) as {
      tasks: { scores: { value: number }[] }[];
    };
    expect(await score()).toBe(`${(100 * (tasks[0]?.scores[0]?.value ?? 0)).toFixed(1)}%`);
    await picture("live");
  });

  it("scores each change, and says what it gained and lost", { timeout: 120_000 }, async () => {
    const [first, text] = [await score(), file()];
    const start = performance.now();
    await page.getByRole("gridcell", { name: "Layer 4 of swahili-expert:" }).click();
    await expect.poll(score, { timeout: 20_000, interval: 20 }).not.toBe(first);
    if (PICTURES) process.stderr.write(`a new score after ${Math.round(performance.now() - start)} ms\n`);
    await live()
      .getByText(/\d+ gained, \d+ lost against the last version/)
      .waitFor();
    // A change that comes before its score is not scored, and the last one is.
    for (const layer of [5, 6]) await page.getByRole("gridcell", { name: `Layer ${layer} of swahili-expert:` }).click();
    const kept = () =>
      readdirSync(at("project", "evaluations"))
        .map((name) => at("project", "evaluations", name, "model.json"))
        .filter((path) => existsSync(path))
        .map((path) => (JSON.parse(readFileSync(path, "utf8")) as { recipe: string }).recipe);
    await expect.poll(() => file() !== text && kept().includes(file()), { timeout: 20_000 }).toBe(true);
    await page.getByText(/scored versions/).click();
    const versions = page.locator(".versions-list li").filter({ hasText: "Compare" });
    await versions.first().getByText("open").waitFor();
    const ends = [versions.first(), versions.last()];
    for (const one of ends) await one.getByRole("checkbox").check();
    const compared = page.getByRole("region", { name: "Two versions compared" });
    await picture("compared");
    expect(await compared.locator("p").first().innerText()).toBe("They differ in layers 4-6.");
    const folderOf = (recipe: string) =>
      readdirSync(at("project", "evaluations")).find((name) => {
        const path = at("project", "evaluations", name, "model.json");
        return existsSync(path) && JSON.parse(readFileSync(path, "utf8")).recipe === recipe;
      }) ?? "";
    const results = [text, file()].map((recipe) => join("evaluations", folderOf(recipe)));
    const { stdout } = await layergraft(["compare", ...results, "--json"], { cwd: at("project") });
    const [one] = JSON.parse(stdout).tasks[0].comparisons;
    const verdict = compared.getByText(`${one.gained.length} gained and ${one.lost.length} lost`);
    expect(await verdict.innerText()).toContain(`${(100 * Math.abs(one.difference)).toFixed(1)} points`);
    await picture("history");
    expect(await seriousViolations(page)).toEqual([]);
    await versions.last().getByRole("button", { name: "Restore" }).click();
    await expect.poll(file).toBe(text);
    await expect.poll(score, { timeout: 10_000 }).toBe(first);
    // Another name keeps the versions.
    const ofVersions = await versions.allInnerTexts();
    for (const name of ["renamed", "mine"]) {
      await page.getByRole("button", { name: "Rename" }).click();
      await page.getByLabel("Name", { exact: true }).fill(name);
      await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
      await expect.poll(() => page.getByLabel("Open a recipe").inputValue()).toBe(name);
      await page.getByText(/scored versions/).click();
      const words = (texts: readonly string[]) => texts.map((one) => one.split("\n")[0]).sort();
      await expect.poll(async () => words(await versions.allInnerTexts())).toEqual(words(ofVersions));
    }
  });

  it("maps the scores over two fields by an experiment, and opens a cell's recipe", { timeout: 240_000 }, async () => {
    // Layers that are listed give way to the numbers of the map.
    await page.getByRole("gridcell", { name: "Layer 4 of swahili-expert:" }).click();
    await expect.poll(file).toContain("layers:");
    await page.getByRole("link", { name: "Write" }).click();
    const way = page.getByRole("article", { name: "Experiment" });
    await way.getByLabel("Task").selectOption("quiz.yaml");
    await way.getByText("Map the scores over two fields").click();
    await way.getByLabel("Values").first().fill("1, 2");
    await way.getByLabel("Values").last().fill("0, 4");
    await way.getByRole("button", { name: "Make the plan" }).click();
    await way.getByRole("button", { name: "Run and watch it" }).click();
    const map = page.getByRole("region", { name: "Map of mine" });
    await map.getByRole("button").nth(3).waitFor({ timeout: 200_000 });
    await page.getByText("Done.", { exact: true }).waitFor({ timeout: 60_000 });
    const { heatmaps } = JSON.parse(
      readFileSync(at("project", "mine.experiment", "report", "report.json"), "utf8"),
    ) as PlanReport;
    const cells = heatmaps[0]?.cells.flat().map((cell) => (100 * (cell ?? 0)).toFixed(1));
    expect(await map.getByRole("button").allInnerTexts()).toEqual(cells?.map((cell) => `${cell}%`));
    const best = Math.max(...(cells ?? []).map(Number)).toFixed(1);
    expect(await map.locator(".best").allInnerTexts()).toContain(`${best}%`);
    await map.getByRole("button").nth(3).hover();
    await picture("map");
    expect(await seriousViolations(page)).toEqual([]);
    await map.getByRole("button", { name: /^bottom 2, top 4: / }).click();
    await page.getByRole("gridcell", { name: "Layer 4 of swahili-expert: taken" }).waitFor();
    expect(readFileSync(at("project", "recipes", "mine bottom 2 top 4.yaml"), "utf8")).toMatch(/bottom: 2\ntop: 4\n/);
  });

  it("has no serious violations, light and dark", { timeout: 60_000 }, async () => {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const width of [1440, 900, 390]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await seriousViolations(page)).toEqual([]);
        expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
        await picture(`live-${colorScheme}-${width}`);
      }
    }
  });
});
