// The command that is printed to be typed, however layergraft was started.
import { expect, it } from "vitest";
import { commandName } from "./command-name.js";

const CLONE = "/home/ana/layergraft/dist/cli/main.js";
const LOCAL = "/home/ana/project/node_modules/.bin/layergraft";
const CACHE = "/home/ana/.npm/_npx/6a5f/node_modules/.bin/layergraft";

const WHEEL = "/opt/venv/lib/python3.12/site-packages/layergraft/_package/dist/cli/main.js";

const EXEC = { npm_command: "exec" };

it.each<[string, string, Record<string, string>, string, string, string?]>([
  ["npm install --global, npm link", "/usr/local/bin/layergraft", {}, "/home/ana/models", "layergraft"],
  ["npx, from the registry", CACHE, EXEC, "/home/ana/models", "npx layergraft"],
  ["npx, in a clone", CACHE, EXEC, "/home/ana/layergraft", `node ${CLONE}`, CLONE],
  ["npx, npm install in a project", LOCAL, EXEC, "/home/ana/project/example", "npx layergraft"],
  ["a script of that project", LOCAL, { npm_command: "run" }, "/home/ana/project", "npx layergraft"],
  ["npm install --prefix, from elsewhere", LOCAL, {}, "/home/ana/project-2", LOCAL],
  ["the file of a clone", CLONE, {}, "/home/ana/layergraft", `node ${CLONE}`],
  ["npm run demo in a clone", CLONE, { npm_command: "run-script" }, "/home/ana/layergraft", `node ${CLONE}`],
  ["a clone in a folder with a space", "/a b/dist/cli/main.js", {}, "/", "node '/a b/dist/cli/main.js'"],
  ["a link that is not on the PATH", "/opt/tools/layergraft", {}, "/", "/opt/tools/layergraft"],
  ["npx of another program", "/home/ana/project/node_modules/.bin/tests", EXEC, "/home/ana/project", "layergraft"],
  ["pip, in an active environment", WHEEL, { LAYERGRAFT_PYTHON: "/usr/bin/python3" }, "/", "layergraft"],
  ["pip, by its path", WHEEL, { LAYERGRAFT_PYTHON: "/opt/venv/bin/python" }, "/", "/opt/venv/bin/python -m layergraft"],
  ["uvx", WHEEL, { LAYERGRAFT_PYTHON: "/c/uv/archive-v0/a/bin/python", UV: "/usr/bin/uv" }, "/", "uvx layergraft"],
  ["another program", "/home/ana/project/tests.js", {}, "/home/ana/project", "layergraft"],
])("%s", (_, path, env, cwd, typed, real = path) => {
  // npm puts the folder of a project's commands on the PATH of its scripts, where it is not for what is typed.
  const PATH = "/usr/local/bin:/home/ana/project/node_modules/.bin:/usr/bin";
  expect(commandName({ argv: ["node", path], real, env: { PATH, ...env }, cwd, platform: "linux" })).toBe(typed);
});
