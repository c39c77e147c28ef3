// Where npm has dropped onnxruntime-node, the commands that need it say so before they read anything.
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
  expect(stderr).toMatch(
    /^error: running models needs ONNX Runtime, which is not installed: npm install onnxruntime-node@1\.30 --ignore-scripts/,
  );
  expect(status).toBe(FAILED);
});
