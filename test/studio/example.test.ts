// The example in the studio, from an empty project: what a person who only wants to see it work does.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { evaluate, suggest } from "../../src/index.js";
import type { Studio } from "../../src/studio/index.js";
import { sharedPage } from "../../src/studio/server/share.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { layergraft } from "../support/command.js";
import { openStudio, takePicture, unfoldForm } from "../support/studio-page.js";

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
    await expect
      .poll(() => page.getByRole("listitem").allInnerTexts())
      .toEqual([
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
    await page.getByRole("heading", { name: "math-expert", exact: true }).waitFor();
    await page.getByRole("link", { name: "Recipe" }).click();
    await page.getByRole("button", { name: "What a changed row is" }).click();
    await page.getByText("their mean absolute change is its change").waitFor();
    await page.keyboard.press("Escape");
  });

  it("scores suggestions on the items of the live score, the best first", { timeout: 600_000 }, async () => {
    await page.getByText("to have these scored on the same items").waitFor({ state: "detached" });
    await page.getByLabel("Task", { exact: true }).selectOption("example/problems.yaml");
    await page.getByLabel("Items", { exact: true }).fill("20");
    await page.getByRole("button", { name: "Score every version" }).click();
    // Suggestions are scored where the live score is set.
    await page.getByRole("button", { name: "Stop or change" }).waitFor();
    await page.getByRole("button", { name: "Suggest recipes" }).click();
    const list = page.getByRole("region", { name: "The best first" });
    await list.waitFor({ timeout: 400_000 });
    const shown = await list.getByRole("listitem").allInnerTexts();
    const values = shown.map((text) => Number(/([\d.]+)%/.exec(text)?.[1]));
    expect(values).toEqual(values.toSorted((a, b) => b - a));
    expect(values.length).toBeGreaterThan(5);
    await page.getByText(`The best of ${values.length} is chosen by them`).waitFor();
    const at = (name: string) => join(root, "example", name);
    const sources = { base: at("base"), task: at("math-expert"), language: at("swahili-expert") };
    const { recipe } = (await suggest(sources)).suggestions.find(({ name }) => name === "profile") ?? {};
    const { scores } = await evaluate(recipe ?? "", { tasks: [at("problems.yaml")], limit: 20 });
    const row = shown.find((text) => text.includes("Layers in which swahili-expert changed more"));
    expect(Number(/([\d.]+)%/.exec(row ?? "")?.[1])).toBeCloseTo(100 * (scores[0]?.value ?? -1), 1);
    for (const width of [1440, 900, 390]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await seriousViolations(page)).toEqual([]);
      await takePicture(page, `suggestions-${width}`);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
  });

  it("compares the recipe with the best expert, in percent", { timeout: 120_000 }, async () => {
    await page.getByRole("link", { name: "Try", exact: true }).click();
    await page.getByRole("button", { name: "Evaluate", exact: true }).click();
    await unfoldForm(page);
    await page.getByLabel("Task", { exact: true }).selectOption("example/problems.yaml");
    await page.getByLabel("limit", { exact: true }).fill("20");
    await page.getByRole("button", { name: "Evaluate 4 models" }).click();
    const scores = page.getByRole("region", { name: /^Scores on/ });
    await scores.locator("tbody tr").nth(3).waitFor({ timeout: 100_000 });
    const rows = await scores.locator("tbody tr").all();
    const read = await Promise.all(rows.map((row) => row.locator("th, td").allInnerTexts()));
    const values = read.map(([name = "", score = "", interval = ""]) => {
      expect(score).toMatch(/^\d+\.\d%$/);
      expect(interval).toMatch(/^\d+\.\d to \d+\.\d%$/);
      return { name, value: Number(score.slice(0, -1)) };
    });
    expect(await scores.locator(".ticks span").first().innerText()).toMatch(/%$/);
    const experts = values.filter(({ name }) => /expert/.test(name)).toSorted((a, b) => b.value - a.value);
    const chosen = (label: string) => page.getByLabel(label, { exact: true }).locator("option:checked").innerText();
    expect(await chosen("Compare")).toBe(`${experts[0]?.name}, ${experts[0]?.value.toFixed(1)}%`);
    expect(await chosen("with")).toMatch(/^recipe, /);
    await page.getByRole("button", { name: "Compare item by item" }).click();
    await page
      .getByText(/; p [<=] /)
      .first()
      .waitFor();
    for (const width of [1440, 900, 390]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await seriousViolations(page)).toEqual([]);
      await takePicture(page, `best-${width}`);
    }
  });

  it("lets people choose between answers without names, and tallies", { timeout: 120_000 }, async () => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.getByText("Have people choose").click();
    await page.getByRole("button", { name: "Make the page for raters" }).click();
    const opened = page.waitForEvent("popup");
    await page.getByRole("link", { name: /^Open it: \d+ pairs/ }).click();
    const sheet = await opened;
    await sheet.getByText(/^Pair 1 of/).waitFor();
    expect(await sheet.locator("script").textContent()).not.toMatch(/expert|recipe/);
    for (const width of [1440, 900, 390]) {
      await sheet.setViewportSize({ width, height: 900 });
      expect(await seriousViolations(sheet)).toEqual([]);
      await takePicture(sheet, `rating-${width}`);
    }
    for (const [i, key] of ["1", "2", "3"].entries()) {
      await sheet.keyboard.press(key);
      await sheet.getByText(`${i + 1} of`).waitFor();
    }
    const [download] = await Promise.all([
      sheet.waitForEvent("download"),
      sheet.getByRole("button", { name: "Save the choices" }).click(),
    ]);
    const saved = join(root, "ratings.json");
    await download.saveAs(saved);
    await sheet.close();
    await page.getByLabel("Choices that a rater saved").setInputFiles(saved);
    const sentence = await page.getByText(/is preferred in/).innerText();
    expect(sentence).toMatch(/and neither in 1: .*% of those with a preference \(95% interval/);
    await takePicture(page, "tally-1440");
    // The command line writes the same page, and says the same.
    const folders = /evaluations\/\S+ evaluations\/\S+/.exec(
      await page.locator(".results .command").last().innerText(),
    );
    const words = (folders?.[0] ?? "").split(" ");
    await layergraft(["compare", ...words, "--rate", "rate.html"], { cwd: root });
    const [made = ""] = readdirSync(join(root, "ratings"));
    expect(readFileSync(join(root, "rate.html"), "utf8")).toBe(readFileSync(join(root, "ratings", made), "utf8"));
    const { stdout } = await layergraft(["compare", ...words, "--ratings", "ratings.json"], { cwd: root });
    const said = sentence.replace(/\S*expert|recipe/g, "").replace(/^P/, "p");
    expect(stdout.replace(/the (first|second)/g, "")).toBe(`${said}\n`);
  });

  it("keeps the scores of unchanged models on the page to share", async () => {
    const file = join(root, "recipes", "recipe.yaml");
    writeFileSync(file, `${readFileSync(file, "utf8")}bottom: 3\ntop: 0\n`);
    const { verdicts, sections } = await sharedPage(root, "recipe");
    expect(verdicts.at(-1)?.text).toContain("recipe was changed since it was scored on these items");
    const figures = sections.find(({ id }) => id === "scores")?.figures ?? [];
    const labels = figures.flatMap((one) => (one.kind === "bars" ? one.rows.map(({ label }) => label) : []));
    expect(labels).toEqual(["base", "math-expert", "swahili-expert"]);
  });

  it("has shown no error", () => {
    expect(bugs).toEqual([]);
  });
});
