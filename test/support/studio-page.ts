// The studio on a project, and its page in a browser, as the tests of its views open them.
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { type Studio, startStudio } from "../../src/studio/index.js";
import { openBrowser } from "./browser.js";

/** A browser with the page at an address. Errors of the page are added to `bugs`. */
export async function openPage(url: string, bugs: unknown[]): Promise<{ browser: Browser; page: Page }> {
  const browser = await openBrowser();
  const page = await (await browser.newContext({ viewport: { width: 1400, height: 900 } })).newPage();
  page.on("pageerror", (error) => bugs.push(error));
  await page.goto(url);
  return { browser, page };
}

/** Starts the studio on a project and opens its page. Errors of both are added to `bugs`. */
export async function openStudio(
  folder: string,
  bugs: unknown[],
): Promise<{ studio: Studio; browser: Browser; page: Page }> {
  const studio = await startStudio({ folder, port: 0, onBug: (error) => bugs.push(error) });
  return { studio, ...(await openPage(studio.url, bugs)) };
}

/** Takes a picture of the whole page where LAYERGRAFT_TEST_PICTURES names a folder for it. */
export async function takePicture(page: Page, name: string): Promise<void> {
  const folder = process.env.LAYERGRAFT_TEST_PICTURES;
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}

/** Unfolds the form of evaluations, which is folded once there are results. */
export async function unfoldForm(page: Page): Promise<void> {
  const title = page.getByText("Evaluate models", { exact: true });
  await title.waitFor();
  if (!(await page.getByRole("button", { name: /^Evaluate (?!models$)./ }).isVisible())) await title.click();
}
