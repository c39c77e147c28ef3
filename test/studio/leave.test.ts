// The studio's views Try and Write, driven in a browser: answers and bytes are those of the library.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { exportModel, openModel, planMerge } from "../../src/index.js";
import { formatBytes } from "../../src/kit/printing/index.js";
import { type Studio, startStudio } from "../../src/studio/index.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { writeByteModel, writeWordLevelModel } from "../support/byte-model.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { FakeHub } from "../support/fake-hub.js";
import { openPage, takePicture } from "../support/studio-page.js";
import { writeProjectOfWorld } from "../support/studio-project.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const QUESTION = "Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa?";

describeInBrowser("leaving with a result", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];
  const open = async () => {
    studio = await startStudio({ folder: at("project"), port: 0, onBug: (error) => bugs.push(error) });
  };

  beforeAll(async () => {
    await writeProjectOfWorld(root);
    await open();
    ({ browser, page } = await openPage(studio.url, bugs));
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  const picture = (name: string) => takePicture(page, name);
  const filesOf = (folder: string) =>
    Object.fromEntries(
      readdirSync(folder)
        .filter((name) => name !== "layergraft.json")
        .map((name) => [
          name,
          createHash("sha256")
            .update(readFileSync(join(folder, name)))
            .digest("hex"),
        ]),
    );

  it("answers a prompt with the base, the experts and the recipe", async () => {
    await page.getByRole("link", { name: "Try" }).click();
    await page.getByLabel("Prompt", { exact: true }).fill(QUESTION);
    await page.getByText("Sampling").click();
    await page.getByLabel("maxNewTokens").fill("12");
    await page.getByRole("button", { name: "Ask 4 models" }).click();
    await page.getByText("are marked").waitFor();
    const sources = {
      base: at("world", "base"),
      "math-expert": at("world", "math-expert"),
      "recipe mine": at("project", "recipes", "mine.yaml"),
    };
    for (const [name, source] of Object.entries(sources)) {
      const model = await openModel(source);
      const { text } = await model.generate([{ role: "user", content: QUESTION }], { maxNewTokens: 12 });
      await model.close();
      expect(await page.getByRole("article", { name }).locator(".answer").innerText()).toBe(text.trimStart());
      expect([name, text.trim() === "9 - 7 = 2."]).toEqual([name, name === "recipe mine"]);
    }
    await picture("try");
    await page.reload();
    await page.getByText("are marked").waitFor();
    expect(await page.getByLabel("Earlier prompts").locator("option").allInnerTexts()).toContain(QUESTION);
    expect(await seriousViolations(page)).toEqual([]);
  });

  it("writes the model that the command line writes", async () => {
    await page.getByRole("link", { name: "Write" }).click();
    await picture("write");
    const way = page.getByRole("article", { name: "Merged model" });
    await way.getByRole("button", { name: "Write the model" }).click();
    await way.getByText("Written in").waitFor();
    mkdirSync(at("by-library"));
    const plan = await planMerge(at("project", "recipes", "mine.yaml"));
    await plan.write({ out: at("by-library", "mine") });
    expect(filesOf(at("project", "models", "mine"))).toEqual(filesOf(at("by-library", "mine")));
    await way.getByRole("button", { name: "Write the model" }).click();
    await way.getByText("There is already one at this place.").waitFor();
    await way.getByRole("button", { name: "Replace what is there" }).click();
    await way.getByText("Written in").waitFor();
    expect(await seriousViolations(page)).toEqual([]);
  });

  it("exports the file that the command line exports, and says why if it cannot", async () => {
    const way = page.getByRole("article", { name: "GGUF file" });
    const openSoup = async (name: string, write: (folder: string, seed: number) => Promise<string>) => {
      const models = [await write(at(`${name}-1`), 1), await write(at(`${name}-2`), 2)];
      writeFileSync(at("project", "recipes", `${name}.yaml`), `method: soup\nmodels: [${models}]\n`);
      await page.reload();
      await page.getByRole("link", { name: "Recipe" }).click();
      await page.getByLabel("Open a recipe").selectOption(name);
      await page.getByRole("gridcell", { name: `Layer 2 of ${models[0]}:` }).waitFor();
      await page.getByRole("link", { name: "Write" }).click();
    };
    await openSoup("words", writeWordLevelModel);
    await way.getByText(/its tokenizer is a WordLevel/).waitFor();
    expect(await way.getByRole("button", { name: "Export" }).isDisabled()).toBe(true);
    await openSoup("bytes", writeByteModel);
    await way.getByRole("button", { name: "Export" }).click();
    await way.getByText("Written in").waitFor();
    const written = { source: at("project", "recipes", "bytes.yaml"), out: at("bytes.gguf"), type: "q4_k_m" } as const;
    const { bytes, notes } = await exportModel(written);
    expect(notes.join()).toMatch(/blocks/);
    expect(await way.locator(".notice").innerText()).toBe(notes.join("\n"));
    await way.getByText(`: ${formatBytes(bytes)}.`).waitFor();
    await way.getByText("llama-server -m models/bytes.gguf").waitFor();
    expect(readFileSync(at("project", "models", "bytes.gguf"))).toEqual(readFileSync(at("bytes.gguf")));
    await page.getByRole("link", { name: "Recipe" }).click();
    await page.getByLabel("Open a recipe").selectOption("mine");
    await page.getByRole("gridcell", { name: "Layer 5 of swahili-expert:" }).waitFor();
    await page.getByRole("link", { name: "Write" }).click();
  });

  it("pushes the written model, and says why if it cannot", async () => {
    const hub = await FakeHub.start();
    const hf = { HF_ENDPOINT: hub.endpoint, HF_HOME: at("hf"), HF_HUB_CACHE: "", HF_HUB_OFFLINE: "0" };
    for (const [variable, value] of Object.entries(hf)) vi.stubEnv(variable, value);
    const way = page.getByRole("article", { name: "Hub" });
    await way.getByLabel("name (required)").fill("org/mine");
    vi.stubEnv("HF_TOKEN", "hf_wrong");
    await way.getByRole("button", { name: "Push" }).click();
    expect(await way.locator(".notice.problem").innerText()).toMatch(/token/);
    expect(await way.innerText()).not.toContain("hf_wrong");
    vi.stubEnv("HF_TOKEN", hub.token);
    await way.getByRole("button", { name: "Push" }).click();
    await way.getByText("Pushed to org/mine in").waitFor();
    await way.getByText("clients of OpenAI reach it at http://127.0.0.1:8000/v1").waitFor();
    await way.getByText("layergraft serve org/mine").waitFor();
    const link = way.getByRole("link", { name: "Open it on the hub" });
    expect(await link.getAttribute("href")).toBe(`${hub.endpoint}/org/mine`);
    const { commits, refs } = hub.repositories.get("org/mine") ?? { commits: new Map(), refs: new Map() };
    const pushed: ReadonlyMap<string, { content: Buffer }> = commits.get(refs.get("main") ?? "") ?? new Map();
    for (const name of Object.keys(filesOf(at("project", "models", "mine")))) {
      expect(pushed.get(name)?.content, name).toEqual(readFileSync(at("project", "models", "mine", name)));
    }
    vi.unstubAllEnvs();
  });

  it("makes an experiment of the recipe, and replaces it when told to", async () => {
    const way = page.getByRole("article", { name: "Experiment" });
    await way.getByLabel("Task").selectOption("Another task or file");
    await way.getByLabel("Name or file").fill("mgms_sw");
    await way.getByRole("button", { name: "Make the plan" }).click();
    await page.getByText("unknown task mgms_sw").waitFor();
    await page.getByRole("button", { name: "Dismiss" }).click();
    expect(existsSync(at("project", "mine.plan.yaml"))).toBe(false);
    await way.getByLabel("Name or file").fill(at("world", "quiz.yaml"));
    await way.getByRole("button", { name: "Make the plan" }).click();
    await way.getByText("Wrote the plan.").waitFor();
    const plan = readFileSync(at("project", "mine.plan.yaml"), "utf8");
    expect(plan).toContain("task: math-expert\n      language: swahili-expert");
    await way.getByRole("button", { name: "Make the plan" }).click();
    await way.getByText("There is already a plan at this place.").waitFor();
    writeFileSync(at("project", "mine.plan.yaml"), "of another");
    await way.getByRole("button", { name: "Replace what is there" }).click();
    await way.getByText("Wrote the plan.").waitFor();
    expect(readFileSync(at("project", "mine.plan.yaml"), "utf8")).toBe(plan);
  });

  it("offers nothing that was made of an earlier recipe, and makes nothing of one that is not valid", async () => {
    const file = at("project", "recipes", "mine.yaml");
    const before = readFileSync(file, "utf8");
    const ways = ["Merged model", "GGUF file", "Hub", "Experiment", "Page to share"];
    const way = (name: string) => page.getByRole("article", { name, exact: true });
    const state = async () => ({
      closed: await Promise.all(ways.map((name) => way(name).locator("[type=submit]").isDisabled())),
      late: await Promise.all(ways.map((name) => way(name).getByText("of an earlier version").count())),
      follows: await page.getByRole("button", { name: "Add as a model" }).count(),
      runs: await page.getByRole("button", { name: "Run and watch it" }).count(),
      shared: await page.getByRole("link", { name: "Open the page" }).count(),
    });
    await way("Page to share").getByRole("button", { name: "Write the page" }).click();
    await page.getByRole("link", { name: "Open the page" }).waitFor();
    await page.getByRole("button", { name: "Write the page" }).click();
    await way("Page to share").getByText("There is already a page at this place.").waitFor();
    await way("Page to share").getByRole("button", { name: "Replace what is there" }).click();
    await page.getByRole("link", { name: "Open the page" }).waitFor();
    const current = { closed: Array(5).fill(false), late: Array(5).fill(0), follows: 1, runs: 1, shared: 1 };
    await expect.poll(state).toEqual(current);
    const changed = {
      closed: [false, false, true, false, false],
      late: [1, 0, 1, 1, 1],
      follows: 0,
      runs: 0,
      shared: 0,
    };
    writeFileSync(file, `${before}bottom: 1\ntop: 0\n`);
    await expect.poll(state).toEqual(changed);
    await picture("write-earlier");
    writeFileSync(file, "method: [");
    await expect.poll(state).toEqual({ ...changed, closed: Array(5).fill(true), late: [1, 0, 0, 1, 1] });
    expect(await page.getByText("Fix the recipe first.").count()).toBe(5);
    await picture("write-invalid");
    expect(await seriousViolations(page)).toEqual([]);
    // A comment makes the same model.
    writeFileSync(file, `# mine\n${before}`);
    await expect.poll(state).toEqual(current);
    writeFileSync(file, before);
  });

  it("ends an error with its cause", async () => {
    const recipe = () => readFileSync(at("project", "recipes", "mine.yaml"), "utf8");
    const before = recipe();
    const way = page.getByRole("article", { name: "Experiment" });
    await way.getByLabel("Name or file").fill("mgms_sw");
    await way.getByRole("button", { name: "Make the plan" }).click();
    const error = page.getByText("unknown task mgms_sw");
    await error.waitFor();
    await page.getByRole("link", { name: "Recipe" }).click();
    await error.waitFor();
    await page.getByRole("gridcell", { name: "Layer 5 of swahili-expert:" }).click();
    await error.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Undo" }).click();
    // Saved, so that another tab reads it.
    await expect.poll(recipe).toBe(before);
    await page.getByRole("link", { name: "Write" }).click();
  });

  it("keeps two tabs in step", async () => {
    const other = await page.context().newPage();
    await other.goto(studio.url);
    await other.getByRole("link", { name: "Recipe" }).click();
    await page.getByRole("link", { name: "Recipe" }).click();
    await other.getByRole("gridcell", { name: "Layer 5 of swahili-expert:" }).click();
    await expect
      .poll(() => page.getByRole("gridcell", { name: "Layer 5 of swahili-expert:" }).getAttribute("aria-selected"))
      .toBe("true");
    await other.close();
  });

  it("goes on when the server is killed and started again", async () => {
    const port = new URL(studio.url).port;
    await studio.close();
    await page.getByText("The server does not answer").waitFor();
    studio = await startStudio({ folder: at("project"), port: Number(port), onBug: (error) => bugs.push(error) });
    await page.getByText("The server does not answer").waitFor({ state: "detached" });
    await page.getByRole("link", { name: "Activity" }).click();
    await page.getByText("Merge mine").first().waitFor();
    await picture("activity");
    expect(bugs).toEqual([]);
  });

  it("is read on a phone", async () => {
    await page.setViewportSize({ width: 400, height: 800 });
    for (const view of ["Try", "Write", "Activity"]) {
      await page.getByRole("link", { name: view }).click();
      await picture(`phone-${view}`);
      expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    }
  });
});
