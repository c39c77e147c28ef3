// Draws docs/images/studio-*.png and merge.png from the example with Chromium: npm run build && node docs/pictures.js

import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const PROMPT = "Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa? Solve:";

const parent = mkdtempSync(join(tmpdir(), "studio-"));
const project = join(parent, "example");
const command = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
execFileSync(process.execPath, [command, "example", project]);
const experts = ["math-expert", "swahili-expert"].map((name) => ({ name, source: join(project, name) }));
const settings = { base: join(project, "base"), experts, recipe: null, prompts: [] };
writeFileSync(join(project, "studio.json"), JSON.stringify({ revision: 1, settings }));

const studio = spawn(process.execPath, [command, "studio", project, "--no-open", "--port", "0"]);
const address = await new Promise((resolve) => {
  createInterface({ input: studio.stdout }).on("line", (line) => {
    const found = /http:\S+/.exec(line);
    if (found) resolve(found[0]);
  });
});
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
try {
  const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();
  /** @param {string} name */
  const draw = async (name) => {
    await page.waitForTimeout(500);
    await page.screenshot({ path: fileURLToPath(new URL(`images/studio-${name}.png`, import.meta.url)) });
  };
  /** @param {string} name */
  const view = (name) => page.getByRole("link", { name, exact: true }).click();

  await page.goto(address);
  await view("Recipe");
  await page.getByRole("button", { name: "New recipe" }).click();
  await page.getByRole("button", { name: "Make the recipe" }).click();
  await page.getByText("bit for bit").waitFor();
  await draw("recipe");

  await view("Changes");
  await page.getByRole("button", { name: /^Measure/ }).click();
  await page.getByText("Shares as tables").waitFor();
  await draw("changes");

  await view("Try");
  await page.getByRole("button", { name: "Text" }).click();
  await page.getByLabel("Prompt", { exact: true }).fill(PROMPT);
  await page.getByRole("button", { name: /^Ask [0-9]/ }).click();
  await page.waitForTimeout(15_000);
  await draw("try");

  await page.getByRole("button", { name: "Evaluate", exact: true }).click();
  await page.getByLabel("Task", { exact: true }).selectOption("problems.yaml");
  await page.getByRole("button", { name: /^Evaluate 4 models/ }).click();
  await page.getByRole("row", { name: /^recipe/ }).waitFor({ timeout: 120_000 });
  await page.getByRole("button", { name: "Compare item by item" }).click();
  await page.locator(".items > li").first().waitFor();
  await page.getByRole("button", { name: /^Gained/ }).click();
  await page.locator(".results").scrollIntoViewIfNeeded();
  await draw("evaluate");

  await view("Recipe");
  await page.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("dialog").getByRole("textbox").fill("math-in-swahili");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await view("Write");
  await page.getByRole("button", { name: "Write the page" }).click();
  await page.locator("img.shared").waitFor();
  const made = join(project, "shared", "math-in-swahili.png");
  // The page sends the pixels once it has drawn them.
  while (!existsSync(made)) await page.waitForTimeout(100);
  copyFileSync(made, fileURLToPath(new URL("images/merge.png", import.meta.url)));
} finally {
  await browser.close();
  studio.kill("SIGINT");
  rmSync(parent, { recursive: true, force: true });
}
