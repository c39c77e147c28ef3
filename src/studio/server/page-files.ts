// The files of the page, which the build makes.
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { LayergraftError } from "../../core/index.js";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

let names: ReadonlyMap<string, string> | undefined;

/** Paths of addresses; a path of a request is only ever looked up, so it cannot leave the folder. */
function filesOfPage(): ReadonlyMap<string, string> {
  if (names) return names;
  const index = createRequire(import.meta.url).resolve("#studio-page");
  const folder = dirname(index);
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((file) => file.replaceAll("\\", "/"));
  names = new Map([...files.map((file): [string, string] => [`/${file}`, join(folder, file)]), ["/", index]]);
  return names;
}

/** Sends a file of the page. @throws LayergraftError code `not-found` */
export async function servePage(pathname: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const file = filesOfPage().get(pathname);
  const type = file && TYPES[extname(file)];
  if (!type || request.method !== "GET") throw new LayergraftError("not-found", "There is no such page.");
  // Names under assets/ change with what is inside.
  const isFixed = pathname.startsWith("/assets/");
  response.setHeader("cache-control", isFixed ? "private, max-age=31536000, immutable" : "no-cache");
  response.setHeader("content-type", type);
  response.end(await readFile(file));
}
