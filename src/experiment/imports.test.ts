// Imports between the folders of experiment/ go one way.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

/** Each folder with those that it may import. */
const ALLOWED: Readonly<Record<string, readonly string[]>> = {
  steps: [],
  plan: ["steps"],
  execute: ["steps"],
  run: ["steps", "plan", "execute"],
  report: ["steps", "plan", "run"],
  demo: ["steps", "plan", "run", "report"],
};

it.each(Object.entries(ALLOWED))("%s imports only what stands below it", (folder, allowed) => {
  const files = readdirSync(join(import.meta.dirname, folder), { recursive: true, encoding: "utf8" });
  const sources = files.filter((name) => name.endsWith(".ts") && !/\.test(-util)?\.ts$/.test(name));
  expect(sources.length).toBeGreaterThan(1);
  const found = sources.flatMap((name) => {
    const text = readFileSync(join(import.meta.dirname, folder, name), "utf8");
    return [...text.matchAll(/from "(?:\.\.\/)+(\w+)\//g)].flatMap(([, other = ""]) =>
      other in ALLOWED && other !== folder ? [other] : [],
    );
  });
  expect([...new Set(found)].filter((other) => !allowed.includes(other))).toEqual([]);
});
