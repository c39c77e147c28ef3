// The types of the package name only packages that every installation has.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { expect, it } from "vitest";

const root = resolve(import.meta.dirname, "..");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  exports: Record<string, string | { types: string }>;
  dependencies: Record<string, string>;
};

/** What the declarations that an entry reaches import: packages, and who names them. */
function packagesOf(entry: string): Map<string, string> {
  const packages = new Map<string, string>();
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [, from = ""] of readFileSync(file, "utf8").matchAll(/(?:from |import\(|^import )"([^"]+)"/gm)) {
      if (from.startsWith(".")) visit(resolve(dirname(file), from.replace(/\.js$/, ".d.ts")));
      else if (!from.startsWith("node:"))
        packages.set(
          from
            .split("/")
            .slice(0, from[0] === "@" ? 2 : 1)
            .join("/"),
          file,
        );
    }
  };
  visit(entry);
  expect(seen.size).toBeGreaterThan(1);
  return packages;
}

const entries = Object.values(manifest.exports).flatMap((one) => (typeof one === "string" ? [] : [one.types]));

it.each(entries)("%s names dependencies alone, none of them optional", (types) => {
  const file = join(root, types);
  expect(existsSync(file)).toBe(true);
  const missing = [...packagesOf(file)].filter(([name]) => !Object.hasOwn(manifest.dependencies, name));
  expect(missing).toEqual([]);
});
