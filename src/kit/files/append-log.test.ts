import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { AppendLog, readLog } from "./append-log.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-log-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("does not read folders and devices", async () => {
  const paths = [folder, ...(existsSync("/dev/null") ? ["/dev/null"] : [])];
  for (const path of paths) {
    await expect(readLog(path, (value) => value)).rejects.toThrow(`${path} is not a file; remove it and run again`);
  }
  expect(await readLog(join(folder, "none"), (value) => value)).toEqual({ entries: [], bytes: 0, damaged: 0 });
});

it.skipIf(process.platform === "win32")("does not append to a file that was deleted", () => {
  const path = join(folder, "deleted");
  const log = new AppendLog(path, 0);
  log.add(1);
  rmSync(path);
  expect(() => log.add(2)).toThrow(`${path} was deleted during the run. Run again.`);
  log.close();
});
