// Runs the script of assets/report.html on a page's data.
import { runInNewContext } from "node:vm";
import type { Page } from "../../src/figures/figures.js";
import { reportPage } from "../../src/figures/page.js";

/** The markup that the page's script makes. */
export async function drawnPage(page: Page): Promise<string> {
  const text = await reportPage(page);
  const [data = "", script = ""] = [...text.matchAll(/<script[^>]*>(.*?)<\/script>/gs)].map(([, content]) => content);
  const body = { innerHTML: "" };
  runInNewContext(script, { document: { body, title: "", getElementById: () => ({ textContent: data }) } });
  return String(body.innerHTML);
}
