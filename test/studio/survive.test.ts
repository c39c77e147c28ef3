// The studio while work runs: pages that are loaded again, work that is cancelled, and a server that is killed.
import { mkdirSync, readdirSync, readFileSync, renameSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { planMerge } from "../../src/index.js";
import { describeInBrowser } from "../support/browser.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";
import { preload, type RunOptions, slow, snapshot, start } from "../support/command.js";
import { openPage } from "../support/studio-page.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const options: RunOptions = { cwd: root };
/** Two models of 40 layers have some hundred tensors each. */
const SLOW = preload(slow("readSync", 8), options);

describeInBrowser("the studio while work runs", () => {
  let server: ReturnType<typeof start>;
  let port = 0;
  let address = "";
  let browser: Browser;
  let page: Page;
  const bugs: unknown[] = [];

  /** Starts the studio as a process of its own, and tells the address of its page. */
  const serve = (how: RunOptions): Promise<string> => {
    server = start(["studio", "project", "--port", String(port), "--no-open", "--json"], how);
    return new Promise((resolve, reject) => {
      server.child.stdout?.once("data", (line: string) => resolve((JSON.parse(line) as { url: string }).url));
      server.ended.then(({ stderr }) => reject(new Error(stderr)), reject);
    });
  };
  const kill = async () => {
    server.child.kill("SIGKILL");
    await server.ended;
  };

  beforeAll(async () => {
    for (const [i, name] of ["base", "math", "swahili"].entries()) {
      await writeTiny(at(name), { seed: i + 1, layers: 40 });
    }
    const experts = ["math", "swahili"].map((name) => ({ name, source: at(name) }));
    const settings = { base: at("base"), experts, recipe: "mine", prompts: [] };
    mkdirSync(at("project", "recipes"), { recursive: true });
    writeFileSync(at("project", "studio.json"), JSON.stringify({ revision: 1, settings }));
    writeFileSync(at("project", "recipes", "mine.yaml"), `method: soup\nmodels: [${at("math")}, ${at("swahili")}]\n`);
    address = await serve(SLOW);
    port = Number(new URL(address).port);
    ({ browser, page } = await openPage(address, bugs));
  });

  afterAll(async () => {
    await browser?.close();
    await kill();
    expect(bugs).toEqual([]);
  });

  const shareDone = async () => Number(await page.getByRole("progressbar").first().getAttribute("value"));
  const isUnderWay = () => expect.poll(shareDone, { timeout: 30_000 }).toBeGreaterThan(0);

  it("says what an address without the key lacks, and takes the printed one in the same tab", async () => {
    const other = await (await browser.newContext()).newPage();
    await other.goto(new URL("/", page.url()).href);
    await other.getByText("This address lacks the project's key.").waitFor();
    await other.goto(address);
    await other.getByRole("article", { name: "math", exact: true }).waitFor();
    await other.close();
  });

  it("finds a measurement again that runs, and cancels it", async () => {
    await page.getByRole("link", { name: "Changes" }).click();
    await page.getByRole("button", { name: "Measure changes" }).click();
    await isUnderWay();
    const before = await shareDone();
    await page.reload();
    await expect.poll(shareDone, { timeout: 30_000 }).toBeGreaterThanOrEqual(before);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("Cancelled.", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Measure changes" }).waitFor();
  });

  it("says in a sentence which model vanished from under a measurement or a merge, and leaves nothing whole", async () => {
    const gone = new RegExp(`^${at("math")}[^\n]* (gone|changed|does not exist)[^\n]*$`);
    const vanish = async () => {
      await isUnderWay();
      renameSync(at("math"), at("moved"));
      const said = page.locator(".notice.problem").first();
      await said.waitFor({ timeout: 30_000 });
      expect(await said.locator(".lines").innerText()).toMatch(gone);
      renameSync(at("moved"), at("math"));
    };
    await page.getByRole("link", { name: "Changes" }).click();
    await page.getByRole("button", { name: "Measure changes" }).click();
    await vanish();
    await page.getByRole("link", { name: "Write" }).click();
    await page.getByRole("button", { name: "Write the model" }).click();
    await vanish();
    expect(readdirSync(at("project", "models"))).toEqual([]);
    // The page looks at its models again when a person comes back to it.
    await page.getByRole("link", { name: "Models" }).click();
    const known = page.getByRole("article", { name: "math", exact: true }).getByText("Layers");
    const lookAgain = async () => {
      await page.evaluate("dispatchEvent(new Event('focus'))");
      return known.count();
    };
    await expect.poll(lookAgain, { timeout: 30_000, interval: 500 }).toBe(1);
  });

  it("finds a merge again that runs, and resumes it after kill -9 to the same bytes", async () => {
    await page.getByRole("link", { name: "Write" }).click();
    const way = page.getByRole("article", { name: "Merged model" });
    await way.getByRole("button", { name: "Resume" }).click();
    await isUnderWay();
    await page.reload();
    await isUnderWay();
    // The journal is written every second.
    await expect.poll(() => readdirSync(at("project", "models", "mine.partial"))).toContain(".layergraft-run.json");
    await kill();
    expect(readdirSync(at("project", "models"))).toEqual(["mine.partial"]);
    await page.getByText("The server does not answer").waitFor();
    await serve(options);
    await page.getByText("The server does not answer").waitFor({ state: "detached" });
    await way.getByText("Interrupted when the studio ended.").waitFor();
    await way.getByRole("button", { name: "Resume" }).click();
    await way.getByText("Written in").waitFor();
    mkdirSync(at("by-library"));
    await (await planMerge(at("project", "recipes", "mine.yaml"))).write({ out: at("by-library", "mine") });
    const { "layergraft.json": _, ...written } = snapshot(at("project", "models", "mine"));
    expect(snapshot(at("by-library", "mine"))).toMatchObject(written);
  });

  it("shows a model whose configuration claims 10,000 layers, and goes on", async () => {
    await writeTiny(at("deep"), { seed: 9 });
    const config = JSON.parse(readFileSync(at("deep", "config.json"), "utf8")) as object;
    writeFileSync(at("deep", "config.json"), JSON.stringify({ ...config, num_hidden_layers: 10_000 }));
    await page.getByRole("link", { name: "Models" }).click();
    await page.getByRole("button", { name: "Add an expert" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Folder, FOLDER+ADAPTER").fill(root);
    await dialog.getByRole("button", { name: "Open", exact: true }).click();
    await dialog.getByRole("button", { name: "Add deep" }).click();
    await dialog.getByRole("button", { name: "Done" }).click();
    await page.getByRole("article", { name: "deep", exact: true }).waitFor();
    await page.getByRole("link", { name: "Recipe" }).click();
    await page.getByRole("gridcell", { name: "Layer 39 of math:" }).waitFor();
  });

  it("shows recipes of a gigabyte as what they are, and goes on", async () => {
    const file = at("project", "recipes", "huge.yaml");
    writeFileSync(file, "");
    truncateSync(file, 2 ** 30);
    await page.reload();
    await page.getByRole("link", { name: "Recipe" }).click();
    await page.getByRole("gridcell", { name: "Layer 39 of math:" }).waitFor();
  });
});
