// What `npm pack` would publish: its size, and that it has what runs and no more.
import { execFile } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import manifest from "../package.json" with { type: "json" };

const ROOT = join(import.meta.dirname, "..");
/** Packed, in bytes. */
const LIMIT = 3_450_000;

test("the package takes less than 3.45 MB and has every file that package.json names, and the page of commands", {
  tags: ["slow"],
}, async () => {
  const args = ["pack", "--dry-run", "--json"];
  const { stdout } = await promisify(execFile)("npm", args, { cwd: ROOT, maxBuffer: 1 << 24 });
  const [{ size, files }] = JSON.parse(stdout) as [{ size: number; files: { path: string }[] }];
  expect(size).toBeLessThan(LIMIT);
  const paths = new Set(files.map(({ path }) => path));
  // Of a text in place of a list, npm links no page when it installs for the machine.
  expect(manifest.man).toEqual(["./docs/layergraft.1"]);
  const targets = [
    ...Object.values(manifest.bin),
    ...manifest.man,
    "./docs/commands.md",
    ...Object.values(manifest.imports),
    ...Object.values(manifest.exports).flatMap((one) => (typeof one === "string" ? [one] : Object.values(one))),
  ].map((target) => target.slice("./".length));
  expect(targets.filter((target) => !paths.has(target) || !existsSync(join(ROOT, target)))).toEqual([]);
  expect(
    [...paths].filter((path) => /\.test\.|\.map$|^src\/|^docs\/(?:images|api|site)\/|^docs\/sidebar/.test(path)),
  ).toEqual([]);
});

test("what the sources import by a name of the package is in package.json", () => {
  const sources = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" }).filter((name) =>
    /(?<!\.test)\.tsx?$/.test(name),
  );
  const named = sources.flatMap((name) =>
    [...readFileSync(join(ROOT, "src", name), "utf8").matchAll(/resolve\("(#[^"]+)"\)/g)].map(([, one = ""]) => one),
  );
  expect(named).toContain("#demo");
  expect([...new Set(named)].filter((one) => !Object.hasOwn(manifest.imports, one))).toEqual([]);
});

test("npm run test:slow is given every file with a slow test", () => {
  // A helper that gives the tag is named in the script, as files that call it need not write it.
  const support = join(ROOT, "test/support");
  const helpers = readdirSync(support).filter((name) => readFileSync(join(support, name), "utf8").includes('"slow"'));
  expect(helpers).toEqual(["browser.ts"]);
  expect(manifest.scripts["test:slow"]).toContain('"slow"|module-tag slow|describeInBrowser');
});
