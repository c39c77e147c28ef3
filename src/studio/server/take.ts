// Files of a person, put into the project: a task with its data, or an evaluation.
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { exists, usageError, writeFolder } from "../../core/index.js";
import { readDeclaration } from "../../evaluate/index.js";
import { EVALUATIONS } from "../jobs/evaluate.js";
import { fileOf } from "../project/project.js";
import type { Input, Output } from "../protocol/index.js";
import { evaluationOf } from "./evaluations.js";

/**
 * Writes a folder of the files, once they are what they should be. A task has its declaration first.
 * @throws LayergraftError if there is a folder of that name, or the files are not a task, or not an evaluation
 */
export async function takeFiles(project: string, { kind, name, files }: Input<"take">): Promise<Output<"take">> {
  const folder = kind === "task" ? name : join(EVALUATIONS, name);
  const out = await fileOf(project, folder);
  if (await exists(out)) throw usageError(`${out} exists. Rename one of the two.`);
  await mkdir(dirname(out), { recursive: true });
  await writeFolder(out, `the ${kind}`, async (partial) => {
    for (const file of files) await writeFile(join(partial, file.name), file.text);
    if (kind === "task") await readDeclaration(join(partial, files[0]?.name ?? ""));
    else if (!(await evaluationOf(dirname(partial), partial.slice(dirname(partial).length + 1)))) {
      throw usageError(`${name} is not an evaluation. Choose a folder that layergraft eval wrote.`);
    }
  });
  return { path: kind === "task" ? `${folder}/${files[0]?.name}` : folder };
}
