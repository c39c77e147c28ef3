// The studio's views Models and Changes, driven in a browser as a person drives them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { analyze } from "../../src/index.js";
import { formatPercent } from "../../src/kit/printing/index.js";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";
import { layergraft } from "../support/command.js";
import { openStudio } from "../support/studio-page.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

describeInBrowser("the studio in a browser", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    await writeTiny(at("models", "base"), { seed: 1 });
    await writeTiny(at("models", "math"), { seed: 2 });
    await writeTiny(at("models", "swahili"), { seed: 3 });
    await writeTiny(at("models", "other-tokens"), { seed: 4, vocabulary: 30 });
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
    page.on("console", (message) => {
      if (message.type() === "error") bugs.push(message.text());
    });
    page.on("response", async (response) => {
      // The page's console names no request.
      if (response.status() >= 400) bugs.push(`${response.request().postData()}: ${await response.text()}`);
    });
    await page.reload();
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  const card = (name: string) => page.getByRole("article", { name, exact: true });
  const text = (selector: string) => page.locator(selector).allInnerTexts();

  it("opens a base and experts from folders", async () => {
    await page.getByRole("button", { name: "Choose the base" }).click();
    const dialog = page.getByRole("dialog");
    const field = dialog.getByLabel("Folder, FOLDER+ADAPTER");
    // The folder that is listed first is written into the field, which would come between the steps of filling it.
    await expect.poll(() => field.inputValue()).not.toBe("");
    await field.fill(at());
    await dialog.getByRole("button", { name: "Open", exact: true }).click();
    await dialog.getByRole("button", { name: "models" }).click();
    await dialog.getByRole("button", { name: "Choose base" }).click();
    await dialog.waitFor({ state: "detached" });
    await expect.poll(() => card("Base").locator("dd").allInnerTexts()).toContain("4");

    await page.getByRole("button", { name: "Add the first expert" }).click();
    for (const name of ["math", "swahili", "other-tokens"]) {
      await dialog.getByRole("button", { name: `Add ${name}` }).click();
    }
    await dialog.getByText("added").nth(2).waitFor();
    await dialog.getByRole("button", { name: "Done" }).click();
    await card("other-tokens").getByText("vocabularies differ").waitFor();
    expect(await card("math").locator(".problem").count()).toBe(0);
    expect(JSON.parse(readFileSync(at("project", "studio.json"), "utf8")).settings).toMatchObject({
      base: at("models", "base"),
      experts: ["math", "swahili", "other-tokens"].map((name) => ({ name, source: at("models", name) })),
    });
  });

  it("renames by keyboard, refuses a taken name, and removes", async () => {
    await card("math").getByRole("button", { name: "Rename" }).focus();
    await page.keyboard.press("Enter");
    const field = page.getByLabel("Name", { exact: true });
    await field.fill("swahili");
    await page.getByText("Another expert is called swahili.").waitFor();
    await page.keyboard.press("Enter");
    await field.fill("sums");
    await page.keyboard.press("Enter");
    await card("sums").waitFor();
    await card("other-tokens").getByRole("button", { name: "Remove" }).click();
    await card("other-tokens").waitFor({ state: "detached" });
    await page.reload();
    await card("sums").waitFor();
    expect(await text("article h2")).toEqual(["Base", "sums", "swahili"]);
  });

  it("measures, and shows the figures of the library", async () => {
    await page.getByRole("link", { name: "See what changed" }).click();
    await page.getByRole("button", { name: "Measure changes" }).click();
    await page.getByRole("heading", { name: "Changes", exact: true }).waitFor();
    const heatmap = page.getByRole("application", { name: "Changes of sums" });
    await heatmap.focus();
    await page.keyboard.press("Home");
    for (let i = 0; i < 7; i++) await page.keyboard.press("ArrowLeft");
    for (const key of ["ArrowUp", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
    await page.getByRole("heading", { name: "Layer 1, v" }).waitFor();

    const experts = { sums: at("models", "math"), swahili: at("models", "swahili") };
    const analysis = await analyze({ base: at("models", "base"), experts });
    const figures = analysis.parts.find(({ layer, part }) => layer === 1 && part === "v_proj");
    const size = (value: number | null | undefined) => value?.toExponential(2);
    const shown = (await text(".detail tbody tr")).map((row) => row.split(/\s+/).filter((word) => word !== ""));
    figures?.experts.forEach(({ mean, relativeNorm }, i) => {
      expect(shown[i]?.slice(2, 4)).toEqual([size(mean), size(relativeNorm)]);
    });
    expect(shown[2]?.slice(-2)).toEqual([
      formatPercent(figures?.pairs[0]?.conflictShare ?? 0),
      figures?.pairs[0]?.cosine?.toFixed(2).replace("-", "−"),
    ]);
    // What a screen reader hears at the cell.
    const heard = await page.getByRole("status").filter({ hasText: "layer 1, v" }).innerText();
    expect(heard).toContain(`mean change ${size(figures?.experts[0]?.mean)}`);
    await expect.poll(() => text(".top-rows tbody tr")).toHaveLength(8);
  });

  it("agrees with the terminal, heatmap.svg and report.html", async () => {
    const given = ["--base", at("models", "base"), "--expert", `sums=${at("models", "math")}`];
    const { stdout } = await layergraft(
      ["analyze", ...given, "--expert", `swahili=${at("models", "swahili")}`, "--out", at("out")],
      { cwd: root },
    );
    const inTerminal = [...stdout.matchAll(/^ *\d+((?: +[\d.·]+)+)$/gm)].map(([, row = ""]) =>
      row
        .trim()
        .split(/ +/)
        .map((cell) => (cell === "·" ? "0" : cell)),
    );
    // The output is at the top there.
    const terminal = [inTerminal.slice(0, 4).reverse(), inTerminal.slice(4).reverse()].flat(2).map(Number);
    const svg = readFileSync(at("out", "heatmap.svg"), "utf8");
    const inSvg = [...svg.matchAll(/<title>layer \d+, \w+: (\d+)%<\/title>/g)].map(([, cell]) => Number(cell));
    const tables = async (of: Page) => {
      await of.getByText("Shares as tables").click();
      // Without the last column, all parts of a layer.
      const region = of.getByRole("region", { name: /^Shares of/ });
      const cells = region.locator("td:not(:last-child)");
      await cells.first().waitFor();
      const shares = (await cells.allInnerTexts()).map(Number.parseFloat);
      const [first = [], second = []] = [shares.slice(0, shares.length / 2), shares.slice(shares.length / 2)];
      // From the output down, as in the other outputs; the files below go from the input up.
      const upwards = (all: readonly number[]) => [21, 14, 7, 0].flatMap((at) => all.slice(at, at + 7));
      return [...upwards(first), ...upwards(second)];
    };
    const studioCells = await tables(page);
    const file = await page.context().newPage();
    await file.goto(pathToFileURL(at("out", "report.html")).href);
    expect(await tables(file)).toEqual(studioCells);
    expect(studioCells).toHaveLength(2 * 4 * 7);
    expect(inSvg).toEqual(studioCells.map(Math.round));
    expect(terminal.map(Math.round)).toEqual(inSvg);
    const line = async (of: Page) => [
      ...(await of.getByText(/of rows changed/).allInnerTexts()).map((one) => one.split(" ")[0]),
      ...((await of.getByText(/^Attention and MLP: overlap/).innerText()).match(/[−\d.]+/g) ?? [])
        .slice(0, 2)
        .map((n) => `${n}%`),
    ];
    expect(await line(file)).toEqual(await line(page));
    const above = [...stdout.matchAll(/([\d.]+%) > /g)].map(([, share]) => share);
    const [, conflict, overlap] = /^sums and swahili +(?:\S+) +(\S+) +(\S+)$/m.exec(stdout) ?? [];
    expect([...above, overlap, conflict]).toEqual(await line(page));
    await file.close();
  });

  it("follows the threshold", async () => {
    const slider = page.getByLabel("A row counts as changed above");
    await slider.focus();
    await page.keyboard.press("Home");
    await page.getByText("100% of rows changed").nth(1).waitFor();
    await page.keyboard.press("End");
    await page.getByText("0% of rows changed", { exact: true }).nth(1).waitFor();
    await page.getByRole("button", { name: "auto, each its own" }).click();
    // The row that one in eight exceeds.
    await page
      .getByText(/^12\.\d% of rows changed/)
      .nth(1)
      .waitFor();
    for (const measure of ["Overlap", "Conflict", "Cosine"]) {
      await page.getByRole("button", { name: measure, exact: true }).click();
      expect(await page.getByRole("button", { name: measure, exact: true }).getAttribute("aria-pressed")).toBe("true");
    }
  });

  it("keeps figures over a reload, and says when they are of other models", async () => {
    await page.reload();
    await page.getByRole("application", { name: "Changes of sums" }).waitFor();
    expect(await page.getByText("of other models").count()).toBe(0);
    await page.getByRole("link", { name: "Models" }).click();
    await card("swahili").getByRole("button", { name: "Remove" }).click();
    await card("swahili").waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Changes" }).click();
    await page.getByText("of other models").waitFor();
  });

  it.each(["light", "dark"] as const)("has no serious accessibility violation, %s", async (colorScheme) => {
    await page.emulateMedia({ colorScheme });
    for (const width of [1400, 400]) {
      await page.setViewportSize({ width, height: 900 });
      for (const view of ["Models", "Changes", "Activity"]) {
        await page.getByRole("link", { name: view, exact: true }).click();
        await page.locator(`nav a[aria-current]`, { hasText: view }).waitFor();
        expect(await seriousViolations(page)).toEqual([]);
        const overflow = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
        expect(overflow).toBeLessThanOrEqual(0);
      }
    }
    await page.setViewportSize({ width: 1400, height: 900 });
  });

  it("has shown no error", () => {
    expect(bugs).toEqual([]);
  });
});
