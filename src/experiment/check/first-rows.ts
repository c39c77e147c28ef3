// Checks the first rows of data sets, as a training run would read them.
import { resolve } from "node:path";
import { exists } from "../../kit/files/index.js";
import {
  compileFilters,
  type DataDeclaration,
  DataError,
  findSource,
  mappedRows,
  planSet,
} from "../../train/data/index.js";

/** Rows of a file that are checked. */
const ROWS = 20;

type SetPlan = ReturnType<typeof planSet>;

/** Missing columns, and rows that make no example, in the first rows of each data set that is on this machine. */
export async function firstRowsErrors(
  data: DataDeclaration,
  { folder, signal }: { readonly folder: string; readonly signal?: AbortSignal | undefined },
): Promise<Error[]> {
  const errors: Error[] = [];
  const isStrict = data.on_bad_row === "fail";
  for (const plan of data.sets.map(planSet)) {
    if (!(await exists(resolve(folder, plan.source)))) continue;
    try {
      const files = await findSource(plan, { folder, signal });
      for (const file of files) await checkFile(file, plan, isStrict, signal);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      errors.push(error);
    }
  }
  return errors;
}

async function checkFile(
  file: string,
  plan: SetPlan,
  isStrict: boolean,
  signal: AbortSignal | undefined,
): Promise<void> {
  const filters = compileFilters(plan.filter);
  for await (const { batch, mapping } of mappedRows(plan, [file], { onBadRow: "skip", signal })) {
    for (const [i, row] of batch.rows.slice(0, isStrict ? ROWS : 0).entries()) {
      if (filters.ofRows.some(({ passes }) => !passes(row))) continue;
      const mapped = mapping.map(row);
      if (mapped === "empty" || !("problem" in mapped)) continue;
      throw new DataError(`${plan.name}: ${file}, line ${batch.lines[i]}: ${mapped.problem}`, { file });
    }
    return;
  }
}
