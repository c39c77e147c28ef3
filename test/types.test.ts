// The types of the package name only packages that every installation has, and compile in a strict project without those of browsers.
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { temporaryFolder } from "./support/checkpoints.js";

const root = resolve(import.meta.dirname, "..");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  name: string;
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
  const packages = packagesOf(file);
  expect([...packages].filter(([name]) => !Object.hasOwn(manifest.dependencies, name))).toEqual([]);
  // Its own types compile only with the library of browsers.
  expect(packages.get("@huggingface/hub")).toBeUndefined();
});

it("all entries compile with the library of ES2023 and the types of Node.js alone", { tags: ["slow"] }, async () => {
  const project = temporaryFolder();
  mkdirSync(join(project, "node_modules/@types"), { recursive: true });
  symlinkSync(root, join(project, "node_modules", manifest.name));
  symlinkSync(join(root, "node_modules/@types/node"), join(project, "node_modules/@types/node"));
  const paths = Object.entries(manifest.exports).flatMap(([path, target]) =>
    typeof target === "string" ? [] : [path],
  );
  const imports = paths.map((path, i) => `export * as entry${i} from "${join(manifest.name, path)}";\n`);
  writeFileSync(join(project, "package.json"), '{ "type": "module" }');
  writeFileSync(join(project, "entries.ts"), imports.join(""));
  const compilerOptions = {
    ...{ lib: ["es2023"], types: ["node"], target: "es2023", module: "nodenext" },
    ...{ strict: true, skipLibCheck: false, noEmit: true },
  };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["entries.ts"] }));
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  const problems = await promisify(execFile)(process.execPath, [tsc, "-p", project]).then(
    () => "",
    ({ stdout }: { stdout: string }) => stdout,
  );
  expect(problems).toBe("");
});
