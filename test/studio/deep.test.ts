// Five experts of 80 layers: maps side by side, and a board that fits the window.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";
import { openStudio, takePicture } from "../support/studio-page.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const EXPERTS = ["math", "swahili", "code", "law", "poems"];

describeInBrowser("models of 80 layers", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    for (const [i, name] of ["base", ...EXPERTS].entries()) await writeTiny(at(name), { seed: i + 1, layers: 80 });
    mkdirSync(at("project", "recipes"), { recursive: true });
    const experts = EXPERTS.map((name) => ({ name, source: at(name) }));
    const settings = { base: at("base"), experts, recipe: "mine", prompts: [] };
    writeFileSync(at("project", "studio.json"), JSON.stringify({ revision: 1, settings }));
    writeFileSync(at("project", "recipes", "mine.yaml"), "method: swap\ntask: ../../math\nlanguage: ../../swahili\n");
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  it("have a board that shows all layers, whose numbers do not touch", { timeout: 60_000 }, async () => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.getByRole("link", { name: "Recipe", exact: true }).click();
    await page.getByRole("gridcell", { name: "Layer 79 of math:" }).waitFor();
    const board = page.getByRole("grid", { name: "Whose each layer is" });
    await board.waitFor();
    expect(
      await page.evaluate(
        `(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight)(document.querySelector(".towers"))`,
      ),
    ).toBe(0);
    const [high, low] = await Promise.all(
      [79, 0].map((layer) => page.getByRole("gridcell", { name: `Layer ${layer} of math:` }).boundingBox()),
    );
    expect((low?.y ?? 900) - (high?.y ?? 0)).toBeLessThan(0.7 * 900);
    // Drags along a tower take its layers.
    await page.getByRole("gridcell", { name: "Layer 60 of code:" }).click();
    await page.getByRole("gridcell", { name: "Layer 60 of code: taken" }).waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    await takePicture(page, "deep-board");
  });

  it("have maps side by side under one axis, with one cursor", { timeout: 120_000 }, async () => {
    await page.getByRole("link", { name: "Changes", exact: true }).click();
    await page.getByRole("button", { name: "Measure changes" }).click();
    const map = (name: string) => page.getByRole("application", { name: `Changes of ${name}` });
    await map("poems").waitFor({ timeout: 60_000 });
    const boxes = await Promise.all(EXPERTS.map((name) => map(name).boundingBox()));
    expect(new Set(boxes.map((box) => Math.round(box?.y ?? 0))).size).toBe(1);
    expect(new Set(boxes.map((box) => Math.round(box?.height ?? 0))).size).toBe(1);
    expect(await page.evaluate("document.documentElement.scrollHeight")).toBeLessThan(2500);
    await map("law").focus();
    await page.keyboard.press("Home");
    await page.getByRole("heading", { name: /^Layer 0, / }).waitFor();
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
      expect(await seriousViolations(page)).toEqual([]);
      await takePicture(page, `deep-changes-${width}`);
    }
    expect(bugs).toEqual([]);
  });
});
