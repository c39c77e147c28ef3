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
  expect(installCommandAt("node-llama-cpp", { root, cwd, exists })).toBe(
    `npm install${given} --ignore-scripts node-llama-cpp`,
  );
});
