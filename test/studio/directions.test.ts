// Names and texts from right to left, and very long ones, in all views of the studio and in the page that it shares.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { mixedDirections, placesOfText } from "../support/directions.js";
import { openStudio, takePicture } from "../support/studio-page.js";
import { writeProjectOfWorld } from "../support/studio-project.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const [ARABIC, HEBREW, LONG] = ["شرح", "עברית 2", "m".repeat(60)];

describeInBrowser("text from right to left", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    await writeProjectOfWorld(root);
    const file = at("project", "studio.json");
    const { revision, settings } = JSON.parse(readFileSync(file, "utf8"));
    const [task, language] = settings.experts as [{ source: string }, { source: string }];
    const experts = [
      { name: ARABIC, source: task.source },
      { name: HEBREW, source: language.source },
      { name: LONG, source: at("world", "base") },
    ];
    const prompts = [{ text: "ما هو 9 - 7؟" }, { text: "مجموع 1 + 2" }];
    writeFileSync(file, JSON.stringify({ revision, settings: { ...settings, experts, prompts } }));
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  async function expectInOrder(name: string): Promise<void> {
    expect(await mixedDirections(page)).toEqual([]);
    expect(await seriousViolations(page)).toEqual([]);
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
      await takePicture(page, `directions-${name}-${width}`);
    }
    await page.setViewportSize({ width: 1440, height: 900 });
  }

  it("leaves numbers where they are in models and changes", { timeout: 60_000 }, async () => {
    await page.getByRole("article", { name: ARABIC }).getByText("Llama").waitFor();
    await expectInOrder("models");
    await page.getByRole("link", { name: "Changes", exact: true }).click();
    await page.getByRole("button", { name: "Measure changes" }).click();
    await page.getByRole("application", { name: `Changes of ${ARABIC}` }).waitFor();
    await page.getByRole("application", { name: `Changes of ${ARABIC}` }).focus();
    await page.keyboard.press("End");
    await expectInOrder("changes");
  });

  it("leaves numbers where they are in the recipe", { timeout: 60_000 }, async () => {
    await page.getByRole("link", { name: "Recipe", exact: true }).click();
    await page.getByRole("gridcell", { name: `Layer 2 of ${ARABIC}:` }).hover();
    await page.getByText(/^Layer 2, /).waitFor();
    await expectInOrder("recipe");
    // The share of an expert follows its name.
    const [name = 0, share = 0] = await placesOfText(page, ".board > [role=status]", [ARABIC, "%"]);
    expect(share).toBeGreaterThan(name);
  });

  it("shows prompts and answers in their own direction", { timeout: 120_000 }, async () => {
    await page.getByRole("link", { name: "Try", exact: true }).click();
    expect(await page.getByLabel("Prompt", { exact: true }).inputValue()).toBe("ما هو 9 - 7؟");
    await page.getByRole("button", { name: "Text", exact: true }).click();
    await page.getByRole("button", { name: /^Ask \d models/ }).click();
    await page.getByText("Words that").waitFor({ timeout: 60_000 });
    await expectInOrder("answers");
    await page.getByRole("button", { name: "Evaluate", exact: true }).click();
    await page.getByLabel("limit", { exact: true }).fill("20");
    await page.getByRole("button", { name: /^Evaluate \d models/ }).click();
    const scores = page.getByRole("region", { name: /^Scores on/ });
    await scores.locator("tbody tr").nth(3).waitFor({ timeout: 100_000 });
    await page.getByText("Items by models").click();
    await page
      .getByRole("region", { name: "Items by models" })
      .getByRole("button", { name: /on item/ })
      .first()
      .click();
    await page.getByRole("dialog").waitFor();
    expect(await mixedDirections(page)).toEqual([]);
    await page.keyboard.press("Escape");
    await expectInOrder("evaluate");
  });

  it("leaves numbers where they are in experiments, commands and activity", { timeout: 60_000 }, async () => {
    for (const view of ["Experiments", "Commands", "Activity"]) {
      await page.getByRole("link", { name: view, exact: true }).click();
      await page.getByRole("heading").first().waitFor();
      await expectInOrder(view.toLowerCase());
    }
  });

  it("leaves numbers where they are in the shared page", { timeout: 60_000 }, async () => {
    await page.getByRole("link", { name: "Write", exact: true }).click();
    await expectInOrder("write");
    await page.getByRole("button", { name: "Write the page" }).click();
    await page.getByRole("link", { name: "Open the page" }).waitFor();
    const files = readdirSync(at("project"), { recursive: true, encoding: "utf8" }).filter((name) =>
      name.endsWith(".html"),
    );
    await page.goto(pathToFileURL(at("project", files[0] ?? "")).href);
    await page.getByText(ARABIC).first().waitFor();
    await expectInOrder("shared");
    expect(bugs).toEqual([]);
  });
});
