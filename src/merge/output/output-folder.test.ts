// Which unfinished folders are ours, whenever their run was killed.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { OutputFolder } from "./output-folder.js";

const root = temporaryFolder();

it.each([
  { moment: "before its lock had a name", files: [".layergraft-lock.0123456789ab.tmp"], ours: true },
  { moment: "before its journal", files: [".layergraft-lock"], ours: true },
  { moment: "after its journal", files: [".layergraft-run.json", "model.safetensors"], ours: true },
  { moment: "never", files: ["model.safetensors"], ours: false },
])("a run killed $moment", async ({ moment, files, ours }) => {
  const folder = new OutputFolder(join(root, moment));
  mkdirSync(folder.partial);
  for (const name of files) writeFileSync(join(folder.partial, name), "");
  const found = folder.hasPartial("digest");
  if (ours) expect(await found).toBe(true);
  else await expect(found).rejects.toThrow(/is not from layergraft/);
});
