// Statistics of models that are missing, or of another kind.

import { type Checkpoint, openCheckpoint } from "../../formats/checkpoint/index.js";
import { CheckpointError, type ErrorWhere, RecipeError } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import type { StatisticsKind } from "../methods/source-fields.js";

/** Statistics that a field asks for. */
export interface NeededStatistics {
  readonly field: string;
  readonly kind: StatisticsKind;
  /** Source of the model that they are of, where it is known. */
  readonly model?: string | undefined;
}

/**
 * Opens statistics of a model.
 * @param known the checkpoint, if it is open already
 * @throws RecipeError with the command that writes them if the folder is missing or has others
 */
export async function openStatistics(
  source: string,
  needed: NeededStatistics,
  options: Parameters<typeof openCheckpoint>[1] = {},
  known?: Checkpoint,
): Promise<Checkpoint> {
  const checkpoint = known ?? (await openCheckpoint(source, options).catch(missingOr(source, needed, options.base)));
  const { name, files, revision } = checkpoint;
  const found = files[0]?.metadata.statistics;
  if (found !== needed.kind) {
    const problem = `${name} has ${found === undefined ? "no statistics" : `statistics of the kind ${found}`}`;
    throw statisticsError(problem, { expected: needed.kind, actual: found ?? "none" }, needed);
  }
  if (found === "gram" && revision !== undefined) {
    const message = `${name} is on the hub, and statistics of the kind gram are not streamed. Download it first.`;
    throw RecipeError.at({ field: needed.field }, message);
  }
  return checkpoint;
}

function missingOr(source: string, needed: NeededStatistics, base = "."): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof CheckpointError && error.where.file === source)) throw error;
    const problem = `${source} does not exist${base === "." ? "" : ` in ${base}, where relative paths start`}`;
    throw statisticsError(problem, { file: source }, needed, source, base === "." ? "" : " there");
  };
}

function statisticsError(
  problem: string,
  where: ErrorWhere,
  { field, kind, model }: NeededStatistics,
  out?: string,
  there = "",
): RecipeError {
  const command = commandLine`measure ${model ?? "MODEL"} --kind ${kind} --on TEXTS --out ${out ?? "FOLDER"}`;
  return RecipeError.at({ field, ...where }, `${problem}. Write them${there} with: ${command}`);
}
