// What is on the disk changes while a page shows it: recipes, models, and the server itself.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Studio, startStudio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";
import { openPage } from "../support/studio-page.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const FILE = at("project", "recipes", "mine.yaml");
const swap = (bottom: number) =>
  `method: swap\ntask: ${at("math")}\nlanguage: ${at("swahili")}\nbottom: ${bottom}\ntop: 0\n`;

describeInBrowser("what is on the disk", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];
  const serve = (port: number) => startStudio({ folder: at("project"), port, onBug: (error) => bugs.push(error) });

  beforeAll(async () => {
    for (const [i, name] of ["base", "math", "swahili"].entries())
      await writeTiny(at(name), { seed: i + 1, layers: 6 });
    const experts = ["math", "swahili"].map((name) => ({ name, source: at(name) }));
    const settings = { base: at("base"), experts, recipe: "mine", prompts: [] };
    mkdirSync(at("project", "recipes"), { recursive: true });
    writeFileSync(at("project", "studio.json"), JSON.stringify({ revision: 1, settings }));
    writeFileSync(FILE, swap(1));
    studio = await serve(0);
    ({ browser, page } = await openPage(studio.url, bugs));
    await show("Recipe");
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
    expect(bugs).toEqual([]);
  });

  const show = (view: string) => page.getByRole("link", { name: view, exact: true }).click();
  const button = (name: string) => page.getByRole("button", { name, exact: true });
  const cell = (layer: number) => page.getByRole("gridcell", { name: `Layer ${layer} of swahili:` });
  const isTaken = (layer: number) => expect.poll(() => cell(layer).getAttribute("aria-selected"), { timeout: 10_000 });
  const onDisk = () => readFileSync(FILE, "utf8");
  const clash = page$("was changed elsewhere, and here");
  function page$(text: string) {
    return () => page.getByRole("region", { name: "Recipe that is not saved" }).getByText(text);
  }
  /** Writes the file just before the page does. */
  const clashWith = async (theirs: string) => {
    await page.route(
      "**/api/recipe.write",
      async (route) => {
        writeFileSync(FILE, theirs);
        await route.continue();
      },
      { times: 1 },
    );
  };

  it("follows a file that another program writes", async () => {
    await isTaken(0).toBe("true");
    writeFileSync(FILE, swap(3));
    await isTaken(2).toBe("true");
  });

  it("writes, asks and evaluates nothing while a recipe has two versions, and keeps the one that is chosen", async () => {
    await clashWith(swap(2));
    await cell(4).click();
    await clash().waitFor();
    await button("Show the difference").click();
    expect(await page.locator(".versions pre").allInnerTexts()).toEqual([
      expect.stringContaining("0-2,4"),
      expect.stringContaining("bottom: 2"),
    ]);
    expect(await seriousViolations(page)).toEqual([]);
    await show("Write");
    await page.getByText("Save the recipe first.").first().waitFor();
    expect(await button("Write the model").isDisabled()).toBe(true);
    await show("Try");
    await page.getByLabel("Prompt", { exact: true }).fill("1+1");
    await button("Ask 4 models").click();
    await clash().waitFor();
    await show("Activity");
    await page.getByText("Nothing has run yet").waitFor();
    expect(existsSync(at("project", "models", "mine"))).toBe(false);
    expect(onDisk()).toBe(swap(2));

    await button("Keep mine").click();
    await clash().waitFor({ state: "detached" });
    expect(onDisk()).toContain("0-2,4");
  });

  it("takes the other version, and undo brings one's own back", async () => {
    await show("Recipe");
    await clashWith(swap(5));
    await cell(5).click();
    await clash().waitFor();
    await button("Take theirs").click();
    await isTaken(4).toBe("true");
    expect(onDisk()).toBe(swap(5));
    await button("Undo").click();
    await expect.poll(onDisk).toContain("bottom: 3\ntop: 2");
  });

  it("reads everything again when the server is back, and is not editable before", async () => {
    const port = Number(new URL(studio.url).port);
    await show("Models");
    await studio.close();
    await page.getByText("The server does not answer").waitFor();
    writeFileSync(FILE, swap(1));
    await show("Recipe");
    studio = await serve(port);
    await page.getByText("The server does not answer").waitFor({ state: "detached", timeout: 20_000 });
    await isTaken(1).toBe("false");
    await page.getByRole("button", { name: "Method Layer swap" }).waitFor();
    await cell(1).click();
    await expect.poll(onDisk).toBe(swap(2));
  });

  it("says that figures are of other files once a model was written again", { timeout: 60_000 }, async () => {
    const stale = page.getByText("of other models or files");
    await show("Changes");
    await button("Measure changes").click();
    await page.getByRole("application", { name: "Changes of math" }).waitFor({ timeout: 30_000 });
    expect(await stale.count()).toBe(0);
    await writeTiny(at("math"), { seed: 9, layers: 6 });
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await stale.waitFor();
    await button("Measure again").click();
    await stale.waitFor({ state: "detached", timeout: 30_000 });
  });

  it("adds what it wrote as a model, and does not tick one that is gone", { timeout: 60_000 }, async () => {
    await show("Write");
    const way = page.getByRole("article", { name: "Merged model" });
    await way.getByRole("button", { name: "Write the model" }).click();
    await way.getByText(at("project", "models", "mine")).waitFor({ timeout: 30_000 });
    await way.getByRole("button", { name: "Add as a model" }).click();
    await show("Models");
    await page.getByRole("article", { name: "mine", exact: true }).getByText("Layers").waitFor();
    rmSync(at("project", "models", "mine"), { recursive: true });
    await page.evaluate("dispatchEvent(new Event('focus'))");
    await show("Try");
    await expect.poll(() => page.getByRole("checkbox", { name: /^mine/ }).isDisabled()).toBe(true);
    await button("Ask 4 models").waitFor();
  });
});
