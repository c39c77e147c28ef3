import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { readResult, type StepResult, setResultAside, writeResult } from "./result.js";
import { kindOf, stepKey } from "./step.js";
import { readAttempt } from "./step-state.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-result-"));
afterAll(() => rmSync(root, { recursive: true }));

const SCORED: StepResult = {
  ...{ kind: "evaluate", score: 0.5, unscored: 1 },
  items: [
    { index: 3, id: "a", value: 0.5 },
    { index: 4, id: "b", value: null },
  ],
};

it("reads what was written", async () => {
  expect(await readResult(root, "evaluate")).toBeUndefined();
  await writeResult(root, SCORED);
  expect(await readResult(root, "evaluate")).toEqual(SCORED);
  expect(kindOf(stepKey("train", {}))).toBe("train");
});

it.each([
  ["another kind", { kind: "analyze", suggested: [] }, /its kind is analyze; expected evaluate/],
  ["no items", { ...SCORED, items: [] }, /items: has no items/],
  ["an item twice", { ...SCORED, items: [SCORED.items[0], SCORED.items[0]] }, /items: has an item twice/],
  ["a score that is none", { ...SCORED, score: null }, /score: /],
])("is not one of %s", async (_, result, message) => {
  writeFileSync(join(root, "result.json"), JSON.stringify(result));
  await expect(readResult(root, "evaluate")).rejects.toThrow(message);
  await expect(readResult(root, "evaluate")).rejects.toThrow(/Delete its folder to run the step again/);
});

it("takes no checkpoint from outside the step's folder", async () => {
  for (const path of ["../other/run", "run/../../..", "run\\..\\..\\other"]) {
    const result = { kind: "train", checkpoints: [{ path, samples: 1 }] };
    writeFileSync(join(root, "result.json"), JSON.stringify(result));
    await expect(readResult(root, "train")).rejects.toThrow(
      /result\.json is not a valid step result \(checkpoints\.0\.path: leads out of the step's folder\)\. Delete/,
    );
  }
});

it("does not read a device or a pipe, nor what nests without end", async () => {
  for (const name of ["result.json", "attempt.json"]) {
    rmSync(join(root, name), { force: true });
    symlinkSync("/dev/zero", join(root, name));
  }
  expect(await readResult(root, "evaluate")).toBeUndefined();
  expect(await readAttempt(root)).toBeUndefined();
  rmSync(join(root, "result.json"));
  writeFileSync(join(root, "result.json"), `{"a":${"[".repeat(1000)}${"]".repeat(1000)}}`);
  await expect(readResult(root, "evaluate")).rejects.toThrow(/nests deeper than 500 levels/);
});

it("refuses a truncated result, which can be renamed", async () => {
  writeFileSync(join(root, "result.json"), '{"kind":');
  await expect(readResult(root, "evaluate")).rejects.toThrow(/not valid JSON/);
  await setResultAside(root);
  expect(await readResult(root, "evaluate")).toBeUndefined();
  expect(existsSync(join(root, "result.json.damaged"))).toBe(true);
});
