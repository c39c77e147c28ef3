// The studio's evaluations, driven in a browser: results and comparisons are those of the command line.
import { copyFileSync, existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Studio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { layergraft } from "../support/command.js";
import { openStudio, unfoldForm } from "../support/studio-page.js";
import { writeProjectOfWorld } from "../support/studio-project.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const MARKUP = '<img src=x onerror="window.isHurt=1">';
const PICTURES = process.env.LAYERGRAFT_TEST_PICTURES;
const MANY = 1500;

/** Writes a task of the project that models answer with text. */
function writeTask(name: string, rows: readonly object[], tokens: number): void {
  writeFileSync(at("project", `${name}.jsonl`), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  const lines = [`task: ${name}`, `data: ${name}.jsonl`, "answer: generate", 'prompt: "{text}"', 'gold: "{gold}"'];
  writeFileSync(at("project", `${name}.yaml`), `${lines.join("\n")}\nid: "{id}"\nmax_new_tokens: ${tokens}\n`);
}

describeInBrowser("evaluating", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    await writeProjectOfWorld(root);
    for (const name of ["quiz.yaml", "rows.jsonl"]) copyFileSync(at("world", name), at("project", name));
    const text = "Amina had 2 bananas. How many bananas does Amina have now? Number:";
    const items = Array.from({ length: MANY }, (_, id) => ({ id: `item ${id}`, text: `${id} ${text}`, gold: "2" }));
    writeTask("many", items, 4);
    writeTask(
      "markup",
      [0, 1].map((id) => ({ id: `${MARKUP} ${id}`, text: MARKUP, gold: MARKUP })),
      4,
    );
    writeFileSync(at("project", "broken.yaml"), "task: broken\nanswer: generate\nprompt: x\n");
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
    await page.getByRole("link", { name: "Try" }).click();
    await page.getByRole("button", { name: "Evaluate", exact: true }).click();
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  const results = (title: string) =>
    page.locator(".results").filter({ has: page.getByRole("heading", { name: title }) });
  const folderOf = (task: string, model: string) => {
    const found = readdirSync(at("project", "evaluations")).find((name) => name.startsWith(`${task}-${model}-`));
    return join("evaluations", found ?? "");
  };
  const idsShown = async () =>
    (await page.locator(".items h3").allInnerTexts()).map((line) => /^Item (.*?)\s*(?:Gained|Lost)?$/s.exec(line)?.[1]);
  /** Of every page of the list, which is left at its last. */
  const idsOfPages = async () => {
    const next = page.getByRole("button", { name: "Next" });
    const all = await idsShown();
    while ((await next.count()) > 0 && (await next.isEnabled())) {
      const before = await idsShown();
      await next.click();
      await expect.poll(idsShown).not.toEqual(before);
      all.push(...(await idsShown()));
    }
    return all;
  };
  const evaluateOn = async (task: string) => {
    await unfoldForm(page);
    await page.getByLabel("Task", { exact: true }).selectOption(task);
    await page.getByRole("button", { name: /^Evaluate 2 models/ }).click();
  };

  it("evaluates base and recipe as the command line does", { timeout: 120_000 }, async () => {
    for (const name of ["math-expert", "swahili-expert"]) await page.getByRole("checkbox", { name }).uncheck();
    await evaluateOn("quiz.yaml");
    await page.getByRole("progressbar", { name: "Evaluation of base, recipe mine on quiz.yaml" }).waitFor();
    await results("quiz").getByRole("row", { name: "recipe mine" }).waitFor();
    // What was found leads: the form is folded, and the highest is first.
    await expect.poll(() => page.locator("details.fold").getAttribute("open")).toBeNull();
    const names = results("quiz").locator("tbody th");
    await expect.poll(() => names.allInnerTexts()).toEqual(["recipe mine", "base"]);
    await results("quiz").getByRole("button", { name: "Model" }).click();
    await expect.poll(() => names.allInnerTexts()).toEqual(["base", "recipe mine"]);
    expect(await results("quiz").getByRole("columnheader", { name: "Model" }).getAttribute("aria-sort")).toBe(
      "ascending",
    );
    await results("quiz").getByRole("button", { name: "Score" }).click();
    await expect.poll(() => names.allInnerTexts()).toEqual(["recipe mine", "base"]);

    const cwd = at("project");
    const options = ["--tasks", "quiz.yaml", "--limit", "100", "--backend", "engine"];
    await layergraft(["eval", "recipes/mine.yaml", ...options, "--out", "by-command"], { cwd });
    for (const file of ["results.json", "samples-quiz.jsonl", "settings.json"]) {
      const ours = readFileSync(join(cwd, folderOf("quiz", "mine"), file), "utf8");
      expect(ours).toBe(readFileSync(join(cwd, "by-command", file), "utf8"));
    }
    const { tasks } = JSON.parse(readFileSync(join(cwd, "by-command", "results.json"), "utf8")) as {
      tasks: { scores: { value: number }[] }[];
    };
    const score = (100 * (tasks[0]?.scores[0]?.value ?? 0)).toFixed(1);
    expect(await results("quiz").getByRole("row", { name: "recipe mine" }).locator("td").first().innerText()).toBe(
      `${score}%`,
    );
  });

  it("shares one page of the recipe, its scores and flips, without paths or the token", {
    timeout: 60_000,
  }, async () => {
    const { stdout } = await layergraft(["studio", at("project"), "--share", "mine", "--json"], { cwd: root });
    const { file } = JSON.parse(stdout) as { file: string };
    const byCommand = readFileSync(file, "utf8");
    const again = await layergraft(["studio", at("project"), "--share", "mine"], { cwd: root });
    expect(again.stderr).toContain(`${file} already exists. Pass --force to replace it.`);
    await page.getByRole("link", { name: "Write" }).click();
    const way = page.getByRole("article", { name: "Page to share" });
    await way.getByRole("button", { name: "Write the page" }).click();
    await way.getByRole("button", { name: "Replace what is there" }).click();
    const opened = page.waitForEvent("popup");
    await way.getByRole("link", { name: "Open the page" }).click();
    await (await opened).getByText("Embeddings, last norm").first().waitFor();
    await (await opened).close();
    // The picture of a browser is a PNG.
    expect(readFileSync(file, "utf8").replace("mine.png", "mine.svg")).toBe(byCommand);
    for (const secret of [root, homedir(), new URL(studio.url).hash.slice("#token=".length)]) {
      expect(byCommand).not.toContain(secret);
    }
    const shared = await browser.newPage();
    await shared.goto(pathToFileURL(file).href);
    const verdicts = await shared.locator(".verdicts p").allInnerTexts();
    expect(await shared.locator(".lead").innerText()).toBe(
      "A merge of language models by layer swap. Layers 0, 7: swahili-expert. Layers 1-6: math-expert. Embeddings, last norm and output head: the average of math-expert and swahili-expert.",
    );
    expect(await shared.locator("#scores > p").innerText()).toContain(
      "The layers are the paper's default for this depth",
    );
    // The strip of the layers from the output down, and the bars, are on the first screen.
    expect(await shared.locator("#scores .heatmap th[scope=row]").allInnerTexts()).toEqual([
      "7",
      "1 to 6",
      "0",
      "other tensors",
    ]);
    await shared.setViewportSize({ width: 1440, height: 900 });
    for (const part of ["#scores .heatmap", "#scores table.bars"]) {
      const box = await shared.locator(part).first().boundingBox();
      expect((box?.y ?? 900) + (box?.height ?? 0)).toBeLessThan(900);
    }
    const results = [folderOf("quiz", "base"), folderOf("quiz", "mine")];
    const compared = await layergraft(["compare", ...results, "--json"], { cwd: at("project") });
    const [one] = JSON.parse(compared.stdout).tasks[0].comparisons;
    const percent = (value: number) => (100 * value).toFixed(1);
    expect(verdicts).toHaveLength(2);
    expect(verdicts[0]).toContain(
      `The recipe mine scores ${percent(one.second)}%, ${percent(one.difference)} points above the base, the best single model (${percent(one.first)}%; 95% interval of the difference: +${percent(one.interval.low)} to +${percent(one.interval.high)}; p `,
    );
    expect(verdicts[0]).toMatch(/; p (<|=) [\d.]+\)\. It is significantly above all others\.$/);
    expect(verdicts[1]).toBe("No other merge was tried on these items. Score a soup or TIES, too.");
    expect(await shared.locator(".note").allInnerTexts()).toEqual([
      "quiz: not compared with math-expert, swahili-expert, which did not answer these items.",
    ]);
    expect(await shared.getByText("on 100 items").innerText()).toContain("Such as: “");
    expect(await shared.locator(".bars tbody th").allInnerTexts()).toEqual(["base", "mine"]);
    for (const width of [1440, 900, 390]) {
      await shared.setViewportSize({ width, height: 900 });
      expect(await seriousViolations(shared)).toEqual([]);
      for (const table of await shared.locator(".scroll:has(table.numbers)").all()) {
        expect(await table.evaluate((box) => box.scrollWidth - box.clientWidth)).toBeLessThanOrEqual(0);
      }
      if (PICTURES) await shared.screenshot({ path: join(PICTURES, `shared-${width}.png`), fullPage: true });
    }
    await shared.close();
    await page.getByRole("link", { name: "Try" }).click();
  });

  it("compares item by item as the command line does", async () => {
    await page.getByRole("button", { name: "Compare item by item" }).click();
    await page.locator(".items > li").first().waitFor();
    const folders = [folderOf("quiz", "base"), folderOf("quiz", "mine")];
    const { stdout } = await layergraft(["compare", ...folders, "--json"], { cwd: at("project") });
    const { tasks } = JSON.parse(stdout) as {
      tasks: { comparisons: { gained: string[]; lost: string[]; difference: number }[] }[];
    };
    const [{ gained, lost, difference } = { gained: [], lost: [], difference: 0 }] = tasks[0]?.comparisons ?? [];
    expect(gained.length + lost.length).toBeGreaterThan(0);
    for (const [name, ids] of Object.entries({ Gained: gained, Lost: lost })) {
      await page.getByRole("button", { name: `${name} ${ids.length}` }).click();
      await expect.poll(idsShown).toEqual(ids.slice(0, 20));
      expect(await idsOfPages()).toEqual(ids);
    }
    const verdict = await page.locator(".comparison .verdict").innerText();
    expect(verdict).toContain(
      `${(100 * Math.abs(difference)).toFixed(1)} points ${difference > 0 ? "above" : "below"}`,
    );
    const table = await layergraft(["compare", ...folders], { cwd: at("project") });
    expect(table.stdout).toContain(verdict.replace(/^.*?\(/s, "("));

    // The item that a person reads is that of the file.
    await page.getByRole("button", { name: /^All/ }).focus();
    await page.keyboard.press("Enter");
    await expect.poll(idsShown).toEqual(Array.from({ length: 20 }, (_, index) => `${index + 1}`));
    const [line = ""] = readFileSync(at("project", folders[1] ?? "", "samples-quiz.jsonl"), "utf8").split("\n");
    const sample = JSON.parse(line) as { prompt: { own: string }; gold: string; reading: { label: string } };
    const item = page.locator(".items > li").first();
    const shown = await item.locator("dd").allInnerTexts();
    expect(shown[0]).toContain(sample.prompt.own.trim());
    expect([shown[1], shown[3]]).toEqual([sample.gold, sample.reading.label]);
    expect(await item.locator(".worth").nth(1).innerText()).toBe(sample.gold === shown[3] ? "right" : "wrong");
  });

  it("shows all items by all models, the ones that they disagree on first, and opens an answer", async () => {
    const matrix = page.getByRole("region", { name: "Items by models" });
    await results("quiz").getByText("Items by models").click();
    const values = (name: string) => {
      const lines = readFileSync(at("project", folderOf("quiz", name), "samples-quiz.jsonl"), "utf8")
        .trim()
        .split("\n");
      return lines.map((line) => JSON.parse(line) as { id: string; gold: string; reading: { label: string } });
    };
    const [base, mine] = [values("base"), values("mine")];
    const differ = base.filter(
      ({ gold, reading }, i) => (reading.label === gold) !== (mine[i]?.reading.label === gold),
    );
    const first = differ[0]?.id ?? "";
    await expect.poll(() => matrix.locator("tbody th").first().innerText()).toBe(first);
    await matrix.getByRole("button", { name: "In order" }).click();
    const shown = await matrix.locator("tbody tr").first().locator(".worth").allInnerTexts();
    expect(shown).toEqual([base[0], mine[0]].map((one) => (one?.gold === one?.reading.label ? "right" : "wrong")));
    if (process.env.LAYERGRAFT_TEST_PICTURES) {
      await page.screenshot({ path: join(process.env.LAYERGRAFT_TEST_PICTURES, "matrix.png"), fullPage: true });
    }
    await matrix.getByRole("button", { name: `recipe mine on item ${first}:` }).click();
    const dialog = page.getByRole("dialog", { name: `Item ${first}` });
    await expect
      .poll(() => dialog.locator(".given dd").allInnerTexts())
      .toEqual([base, mine].map((all) => all.find(({ id }) => id === first)?.reading.label));
    expect(await seriousViolations(page)).toEqual([]);
    await dialog.getByRole("button", { name: "Close" }).click();
    await results("quiz").getByText("Items by models").click();
  });

  it("does not evaluate again what has a result", async () => {
    await evaluateOn("quiz.yaml");
    await page.getByText("not run again: base, recipe mine").waitFor();
    await page.getByText("Folders and command").click();
    const command = await page.locator(".command").innerText();
    expect(command).toContain(`compare ${["base", "mine"].map((name) => folderOf("quiz", name)).join(" ")}`);
    expect(readdirSync(at("project", "evaluations"))).toHaveLength(2);
  });

  it("says which model vanished while another was evaluated, and keeps that one's result", {
    timeout: 120_000,
  }, async () => {
    await unfoldForm(page);
    await page.getByLabel("limit", { exact: true }).fill("");
    await evaluateOn("many.yaml");
    await page.getByText(/many, [1-9]\d*%/).waitFor();
    renameSync(at("world", "swahili-expert"), at("moved"));
    const said = page.locator(".notice.problem .lines").first();
    await said.waitFor({ timeout: 100_000 });
    const expert = at("world", "swahili-expert");
    expect(await said.innerText()).toMatch(
      new RegExp(`^recipe mine: [^\\n]*${expert}[^\\n]*\\nThe results of base are kept\\.$`),
    );
    expect(folderOf("many", "mine")).toBe("evaluations");
    await results("many").getByRole("row", { name: "base" }).waitFor();
    renameSync(at("moved"), expert);
  });

  it("survives a reload, is cancelled, and resumes where it was", { timeout: 120_000 }, async () => {
    await evaluateOn("many.yaml");
    await page.getByText(/many, [1-9]\d*%/).waitFor();
    await page.reload();
    const bar = page.getByRole("progressbar", { name: "on many.yaml" });
    await bar.waitFor();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Answers so far are kept.").waitFor();
    // Where the base was through, the recipe may not have begun.
    const isBaseDone = existsSync(join(at("project"), folderOf("many", "base"), "results.json"));
    await page.getByRole("button", { name: "Resume" }).click();
    await results("many").getByRole("row", { name: "recipe mine" }).waitFor({ timeout: 100_000 });
    const records = ["base", "mine"].map((model) => {
      const file = join(at("project"), folderOf("many", model), "run.json");
      return (JSON.parse(readFileSync(file, "utf8")) as { kept: number }).kept;
    });
    expect(isBaseDone || Math.max(...records) > 0).toBe(true);
  });

  it("shows thousands of items by pages", async () => {
    await results("many").getByRole("button", { name: "Compare item by item" }).click();
    await page.getByRole("button", { name: `All ${MANY}` }).click();
    await page.getByText(`Items 1 to 20 of ${MANY}`).waitFor();
    await page.getByRole("button", { name: "Next" }).focus();
    await page.keyboard.press("Enter");
    await expect.poll(async () => (await idsShown())[0]).toBe("item 20");
    expect(await page.locator(".items > li").count()).toBe(20);
  });

  it("shows markup of items and answers as text", async () => {
    await unfoldForm(page);
    for (const name of ["math-expert", "swahili-expert"]) await page.getByRole("checkbox", { name }).uncheck();
    await evaluateOn("markup.yaml");
    await results("markup").getByRole("row", { name: "recipe mine" }).waitFor();
    // Results by strangers.
    const file = at("project", folderOf("markup", "mine"), "samples-markup.jsonl");
    const samples = readFileSync(file, "utf8").replace(/"output":"[^"]*"/g, `"output":${JSON.stringify(MARKUP)}`);
    writeFileSync(file, samples);
    await results("markup").getByRole("button", { name: "Compare item by item" }).click();
    const item = results("markup").locator(".items > li").first();
    await item.waitFor();
    expect(await item.locator("h3").innerText()).toContain(MARKUP);
    const texts = await item.locator("dd").allInnerTexts();
    expect([texts[0], texts[1], texts[3]]).toEqual([MARKUP, MARKUP, MARKUP]);
    expect(await page.locator("main img").count()).toBe(0);
    expect(await page.evaluate("window.isHurt")).toBeUndefined();
  });

  it("says what is wrong with a task file", async () => {
    await unfoldForm(page);
    await page.getByLabel("Task", { exact: true }).selectOption("broken.yaml");
    await page
      .getByText(/broken\.yaml.*gold/s)
      .first()
      .waitFor();
    expect(await page.getByRole("button", { name: /^Evaluate 2 models/ }).isDisabled()).toBe(true);
    await page.getByLabel("Task", { exact: true }).selectOption("quiz.yaml");
  });

  it.each(["light", "dark"] as const)("has no serious accessibility violation, %s", async (colorScheme) => {
    await page.emulateMedia({ colorScheme });
    for (const width of [1400, 400]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await seriousViolations(page)).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    }
  });

  it("has shown no error", () => {
    expect(bugs).toEqual([]);
  });
});
