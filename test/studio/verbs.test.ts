// The studio's view Commands: the form of a verb, its job and what it found, driven in a browser.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { z } from "zod";
import { VERBS } from "../../src/experiment/verbs/index.js";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";
import { openStudio } from "../support/studio-page.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

/** The verb `eval` with a field more, which no page names. */
async function withFieldMore(): Promise<void> {
  const at = VERBS.findIndex(({ name }) => name === "eval");
  const entry = VERBS[at];
  if (!entry) throw new Error("no eval");
  const verb = await entry.load();
  const harshness = z.int().min(1).optional().meta({ description: "how harsh answers are judged", unset: "kind" });
  const { groups } = verb.terminal;
  const more = {
    ...verb,
    schema: verb.schema.extend({ harshness }),
    terminal: { ...verb.terminal, groups: { ...groups, Judging: ["harshness"] } },
  };
  (VERBS as unknown as object[])[at] = { ...entry, load: () => Promise.resolve(more) };
}

describeInBrowser("the forms of verbs", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    await writeTiny(at("base"), { seed: 1 });
    await writeTiny(at("math"), { seed: 2 });
    const settings = { base: at("base"), experts: [{ name: "math", source: at("math") }], recipe: null, prompts: [] };
    mkdirSync(at("project"));
    writeFileSync(at("project", "studio.json"), JSON.stringify({ revision: 1, settings }));
    await withFieldMore();
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
    await page.getByLabel("base (required)").selectOption("base");
    await page.getByLabel("model (required)").selectOption("math");
    await page.getByText("Adapter", { exact: true }).click();
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

  it("a field that is added to a verb is in its form and in that of Try, folded away by its group", async () => {
    await page.getByLabel("Command").selectOption("eval");
    const input = page.getByLabel("harshness", { exact: true });
    expect(await input.isVisible()).toBe(false);
    await page.getByText("Judging").click();
    expect(await input.getAttribute("placeholder")).toBe("kind");
    expect(await page.getByText("how harsh answers are judged").isVisible()).toBe(true);
    expect(await page.getByText("Model-written programs").count()).toBe(0);
    expect(await page.getByLabel("allowCode").count()).toBe(0);
    await page.getByRole("link", { name: "Try" }).click();
    await page.getByRole("button", { name: "Evaluate", exact: true }).click();
    await page.getByText("Judging").click();
    await input.fill("3");
    await input.blur();
    await page.getByText("harshness: 3").waitFor();
    expect(await seriousViolations(page)).toEqual([]);
  });

  it("a job that runs code is refused, and says where to run it", async () => {
    const { origin, hash } = new URL(studio.url);
    const start = (verb: string, input: object) =>
      page.evaluate(
        async ([url, token, body]) => {
          const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
          return (await fetch(`${url}/api/job.start`, { method: "POST", headers, body: body ?? "" })).json();
        },
        [origin, hash.slice("#token=".length), JSON.stringify({ kind: "verb", input: { verb, input } })],
      );
    expect(await start("verify", { model: "m", allowCode: true })).toMatchObject({
      error: { message: "allowCode runs code, which a page cannot show. Run layergraft verify in a terminal." },
    });
    expect(await start("eval", { source: "m", tasks: ["t"], backend: "serve:touch x" })).toMatchObject({
      error: { message: expect.stringMatching(/^backend runs code/) },
    });
  });
});
