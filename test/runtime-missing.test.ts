// Where npm has left out onnxruntime-node, the commands that need it report it before they read anything, and no other does.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "./support/checkpoints.js";
import { FAILED, start } from "./support/command.js";

const HOOK = `export async function resolve(name, context, next) {
  if (name !== "onnxruntime-node") return next(name, context);
  throw Object.assign(new Error("Cannot find package"), { code: "ERR_MODULE_NOT_FOUND" });
}`;
const asUrl = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`;
const WITHOUT = [
  "--import",
  asUrl(`import { register } from "node:module"; register(${JSON.stringify(asUrl(HOOK))});`),
];

interface LockedPackage {
  readonly dev?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
}

const ROOT = join(import.meta.dirname, "..");
const readJson = (name: string): unknown => JSON.parse(readFileSync(join(ROOT, name), "utf8"));
const { dependencies } = readJson("package.json") as { dependencies: Record<string, string> };
/** `@scope/name/file` is a file of the package `@scope/name`. */
const packageOf = (name: string) =>
  name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");

test.each([
  ["generate", "none", "--prompt", "x"],
  ["score", "none", "--prompt", "x", "--continuation", "y"],
  [
    "train",
    "--base",
    "none",
    "--out",
    "o",
    "--data",
    "{ source: none, map: { prompt: p, response: r } }",
    "--optimizer.lr",
    "1",
  ],
])("%s", async (...args) => {
  const { status, stderr } = await start(args, { cwd: temporaryFolder(), node: WITHOUT }).ended;
  expect(stderr).toBe(
    `error: running models needs ONNX Runtime; add it with: npm install --prefix ${ROOT} --ignore-scripts onnxruntime-node@1.30\n`,
  );
  expect(status).toBe(FAILED);
});

test("no built file imports an optional package before it is needed", () => {
  const files = readdirSync(join(ROOT, "dist"), { recursive: true, encoding: "utf8" }).filter(
    // What Vite writes for the browser has no packages.
    (file) => file.endsWith(".js") && !file.startsWith("studio/page/"),
  );
  const imported = files.flatMap((file) =>
    [...readFileSync(join(ROOT, "dist", file), "utf8").matchAll(/^(?:import|export)\b[^;]*?"([^".#][^"]*)";$/gm)].map(
      ([, name = ""]) => name,
    ),
  );
  const packages = new Set(imported.filter((name) => !name.startsWith("node:")).map(packageOf));
  expect(packages).toContain("tinyqueue"); // the pattern finds them
  expect([...packages].filter((name) => !(name in dependencies))).toEqual([]);
});

test("no required package has parts for some platforms only, which --omit=optional leaves out", () => {
  const { packages } = readJson("package-lock.json") as { packages: Record<string, LockedPackage> };
  const native = Object.entries(packages).filter(([, { dev, os, cpu }]) => !dev && (os || cpu));
  expect(native.map(([path]) => path)).toEqual(["node_modules/onnxruntime-node"]);
});
