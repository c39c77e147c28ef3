import { existsSync, mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../test/support/checkpoints.js";
import { merge } from "./merge.js";
import { averageOf, isExport } from "./merge-stages.js";

it("averages shares and points alike, and counts what has no score as 0", () => {
  const scores = [
    { task: "a", value: 0.5, scale: "share" },
    { task: "b", value: 40, scale: "points" },
    { task: "c", value: Number.NaN, scale: "share" },
  ] as const;
  expect(averageOf(scores, ["a", "b"])).toBeCloseTo(0.45, 12);
  expect(averageOf(scores, ["a", "b", "c", "d"])).toBeCloseTo(0.225, 12);
  expect(averageOf(scores, [])).toBe(0);
});

it("keeps an export of the same type only: f16 and bf16 have files of the same size", async () => {
  const folder = temporaryFolder();
  const merge = join(folder, "merge");
  const file = join(folder, "merge.gguf");
  mkdirSync(merge);
  writeFileSync(join(merge, "config.json"), "{}");
  const header = Buffer.from("header of f16");
  const plan = { bytes: 20, header };
  expect(await isExport(file, merge, plan)).toBe(false);
  writeFileSync(file, Buffer.concat([header, Buffer.alloc(7)]));
  expect(await isExport(file, merge, plan)).toBe(true);
  expect(await isExport(file, merge, { bytes: 21, header })).toBe(false);
  expect(await isExport(file, merge, { bytes: 20, header: Buffer.from("header of bf16") })).toBe(false);
  utimesSync(file, 1, 1);
  expect(await isExport(file, merge, plan)).toBe(false);
});

it("refuses a folder of results with other files before the merge is written", async () => {
  const folder = temporaryFolder();
  const model = join(folder, "model");
  await writeTiny(model, { layers: 1, seed: 1 });
  writeFileSync(
    join(folder, "task.yaml"),
    'task: one\ndata: one.jsonl\nanswer: generate\nprompt: "{a}"\ngold: "{b}"\n',
  );
  mkdirSync(join(folder, "out.eval", "models[0]"), { recursive: true });
  writeFileSync(join(folder, "out.eval", "models[0]", "notes.txt"), "mine");
  const out = join(folder, "out");
  const recipe = { method: "soup" as const, models: [model] };
  await expect(merge(recipe, { out, eval: [join(folder, "task.yaml")] })).rejects.toThrow(
    /models\[0\] is not empty and has no evaluation in it, but notes\.txt/,
  );
  expect(existsSync(out)).toBe(false);
});
