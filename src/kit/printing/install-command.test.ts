import { expect, test } from "vitest";
import { installCommandAt } from "./install-command.js";

test.each([
  ["a global installation", "/usr/lib/node_modules/layergraft", "/home/ana", " --global"],
  ["its project", "/home/ana/project/node_modules/layergraft", "/home/ana/project", ""],
  ["a folder of its project", "/home/ana/project/node_modules/layergraft", "/home/ana/project/data", true],
  ["a clone, in it", "/home/ana/project", "/home/ana/project", ""],
  ["a clone, from elsewhere", "/home/ana/project", "/home/ana", true],
])("what an optional package is added with: %s", (_, root, cwd, where) => {
  const exists = (path: string) => path === "/home/ana/project/package.json";
  const given = where === true ? " --prefix /home/ana/project" : where;
  expect(installCommandAt("node-llama-cpp", { root, cwd, env: {}, exists, isPublished: true })).toBe(
    `npm install${given} --ignore-scripts node-llama-cpp`,
  );
});

const PIP = "/home/ana/venv/lib/python3.12/site-packages/layergraft/_package";

test.each([
  [
    "pip",
    { LAYERGRAFT_PYTHON: "/home/ana/venv/bin/python" },
    "/home/ana/venv/bin/python -m pip install 'layergraft[llama]'",
  ],
  [
    "uvx",
    { LAYERGRAFT_PYTHON: "/home/ana/.cache/uv/archive-v0/1Zh/bin/python", UV: "/usr/bin/uv" },
    "uvx --from 'layergraft[llama]' layergraft",
  ],
])("what an optional package is added with, where layergraft came from Python's registry: %s", (_, env, typed) => {
  const name = "node-llama-cpp@3.22";
  const where = { root: PIP, cwd: "/home/ana", env, exists: () => false };
  expect(installCommandAt(name, { ...where, isPublished: true })).toBe(typed);
  // Until then, a clone makes the wheel that brings it.
  expect(installCommandAt(name, { ...where, isPublished: false })).toBe(
    `npm run wheel -- --llama && ${env.LAYERGRAFT_PYTHON} -m pip install python/dist/*.whl  # in a clone`,
  );
});
