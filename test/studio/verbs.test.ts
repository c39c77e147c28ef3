// The studio's view Commands: the form of a verb, its job and what it found, driven in a browser.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";
import { openStudio } from "../support/studio-page.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

describeInBrowser("the forms of verbs", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    await writeTiny(at("base"), { seed: 1 });
    await writeTiny(at("math"), { seed: 2 });
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
    await page.getByRole("link", { name: "Commands" }).click();
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  it("extract is run from its form, and shows its table and notes", async () => {
    await page.getByLabel("Command").selectOption("extract");
    const fill = async (label: string, text: string) => {
      const input = page.getByLabel(label, { exact: true });
      await input.fill(text);
      await input.blur();
    };
    await fill("base (required)", at("base"));
    await fill("model (required)", at("math"));
    await fill("rank", "2");
    await fill("out (required)", "adapter");
    expect(await seriousViolations(page)).toEqual([]);
    await page.getByRole("button", { name: "Run extract" }).click();
    await page.getByRole("cell", { name: "all", exact: true }).waitFor();
    expect(await page.getByRole("columnheader").allInnerTexts()).toEqual(["part", "weights", "rank", "at 1", "at 2"]);
    expect(existsSync(at("project", "adapter", "adapter_config.json"))).toBe(true);
    expect(await seriousViolations(page)).toEqual([]);
    expect(bugs).toEqual([]);
  });

  it("an input that the schema refuses starts no job", async () => {
    const rank = page.getByLabel("rank", { exact: true });
    await rank.fill("0");
    await rank.blur();
    await page.getByRole("button", { name: "Run extract" }).click();
    await page.getByRole("alert").waitFor();
    expect(await page.getByRole("alert").innerText()).toContain("rank: must be at least 1");
  });
});
