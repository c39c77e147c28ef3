// Folders of jobs by strangers: a result that is not a file, or not JSON.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { Jobs } from "./jobs.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-jobs-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

it.each([
  ["a link to a device without end", (file: string) => symlinkSync("/dev/zero", file)],
  ["a folder", (file: string) => mkdirSync(file)],
  ["missing", () => undefined],
  ["not JSON", (file: string) => writeFileSync(file, "{")],
])("refuses a result that is %s", async (name, write) => {
  const [folder, id] = [join(root, name), "0-suggest"];
  mkdirSync(join(folder, id), { recursive: true });
  const job = { id, kind: "suggest", title: "Suggest", input: {}, state: "done", started: 1, ended: 2 };
  writeFileSync(join(folder, id, "job.json"), JSON.stringify({ ...job, progress: null, error: null }));
  write(join(folder, id, "result.json"));
  const jobs = await Jobs.open({ folder, project: root, onEvent: () => undefined });
  await expect(jobs.result(id)).rejects.toMatchObject({
    code: "usage",
    message: expect.stringMatching(/result\.json is not the result of a job\. Start the job again\.$/),
  });
});
