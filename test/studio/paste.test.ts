// Models from pasted paths, a recipe with a field that its method lacks, and an experiment that runs: driven in a browser.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { writeExample } from "../../src/demo/index.js";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { openStudio, takePicture } from "../support/studio-page.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

describeInBrowser("pasted paths", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    await writeExample(at("project", "example"));
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
    page.setDefaultTimeout(10_000);
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  const settings = () => JSON.parse(readFileSync(at("project", "studio.json"), "utf8")).settings;
  const recipe = () => readFileSync(at("project", "recipes", "recipe.yaml"), "utf8");

  it("takes a model's folder with Enter, and two pasted paths as two models", { timeout: 60_000 }, async () => {
    const asked: (string | null)[] = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/api/inspect")) asked.push(request.postData());
    });
    const dialog = page.getByRole("dialog");
    const field = dialog.getByLabel("Folder, FOLDER+ADAPTER");
    await page.getByRole("button", { name: "Choose the base" }).click();
    await field.fill(at("project", "example", "base"));
    await field.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("article", { name: "Base" }).getByText("Llama").waitFor();
    await page.getByRole("button", { name: "Add the first expert" }).click();
    const paths = ["math-expert", "swahili-expert"].map((name) => at("project", "example", name));
    // Browsers let no test write their clipboard.
    await field.focus();
    await page.evaluate(`{
      const clipboardData = new DataTransfer();
      clipboardData.setData("text/plain", ${JSON.stringify(paths.join("\n"))});
      document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    }`);
    await dialog.getByText("Added 2 models.").waitFor();
    await dialog.getByText("added", { exact: true }).nth(1).waitFor();
    // The same again adds none; a folder of models is listed. A slow machine answers at once, too.
    let goOn = () => {};
    const held = new Promise<void>((resolve) => (goOn = resolve));
    await page.route("**/api/browse", async (route) => held.then(() => route.continue()), { times: 1 });
    await field.fill(`"${paths[0]}"`);
    await field.press("Enter");
    await dialog.getByText(`Opening ${paths[0]}…`).waitFor();
    goOn();
    await dialog.getByText(`Added ${paths[0]}.`).waitFor();
    await field.fill(at("project"));
    await field.press("Enter");
    await dialog.getByRole("button", { name: "example" }).waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    await takePicture(page, "paste");
    await dialog.getByRole("button", { name: "Done" }).click();
    await page.getByRole("article", { name: "swahili-expert" }).getByText("Llama").waitFor();
    // One request a model, whatever events come meanwhile.
    expect(asked).toHaveLength(3);
    expect(new Set(asked).size).toBe(3);
    expect(settings()).toMatchObject({
      base: at("project", "example", "base"),
      experts: [
        { name: "math-expert", source: paths[0] },
        { name: "swahili-expert", source: paths[1] },
      ],
    });
  });

  it("writes recipes with paths from their folder, and reads them", async () => {
    await page.getByRole("link", { name: "Recipe", exact: true }).click();
    await page.getByRole("button", { name: "New recipe" }).click();
    await page.getByRole("button", { name: "Make the recipe" }).click();
    await page.getByRole("gridcell", { name: "Layer 2 of math-expert: taken" }).waitFor();
    expect(recipe()).toBe("method: swap\ntask: ../example/math-expert\nlanguage: ../example/swahili-expert\n");
    await page.getByRole("gridcell", { name: "Layer 2 of swahili-expert:" }).click();
    await page.getByRole("gridcell", { name: "Layer 2 of swahili-expert: taken" }).waitFor();
    await expect.poll(recipe).toContain("task: ../example/math-expert");
    await page.getByText("bit for bit").waitFor();
  });

  it("keeps the board where a field is not one of the method, and marks it", async () => {
    const board = page.getByRole("grid", { name: "Whose each layer is" });
    const before = await board.boundingBox();
    await page.locator(".cm-content").click();
    await page.keyboard.press("Control+End");
    await page.keyboard.type("\nbottum: 2\n");
    await page.getByRole("button", { name: "Remove bottum" }).waitFor();
    expect(await board.boundingBox()).toEqual(before);
    expect(await page.getByRole("gridcell", { name: "Layer 2 of swahili-expert: taken" }).count()).toBe(1);
    await page.getByText("Of the last version without problems.").waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    await takePicture(page, "foreign-field");
    await page.getByRole("button", { name: "Remove bottum" }).click();
    await page.getByText("Of the last version without problems.").waitFor({ state: "detached" });
    expect(recipe()).not.toContain("bottum");
    // A method without a board has none.
    await page.locator("#method").click();
    await page.locator('[data-method="ties"]').click();
    await page.getByText("This method decides").waitFor();
    expect(await board.count()).toBe(0);
    await page.getByRole("button", { name: "Undo" }).click();
    await board.waitFor();
  });

  it("runs the experiment that it made, and says that it runs", { timeout: 120_000 }, async () => {
    await page.getByRole("link", { name: "Write", exact: true }).click();
    const way = page.getByRole("article", { name: "Experiment" });
    await way.getByLabel("Task").selectOption("example/problems.yaml");
    await way.getByRole("button", { name: "Make the plan" }).click();
    await way.getByRole("button", { name: "Run and watch it" }).click();
    await page.getByText(/^(Starting|Running in this studio)\.$/).waitFor();
    const selector = page.getByLabel("Experiment", { exact: true });
    if ((await selector.count()) > 0) expect(await selector.innerText()).toContain("Running here");
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Stop" }).waitFor({ state: "detached" });
    expect(bugs).toEqual([]);
  });
});
