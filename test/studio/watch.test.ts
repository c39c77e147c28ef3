// An experiment from the studio: made, started, watched, killed and resumed in a browser; its scores are the command line's.
import type { ChildProcess } from "node:child_process";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder } from "../support/checkpoints.js";
import { layergraft, start } from "../support/command.js";
import { openPage, takePicture } from "../support/studio-page.js";
import { writeProjectOfWorld } from "../support/studio-project.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

describeInBrowser("watching", () => {
  let browser: Browser;
  let page: Page;
  let server: ChildProcess;
  const bugs: unknown[] = [];

  /** Starts the command in a process that can be killed. @returns the address of the page */
  async function open(port = 0): Promise<string> {
    const args = ["studio", at("project"), "--no-open", "--json", "--port", String(port)];
    const { child } = start(args, { cwd: root });
    server = child;
    const line = await new Promise<string>((resolve, reject) => {
      child.stdout?.once("data", resolve);
      child.once("exit", () => reject(new Error("the studio ended")));
    });
    return (JSON.parse(line) as { url: string }).url;
  }

  beforeAll(async () => {
    await writeProjectOfWorld(root);
    // Long enough to be watched and killed.
    const rows = readFileSync(at("world", "rows.jsonl"), "utf8");
    writeFileSync(at("world", "rows.jsonl"), rows.repeat(2));
    ({ browser, page } = await openPage(await open(), bugs));
  });

  afterAll(async () => {
    await browser?.close();
    server?.kill();
    expect(bugs).toEqual([]);
  });

  const picture = (name: string) => takePicture(page, name);
  const state = () => page.locator(".experiment-state");
  const values = () => page.locator(".score .value");

  it("makes the plan and opens it", async () => {
    await page.getByRole("link", { name: "Write" }).click();
    const way = page.getByRole("article", { name: "Experiment" });
    // Beside the models.
    await way.getByLabel("Task").selectOption("../world/quiz.yaml");
    await way.getByRole("button", { name: "Make the plan" }).click();
    await way.getByText("Wrote the plan.").waitFor();
    const other = JSON.stringify(at("world", "translate.yaml"));
    const plan = readFileSync(at("project", "mine.plan.yaml"), "utf8");
    writeFileSync(at("project", "mine.plan.yaml"), plan.replace(/( +)- .*quiz\.yaml/, `$&\n$1- ${other}`));
    appendFileSync(at("project", "mine.plan.yaml"), "title: <b>Mine</b>\nexecutor: { total_cores: 1 }\n");
    // Run and watch it would run it at once.
    await page.getByRole("link", { name: "Experiments", exact: true }).click();
    await page.getByText("Not begun. It can run.").waitFor();
    expect(await page.getByRole("heading", { level: 2, name: "<b>Mine</b>" }).count()).toBe(1);
    await picture("watch-new");
    expect(await seriousViolations(page)).toEqual([]);
  });

  it("asks before a plan starts programs", async () => {
    const plan = readFileSync(at("project", "mine.plan.yaml"), "utf8");
    const run = page.getByRole("button", { name: "Run", exact: true });
    expect(await run.isEnabled()).toBe(true);
    const serving = plan.replace(/^evaluate:$/m, '$&\n  backend: "serve:<b>serve</b> {model} {port}"');
    writeFileSync(at("project", "mine.plan.yaml"), serving);
    await page.getByText("<b>serve</b> {model} {port}").waitFor();
    expect(await run.isDisabled()).toBe(true);
    await page.getByLabel("I have read them and trust this plan").check();
    expect(await run.isEnabled()).toBe(true);
    await picture("watch-programs");
    expect(await seriousViolations(page)).toEqual([]);
    writeFileSync(at("project", "mine.plan.yaml"), plan);
    await page.getByText("A run starts these programs:").waitFor({ state: "detached" });
  });

  it("shows scores as they arrive, and after a reload", async () => {
    await page.getByRole("button", { name: "Run" }).click();
    await state().getByText("Running in this studio.").waitFor();
    await values().first().waitFor();
    await page.locator(".waits").first().waitFor();
    await page.getByRole("heading", { name: "Running now" }).waitFor();
    await picture("watch-running");
    expect(await seriousViolations(page)).toEqual([]);
    await page.reload();
    await state().getByText("Running in this studio.").waitFor();
    expect(await values().count()).toBeGreaterThan(0);
  });

  it("is right after the server was killed, and resumes", async () => {
    server.kill("SIGKILL");
    await page.getByText("The server does not answer").waitFor();
    const before = await values().count();
    await open(Number(new URL(page.url()).port));
    await page.getByText("The server does not answer").waitFor({ state: "detached" });
    await state().getByText("Stopped. Resume continues").waitFor();
    expect(await values().count()).toBeGreaterThanOrEqual(before);
    await page.getByRole("button", { name: "Resume" }).click();
    await state().getByText("Running in this studio.").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await state().getByText("Stopped. Resume continues").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await state().getByText("Done.", { exact: true }).waitFor({ timeout: 150_000 });
    expect(await page.locator(".waits").count()).toBe(0);
  }, 240_000);

  it("has the scores of the command line", async () => {
    const { stdout, status } = await layergraft(["experiment", at("project", "mine.plan.yaml"), "report", "--json"], {
      cwd: root,
    });
    expect(status).toBe(0);
    const { overviews } = JSON.parse(stdout) as {
      overviews: { bars: { label: string; mean: number; interval?: { low: number; high: number } }[] }[];
    };
    expect(overviews.map(({ bars }) => bars.length)).toEqual([5, 5]);
    const percent = (share: number) => (100 * share).toFixed(1);
    for (const [column, { bars }] of overviews.entries()) {
      for (const { label, mean, interval } of bars) {
        const row = page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: label, exact: false }) });
        const cell = await row.first().getByRole("cell").nth(column).innerText();
        expect([label, cell]).toEqual([label, expect.stringContaining(percent(mean))]);
        if (interval) expect(cell).toContain(`${percent(interval.low)} to ${percent(interval.high)}`);
      }
    }
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const width of [1400, 900, 400]) {
        await page.setViewportSize({ width, height: 900 });
        await picture(`watch-done-${width}-${colorScheme}`);
        expect(await seriousViolations(page)).toEqual([]);
        const isWhole = await page.evaluate("document.documentElement.scrollWidth <= innerWidth");
        expect([width, isWhole]).toEqual([width, true]);
      }
    }
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize({ width: 1400, height: 900 });
  });

  it("opens the report in an origin of its own", async () => {
    const link = page.getByRole("link", { name: "Open the report" });
    const [report] = await Promise.all([page.context().waitForEvent("page"), link.click()]);
    await report.getByRole("heading", { name: "The result" }).waitFor();
    expect(await report.evaluate("origin")).toBe("null");
    await report.close();
  });

  it("opens a row's recipe", async () => {
    await page.getByRole("button", { name: "Open recipe of soup" }).click();
    await page.getByRole("heading", { level: 1, name: "Recipe" }).waitFor();
    await expect.poll(() => page.locator(".cm-content").innerText()).toContain("method: soup");
    expect(readFileSync(at("project", "recipes", "soup.yaml"), "utf8")).toContain(at("world", "math-expert"));
  });
});
