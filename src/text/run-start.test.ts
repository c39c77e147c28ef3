import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../test/support/checkpoints.js";
import { keepStart } from "./run-start.js";

const file = join(temporaryFolder(), "run.json");
const [first, later] = [new Date(2026, 0, 31, 23, 30, 5), new Date(2026, 1, 3)];

it("the start of a run is kept as a wall clock showed it, whatever else the file has", async () => {
  expect(await keepStart(file, first)).toEqual(first);
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ started: "2026-01-31T23:30:05" });
  expect(await keepStart(file, later)).toEqual(first);
  writeFileSync(file, JSON.stringify({ started: "2026-01-31T23:30:05", seconds: 3 }));
  expect(await keepStart(file, later)).toEqual(first);
  expect(readFileSync(file, "utf8")).toContain("seconds");
});

it.each(['{"started": 3}', '{"started": "soon"}', "{", "[]"])("a file with %s gets another start", async (text) => {
  writeFileSync(file, text);
  expect(await keepStart(file, later)).toEqual(later);
  expect(await keepStart(file, first)).toEqual(later);
});
