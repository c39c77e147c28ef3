// A browser for tests of pages, where the machine has one.
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { describe } from "vitest";

const NAMES = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/** From LAYERGRAFT_TEST_BROWSER, or by its usual names; undefined where there is none. */
const BROWSER =
  process.env.LAYERGRAFT_TEST_BROWSER ??
  (process.env.PATH ?? "")
    .split(delimiter)
    .flatMap((folder) => NAMES.map((name) => join(folder, name)))
    .find((file) => existsSync(file));

/** Tests of the slow tier that need a browser. Without one they are skipped, with a warning among the results. */
export function describeInBrowser(name: string, tests: () => void): void {
  if (BROWSER === undefined) {
    process.stderr.write(`NOT TESTED: ${name}. Install Chromium, or name it in LAYERGRAFT_TEST_BROWSER.\n`);
  }
  describe.skipIf(BROWSER === undefined)(name, { tags: ["slow"] }, tests);
}

export function openBrowser(): Promise<Browser> {
  // Containers often have no user namespaces for the sandbox; the pages are our own.
  return chromium.launch({ executablePath: BROWSER ?? "", args: ["--no-sandbox"] });
}

/** Violations that axe-core finds on a page, those of no more than moderate impact left out. */
export async function seriousViolations(page: Page): Promise<string[]> {
  // Colours on their way from one mode to the other have the contrast of neither, and a browser without a screen may leave
  // what is out of view on its way. A bar of unknown length has no end.
  await page.evaluate(`for (const animation of document.getAnimations())
    if (Number.isFinite(animation.effect.getComputedTiming().endTime)) animation.finish()`);
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  // Evaluated as the page's debugger does, which the policy of the page allows.
  return page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) =>
    violations.filter(({ impact }) => impact === "serious" || impact === "critical").flatMap(({ id, nodes }) =>
      nodes.map(({ target }) => id + ": " + target.join(" "))))`);
}
