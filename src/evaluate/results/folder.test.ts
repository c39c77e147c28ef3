import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { ResultFolder } from "./folder.js";

it("removes an earlier evaluation, and no file of a person", async () => {
  const folder = join(temporaryFolder(), "results");
  mkdirSync(join(folder, ".eval_results"), { recursive: true });
  const own = ["settings.json", "results.json", "run.json", "answers.jsonl", "samples-a.b_c.jsonl", "server.log"];
  for (const name of [...own, ".eval_results/a.yaml", ".layergraft-lock"]) writeFileSync(join(folder, name), "{}");
  writeFileSync(join(folder, "notes.md"), "mine");
  await expect(ResultFolder.remove(folder)).rejects.toThrow(
    /contains other files \(notes\.md\), so it is not replaced/,
  );
  expect(existsSync(join(folder, "results.json"))).toBe(true);
  rmSync(join(folder, "notes.md"));
  await ResultFolder.remove(folder);
  expect(existsSync(folder)).toBe(false);
});
