// What a command loads before it does anything, which is most of the time that a short one takes.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { OPERATIONS } from "../src/merge/methods/operations.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, MAIN, start } from "./support/command.js";

const HOOK = `import { writeSync } from "node:fs";
export async function load(url, context, next) {
  writeSync(2, url + "\\n");
  return next(url, context);
}`;
const asUrl = (source: string) => `data:text/javascript,${encodeURIComponent(source)}`;
const LISTING = [
  "--import",
  asUrl(`import { register } from "node:module"; register(${JSON.stringify(asUrl(HOOK))});`),
];

const ROOT = join(import.meta.dirname, "..");
const root = temporaryFolder();

/** The modules that a command line loads: packages by their names, files of dist/ by theirs. */
async function loaded(...args: string[]) {
  const { status, stderr } = await start(args, { cwd: root, node: LISTING }).ended;
  expect(status).toBe(DONE);
  const packages = [...stderr.matchAll(/\/node_modules\/((?:@[^/]+\/)?[^/]+)/g)].map(([, name]) => name);
  const files = [...stderr.matchAll(/\/dist\/(?:.*\/)?([^/]+)\.js$/gm)].map(([, name]) => name);
  return { packages: [...new Set(packages)], files };
}

it("the types name only packages that are installed with layergraft", () => {
  const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const types = readdirSync(join(ROOT, "dist"), { recursive: true, encoding: "utf8" })
    // The types of the command line are not exported.
    .filter((file) => file.endsWith(".d.ts") && !file.startsWith("cli/"));
  const named = types.flatMap((file) =>
    [...readFileSync(join(ROOT, "dist", file), "utf8").matchAll(/(?:from |import\()"([^".#][^"]*)"/g)].map(
      ([, name = ""]) => name,
    ),
  );
  const installed = Object.keys({ ...dependencies, ...optionalDependencies });
  const missing = named.filter(
    (name) => !name.startsWith("node:") && !installed.some((one) => name === one || name.startsWith(`${one}/`)),
  );
  expect([...new Set(missing)]).toEqual([]);
});

it("the built command can be executed, also by those who installed it before the last build", () => {
  expect(statSync(MAIN).mode & 0o111).toBe(0o111);
});

it.each(["--help", "--version"])("%s loads no command, no package, and nothing that reads models", async (flag) => {
  const { packages, files } = await loaded(flag);
  expect(packages).toEqual([]);
  expect(files).toContain("command-line");
  expect(files.filter((name) => name?.endsWith("-command"))).toEqual([]);
  for (const chunk of ["zod", "weights", "merge"]) expect(files).not.toContain(chunk);
});

it("the bundle has the parts of zod that layergraft uses, and not the whole that methods of users get", () => {
  const bundled = readFileSync(join(ROOT, "dist/chunks/zod.js"), "utf8");
  expect(bundled).toContain("toJSONSchema");
  expect(bundled).not.toContain("fromJSONSchema");
});

it("swap --dry-run loads neither other commands nor what runs, trains and evaluates models", async () => {
  await writeTiny(`${root}/task`);
  await writeTiny(`${root}/language`);
  const { packages, files } = await loaded("swap", "--task", "task", "--language", "language", "--dry-run");
  expect(packages).toEqual([]);
  expect(files).not.toContain("yaml");
  expect(files.filter((name) => name?.endsWith("-command"))).toEqual(["verb-command"]);
  for (const room of ["engine", "data", "train", "evaluate", "experiment"]) expect(files).not.toContain(room);
});

it.each([
  ["swap", ["merge", "swap"]],
  ["extract", ["extract"]],
  ["train", ["hand-over", "train", "train-preview"]],
])("%s --help loads no other verb, whose schema it would build", async (name, own) => {
  const { files } = await loaded(name, "--help");
  const verbs = files.flatMap((file) => /^verb-(?!command|flags|input|run)(.+)/.exec(file ?? "")?.[1] ?? []);
  expect(verbs.sort()).toEqual(own);
});

it("a thread loads one file, without the schemas of methods", () => {
  const thread = readFileSync(join(ROOT, "dist/merge/worker.js"), "utf8");
  expect(
    [...thread.matchAll(/^import .* from "([^"]+)"/gm)]
      .map(([, name]) => name)
      .filter((name) => !/^node:/.test(name ?? "")),
  ).toEqual([]);
  // Every operation of a method is there, and no line of zod.
  for (const { name } of OPERATIONS) expect(thread).toContain(`"${name}"`);
  expect(thread).not.toContain("Zod");
});
