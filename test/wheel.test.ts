// The wheel, installed as the README says in an environment without Node.js on its PATH; and what docs/use-from-python.md shows.
// LAYERGRAFT_PYTHON names a Python 3.10 or newer that can install from its registry.
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { temporaryFolder } from "./support/checkpoints.js";

const ROOT = join(import.meta.dirname, "..");
const python = process.env.LAYERGRAFT_PYTHON;
const MISSING = "LAYERGRAFT_PYTHON does not name a Python that can install wheels";
const PYTHON = { tags: ["python"], timeout: 300_000 };

const root = temporaryFolder();
const bin = join(root, "venv", process.platform === "win32" ? "Scripts" : "bin");
/** No Node.js of this machine: the wheel brings its own. */
const env = {
  ...process.env,
  PATH: [bin, "/usr/bin-without-node", "/bin-without-node"].join(":"),
  PYTHONDONTWRITEBYTECODE: "1",
};

const run = (program: string, args: readonly string[], cwd = root) =>
  promisify(execFile)(program, args, { cwd, env: program.startsWith(bin) ? env : process.env, maxBuffer: 1 << 24 });

beforeAll(async () => {
  if (!python) return;
  await run(process.execPath, [join(ROOT, "python/build.js"), "--out", join(root, "wheels"), "--engine"], ROOT);
  await run(python, ["-m", "venv", join(root, "venv")]);
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  const wheels = ["--find-links", join(root, "wheels"), `layergraft[engine]==${version}`, "mypy", "tqdm"];
  await run(join(bin, "python"), ["-m", "pip", "install", "--quiet", ...wheels]);
  await run(join(bin, "layergraft"), ["example"]);
  mkdirSync(join(root, "notebook"));
}, 600_000);

const blocks = (page: string, language: string) =>
  [
    ...readFileSync(join(ROOT, page), "utf8").matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm")),
  ].map(([, text = ""]) => text);

test("the command line starts without Node.js on the PATH", PYTHON, async (context) => {
  if (!python) return context.skip(MISSING);
  const { stdout } = await run(join(bin, "layergraft"), ["--version"]);
  expect(stdout.trim()).toBe(JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).version);
  const { stdout: found } = await run(join(bin, "layergraft"), ["doctor"]);
  expect(found).toContain("what a model needs: layergraft doctor MODEL");
});

test("programs of the guide run as they stand there, and their types are right", PYTHON, async (context) => {
  if (!python) return context.skip(MISSING);
  const programs = ["docs/use-from-python.md", "python/README.md"].flatMap((page) => blocks(page, "python"));
  expect(programs.length).toBeGreaterThan(1);
  for (const [i, text] of programs.entries()) {
    const file = join(root, "example", `program-${i}.py`);
    writeFileSync(file, text);
    await run(join(bin, "mypy"), ["--strict", file], join(root, "example"));
    await run(join(bin, "python"), [file], join(root, "example"));
  }
});

test("the notebook runs from its first cell to its last", PYTHON, async (context) => {
  if (!python) return context.skip(MISSING);
  const { cells } = JSON.parse(readFileSync(join(ROOT, "examples/first-hour.ipynb"), "utf8")) as {
    cells: { cell_type: string; source: string[] }[];
  };
  const lines = cells
    .filter(({ cell_type }) => cell_type === "code")
    .flatMap(({ source }) => source.join("").split("\n"));
  // What IPython does beside Python: the packages are installed, and commands run in a shell.
  const plain = lines.flatMap((line) => {
    if (line.startsWith("%pip ")) return [];
    if (line.startsWith("!"))
      return [
        `import subprocess, sys; subprocess.run(${JSON.stringify(line.slice(1))}.replace("python", sys.executable, 1), shell=True, check=True)`,
      ];
    return line.startsWith("%cd ") ? [`import os; os.chdir(${JSON.stringify(line.slice(4))})`] : [line];
  });
  const file = join(root, "notebook.py");
  writeFileSync(file, plain.join("\n"));
  const { stdout } = await run(join(bin, "python"), [file], join(root, "notebook"));
  expect(stdout).toMatch(/math-expert +\d/);
  expect(stdout).toContain("9 - 7 = 2.");
});

test("the module itself is typed", PYTHON, async (context) => {
  if (!python) return context.skip(MISSING);
  const modules = ["layergraft", "layergraft._call", "layergraft._verbs", "layergraft.errors", "layergraft.__main__"];
  await run(join(bin, "mypy"), ["--strict", ...modules.flatMap((name) => ["-m", name])]);
});

test("an interrupt ends the child, and leaves nothing", PYTHON, async (context) => {
  if (!python) return context.skip(MISSING);
  const program = `
import os, signal, threading
import layergraft

def on_progress(progress: layergraft.Progress) -> None:
    os.kill(os.getpid(), signal.SIGINT)

try:
    layergraft.extract(base="base", model="math-expert", out="interrupted", rank=64, on_progress=on_progress)
except KeyboardInterrupt:
    print("interrupted", sorted(name for name in os.listdir() if name.startswith("interrupted")))
`;
  const { stdout } = await run(join(bin, "python"), ["-c", program], join(root, "example"));
  expect(stdout.trim()).toBe("interrupted []");
});

test("arguments are what Python programs have, and a wrong one starts no child", PYTHON, async (context) => {
  if (!python) return context.skip(MISSING);
  const program = `
import pathlib, types
import layergraft

class Number:
    """As NumPy's and PyTorch's."""
    def tolist(self) -> int:
        return 4

merged = layergraft.merge(
    types.MappingProxyType({"method": "soup", "models": (name for name in ["base", "math-expert"])}),
    out=pathlib.Path("typed"),
    folder=pathlib.Path(".").resolve(),
)
print(layergraft.inspect(pathlib.Path(merged.out)).layers)
print(layergraft.extract(base="base", model="math-expert", out="four", rank=Number()).ranks[-1])
layergraft._call.subprocess = None
deep: object = "base"
for _ in range(3000):
    deep = [deep]
for value in [{"base"}, b"base", [float("nan")], deep]:
    try:
        layergraft.soup(models=value, out="never")
    except (TypeError, ValueError, RecursionError) as error:
        print(type(error).__name__)
`;
  const { stdout } = await run(join(bin, "python"), ["-c", program], join(root, "example"));
  expect(stdout.trim().split("\n")).toEqual(["8", "4", "TypeError", "TypeError", "ValueError", "RecursionError"]);
});
