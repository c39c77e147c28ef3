// The documentation site: it builds below any path, its links lead somewhere, and it reads well at every width.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { describeInBrowser, openBrowser, seriousViolations } from "./support/browser.js";
import { temporaryFolder } from "./support/checkpoints.js";

const ROOT = join(import.meta.dirname, "..");
const SITE = join(ROOT, "docs/site");
/** What was built for BASE before. */
const BUILT = process.env.LAYERGRAFT_SITE;
/** Below a path, as on a project page. */
const BASE = "/some/project/";
const TYPES: Record<string, string> = {
  html: "text/html",
  js: "text/javascript",
  css: "text/css",
  svg: "image/svg+xml",
};

const installed = existsSync(join(SITE, "node_modules/vitepress"));
if (!installed) process.stderr.write("NOT TESTED: the documentation site. Run: npm run docs:site\n");

// VitePress and what it needs are not among the packages that npm ci installs at the root.
describe.skipIf(!installed)("the documentation site", { tags: ["slow"] }, () => {
  const folder = BUILT ? join(ROOT, BUILT) : join(temporaryFolder(), "site");
  let files: string[] = [];
  let server: Server;
  let host = "";

  beforeAll(async () => {
    const vitepress = join(SITE, "node_modules/vitepress/bin/vitepress.js");
    const options = { cwd: SITE, env: { ...process.env, SITE_BASE: BASE }, stdio: "pipe" } as const;
    if (!BUILT) execFileSync(process.execPath, [vitepress, "build", "--outDir", folder], options);
    files = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((file) => file.replaceAll("\\", "/"));
    server = createServer(({ url = "" }, response) => {
      const path = decodeURIComponent(new URL(url, "http://site").pathname);
      const file = path.replace(BASE, "").replace(/(^|\/)$/, "$1index.html");
      const found = path.startsWith(BASE) && files.includes(file);
      response.writeHead(found ? 200 : 404, { "content-type": TYPES[file.split(".").at(-1) ?? ""] ?? "" });
      response.end(found ? readFileSync(join(folder, file)) : "");
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    host = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }, 180_000);
  afterAll(() => void server?.close());

  test("has a page for every page of docs, and every link leads to a file and a heading of it", () => {
    const pages = new Map(
      files.filter((file) => file.endsWith(".html")).map((file) => [file, readFileSync(join(folder, file), "utf8")]),
    );
    const markdown = readdirSync(join(ROOT, "docs")).filter((name) => name.endsWith(".md") && name !== "README.md");
    expect(markdown.filter((name) => !pages.has(`docs/${name.replace(".md", ".html")}`))).toEqual([]);
    const dead = [...pages].flatMap(([file, html]) =>
      [...html.matchAll(/ href="([^"]*)"/g)].flatMap(([, href = ""]) => {
        const { origin, pathname, hash } = new URL(href.replaceAll("&amp;", "&"), `http://site${BASE}${file}`);
        if (origin !== "http://site") return [];
        const target = decodeURIComponent(pathname.replace(BASE, "").replace(/(^|\/)$/, "$1index.html"));
        const text = pages.get(target) ?? (files.includes(target) ? "" : undefined);
        const id = decodeURIComponent(hash.slice(1));
        return text !== undefined && (id === "" || text.includes(` id="${id}"`)) ? [] : `${file}: ${href}`;
      }),
    );
    expect(dead).toEqual([]);
  });

  describeInBrowser("in a browser", () => {
    let browser: Browser;
    beforeAll(async () => {
      browser = await openBrowser();
    });
    afterAll(() => browser?.close());

    const PAGES = ["", "docs/quick-start.html", "docs/fields.html"];
    const modes = [360, 768, 1440].flatMap((width) => (["light", "dark"] as const).map((mode) => ({ width, mode })));
    test.each(modes)("at $width px, $mode", async ({ width, mode }) => {
      const page = await browser.newPage({ viewport: { width, height: 800 }, colorScheme: mode });
      const problems: string[] = [];
      page.on("pageerror", ({ message }) => problems.push(message));
      page.on("request", (request) => request.url().startsWith(`${host}${BASE}`) || problems.push(request.url()));
      page.on("response", (answer) => answer.ok() || problems.push(`${answer.status()} ${answer.url()}`));
      for (const path of PAGES) {
        await page.goto(`${host}${BASE}${path}`, { waitUntil: "networkidle" });
        expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
        const dark = await page.evaluate("getComputedStyle(document.body).backgroundColor");
        expect(dark).toBe(mode === "dark" ? "rgb(23, 27, 32)" : "rgb(255, 255, 255)");
        expect({ path, violations: await seriousViolations(page) }).toEqual({ path, violations: [] });
      }
      expect(problems).toEqual([]);
      await page.close();
    });

    test("begins with the demo's result, not with a logo", async () => {
      const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
      await page.goto(`${host}${BASE}`, { waitUntil: "networkidle" });
      const text = await page.locator(".VPHero .text").innerText();
      expect(text).toMatch(
        /^The layer swap solves [\d.]+% of the Swahili word problems, [\d.]+ points above TIES, the best alternative \([\d.]+%; .*\)\.$/,
      );
      // As the demo prints it in the README.
      expect(readFileSync(join(ROOT, "README.md"), "utf8").replaceAll("\n", " ")).toContain(
        `${text} The best average `,
      );
      expect(await page.locator(".VPHero img").count()).toBe(0);
      await page.close();
    });

    test("has a board to play with, in the first screen", async () => {
      const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
      await page.goto(`${host}${BASE}`);
      const cell = page.getByRole("gridcell", { name: "Layer 0 of Swahili expert" });
      const score = page.locator(".living-score");
      const { right, items } = JSON.parse(readFileSync(join(SITE, "swaps.json"), "utf8")) as Record<string, number[]>;
      const shown = (index: number) =>
        `${(100 * (right?.[index] ?? 0)) / Number(items)}% of ${items} Swahili word problems`;
      await expect.poll(() => score.innerText()).toContain(shown(0));
      await cell.click();
      await expect.poll(() => score.innerText()).toContain(shown(1));
      await page.keyboard.press("ArrowUp");
      await page.keyboard.press("Enter");
      await expect.poll(() => score.innerText()).toContain(shown(3));
      expect(await page.locator(".living-command").innerText()).toContain("--bottom 2 --top 0");
      // Layers that are not at an end.
      await page.getByRole("gridcell", { name: "Layer 4 of Swahili expert" }).click();
      await expect.poll(() => score.innerText()).toContain(shown(0b10011));
      expect(await page.locator(".living-command").innerText()).toContain("--layers 0-1,4");
      const box = await page.locator(".living-command").boundingBox();
      expect((box?.y ?? 900) + (box?.height ?? 0)).toBeLessThan(900);
      await page.close();
    });

    test("finds lambda without a server", async () => {
      const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
      await page.goto(`${host}${BASE}`, { waitUntil: "networkidle" });
      await page.click(".DocSearch-Button");
      await page.fill(".search-input", "lambda");
      await page.waitForSelector(".VPLocalSearchBox .result");
      const found = await page.$$eval(".VPLocalSearchBox .result", (all) => all.map((one) => one.getAttribute("href")));
      expect(found.some((href) => href?.startsWith(`${BASE}docs/methods.html`))).toBe(true);
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/docs\//);
      await page.close();
    });
  });
});
