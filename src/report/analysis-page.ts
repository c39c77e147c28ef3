// The interactive page of an analysis: one HTML file with its data inside, which needs no network.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

/** Puts data, which must be plain JSON, into the page. */
export async function analysisPage(data: unknown): Promise<string> {
  const template = await readFile(createRequire(import.meta.url).resolve("#analysis-page"), "utf8");
  // Inside a script element only "<" could end the data early; JSON allows it to be written as an escape.
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  return template.replace('"__DATA__"', () => json);
}
