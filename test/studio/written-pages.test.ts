// The pages that analyze and experiments write, opened from the disk in a browser.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { experimentPage } from "../../src/experiment/report/page.js";
import { findingText, pageWithData, reportPage } from "../../src/figures/index.js";
import { analyze } from "../../src/index.js";
import { describeInBrowser, openBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";
import { reportOf } from "../support/report-of.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const PLAN = `
name: small
base: b
experts:
  math: { role: task, folders: [m1, m2] }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - { name: graft, recipe: { method: swap, task: math, language: swahili }, grid: { bottom: [1, 2], top: [0, 1] } }
evaluate: { tasks: ["mgsm_{language}"] }
`;

describeInBrowser("written pages", () => {
  let browser: Browser;
  let page: Page;
  const bugs: unknown[] = [];
  beforeAll(async () => {
    browser = await openBrowser();
    page = await browser.newPage();
    page.on("pageerror", (error) => bugs.push(error));
  });
  afterAll(() => browser?.close());

  /** Both schemes, and the width of a desk and a phone. */
  async function expectAccessible(): Promise<void> {
    for (const colorScheme of ["light", "dark"] as const) {
      for (const width of [1400, 400]) {
        await page.emulateMedia({ colorScheme });
        await page.setViewportSize({ width, height: 900 });
        expect(await seriousViolations(page)).toEqual([]);
        expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
      }
    }
    expect(bugs).toEqual([]);
  }

  it("an analysis answers to the keyboard", async () => {
    const experts = {
      math: await writeTiny(at("math"), { seed: 2 }),
      swahili: await writeTiny(at("swahili"), { seed: 3 }),
    };
    const analysis = await analyze({ base: await writeTiny(at("base"), { seed: 1 }), experts, out: at("out") });
    await page.goto(pathToFileURL(at("out", "report.html")).href);
    // The words are first, and the next command has the paths that were given.
    expect(await page.locator("main > *").nth(1).innerText()).toContain("swahili");
    const command = `suggest --base ${at("base")} --task ${experts.math} --language ${experts.swahili}`;
    expect(await page.locator("footer code").first().innerText()).toContain(command);
    for (const kind of ["math", "language"]) {
      await page.getByRole("application", { name: `Published ${kind} experts` }).waitFor();
    }
    await page.getByRole("application", { name: "math and swahili" }).focus();
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowDown");
    await page.getByRole("heading", { name: /^Layer 2, / }).waitFor();
    expect(await page.getByRole("status").filter({ hasText: "cosine" }).innerText()).toMatch(
      /overlap \d+.*conflict [\d.]+%/,
    );
    // What differs, not what the threshold's definition gives: means over the rows, and shares above one threshold.
    const [, most, least] =
      /^(\w+) changed [\d.]+ times as much as (\w+): /.exec(await page.locator(".finding .much").innerText()) ?? [];
    const means = Object.fromEntries(
      analysis.experts.map((name, i) => [name, analysis.matrices.experts[i]?.mean ?? 0]),
    );
    expect(means[most ?? ""]).toBeGreaterThan(means[least ?? ""] ?? Number.POSITIVE_INFINITY);
    const finding = await page.locator(".finding .much").innerText();
    for (const name of [most, least]) expect(finding).toContain(`${means[name ?? ""]?.toExponential(2)} in ${name}`);
    expect(finding).toMatch(
      /Above a threshold of [\d.e-]+ for all: [\d.]+% of the rows of \w+, [\d.]+% of the rows of/,
    );
    // A scale for each changes the ends of the legends.
    await page.getByRole("button", { name: "A scale for each" }).click();
    expect(await page.getByRole("button", { name: "A scale for each" }).getAttribute("aria-pressed")).toBe("true");
    await expectAccessible();
    // On a phone nothing covers the heatmaps until a cell is chosen, and it is put away.
    await page.setViewportSize({ width: 390, height: 844 });
    await page.reload();
    const sheet = page.getByRole("region", { name: /^Layer \d+, / });
    const heatmap = page.getByRole("application", { name: "Changes of math" });
    await heatmap.waitFor();
    expect(await sheet.count()).toBe(0);
    await heatmap.click({ position: { x: 5, y: 5 } });
    // The output is at the top.
    await page.getByRole("heading", { name: "Layer 3, q" }).waitFor();
    await sheet.getByRole("button", { name: "Close" }).click();
    expect(await sheet.count()).toBe(0);
  });

  it("a page for raters keeps its focus, and shows each pair from its beginning", async () => {
    const long = "Asha alikuwa na ndizi tisa. ".repeat(60);
    const pairs = [1, 2, 3].map((id) => ({
      task: "quiz",
      id: `${id}`,
      prompt: long,
      answers: [long, "x".repeat(300)],
    }));
    writeFileSync(at("rating.html"), await pageWithData("#rating-page", { seed: 0, digest: "", pairs, equal: 3 }));
    await page.goto(pathToFileURL(at("rating.html")).href);
    await expectAccessible();
    await page.setViewportSize({ width: 390, height: 844 });
    const next = page.getByRole("button", { name: "Next" });
    await next.focus();
    for (const place of [2, 3, 3]) {
      await page.keyboard.press("Enter");
      const box = await page.getByRole("heading", { name: `Pair ${place} of 3` }).boundingBox();
      expect(box?.y).toBeGreaterThanOrEqual(0);
      expect(box?.y).toBeLessThan(100);
      expect(await page.evaluate("document.activeElement.id")).toBe("after");
    }
    expect(await next.getAttribute("aria-disabled")).toBe("true");
    const state = page.getByRole("status");
    for (const _ of [1, 2]) await page.getByRole("button", { name: "Previous" }).click();
    // In the note, digits are text.
    await page.getByRole("textbox").pressSequentially("12");
    for (const rated of [0, 1, 2]) {
      expect(await state.innerText()).toBe(`${rated} of 3 rated; 3 equal answers are left out`);
      await page.getByRole("button", { name: "A is better" }).click();
    }
    expect(await state.innerText()).toMatch(/^3 of 3 rated; 3 equal answers are left out\. Save the choices/);
    await expectAccessible();
  });

  it("a report begins with its verdict, and shows intervals on request", async () => {
    const { report } = reportOf(PLAN, ({ model }) => (typeof model === "string" ? 3 : 6));
    writeFileSync(at("report.html"), await reportPage(experimentPage(report)));
    await page.goto(pathToFileURL(at("report.html")).href);
    const verdict = findingText(report.overviews[0]?.finding);
    // What it scores, the best alternative, the difference and its interval: once, and the bars are on the first screen.
    expect(verdict).toMatch(/scores [\d.]+%, [\d.]+ points above .+ \([\d.]+%; 95% interval of the difference: /);
    for (const [width, height] of [
      [1440, 900],
      [900, 900],
      [390, 844],
    ] as const) {
      await page.setViewportSize({ width, height });
      const said = await page.locator(".verdicts p").allInnerTexts();
      expect(said.join(" ")).toBe(verdict);
      for (const part of said) expect((await page.locator("body").innerText()).split(part)).toHaveLength(2);
      const row = await page.locator(".bars tr").nth(1).boundingBox();
      expect((row?.y ?? height) + (row?.height ?? 0)).toBeLessThan(height);
    }
    // The axis is around the scores: the outermost interval takes most of it.
    const [track, range] = await Promise.all(
      [".track", ".range"].map((selector) => page.locator(selector).first().boundingBox()),
    );
    expect((range?.width ?? 0) / (track?.width ?? 1)).toBeGreaterThan(0.3);
    await expectAccessible();
  });

  it("a report of long names has no letter a line, and nothing off the page", async () => {
    const [math, swahili] = ["mathematics", "swahili_with_some_more"].map(
      (name) => `${name}-${"pretrained".repeat(7)}`,
    );
    const { report } = reportOf(
      PLAN.replaceAll("math", math ?? "").replaceAll("swahili", swahili ?? ""),
      ({ model }) => (typeof model === "string" ? 3 : 6),
    );
    writeFileSync(at("long.html"), await reportPage(experimentPage(report)));
    await page.goto(pathToFileURL(at("long.html")).href);
    await expectAccessible();
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 844 });
      const boxes = await Promise.all((await page.locator(".named tbody th").all()).map((one) => one.boundingBox()));
      // Of a folded table there is no box.
      for (const { width: own } of boxes.flatMap((box) => box ?? [])) expect(own).toBeGreaterThan(120);
    }
  });
});
