// The public exports are those that test/fixtures/exports.txt records, and licenses of dependencies are on a list.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import manifest from "../package.json" with { type: "json" };

const ROOT = join(import.meta.dirname, "..");
const RECORD = join(ROOT, "test/fixtures/exports.txt");
/** Licenses under which what layergraft installs may be used and passed on with it. */
const LICENSES = ["MIT", "ISC", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "(MIT OR CC0-1.0)"];

test("the values that the package exports are recorded (vitest -u writes the record)", async () => {
  const entries = Object.entries(manifest.exports).flatMap(([path, target]) =>
    typeof target === "string" ? [] : [[path, target.default] as const],
  );
  const lines: string[] = [];
  for (const [path, file] of entries) {
    lines.push(
      path,
      ...Object.keys(await import(join(ROOT, file)))
        .sort()
        .map((name) => `  ${name}`),
    );
  }
  await expect(`${lines.join("\n")}\n`).toMatchFileSnapshot(RECORD);
});

test("every installed dependency has a license of the list", () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    packages: Record<string, { dev?: boolean; link?: boolean; license?: string }>;
  };
  const installed = Object.entries(packages).filter(
    ([path, { dev, link }]) => path.startsWith("node_modules/") && !dev && !link,
  );
  expect(installed.length).toBeGreaterThan(20);
  const licenseOf = (path: string, locked?: string) => {
    const file = join(ROOT, path, "package.json");
    return (
      locked ??
      (existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as { license?: string }).license : undefined)
    );
  };
  const others = installed.flatMap(([path, { license }]) => {
    const found = licenseOf(path, license) ?? "none";
    return LICENSES.includes(found) ? [] : [`${path}: ${found}`];
  });
  expect(others).toEqual([]);
});
