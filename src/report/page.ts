// Pages that need no network: an HTML template of assets/ with its data inside.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

/** Puts data, which must be plain JSON, into a template of the package's imports, such as `#analysis-page`. */
export async function pageWithData(template: string, data: unknown): Promise<string> {
  const text = await readFile(createRequire(import.meta.url).resolve(template), "utf8");
  // Inside a script element only "<" could end the data early; JSON allows it to be written as an escape.
  const json = JSON.stringify(data).replaceAll("<", "\\u003c");
  return text.replace('"__DATA__"', () => json);
}
