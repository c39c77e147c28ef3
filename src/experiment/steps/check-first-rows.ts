import { resolve } from "node:path";
import { exists } from "../../kit/files/index.js";
import { checkData, compileFilters, DataError, findSource, mappedRows, planSet } from "../../train/data/index.js";

const ROWS = 20;

type SetPlan = ReturnType<typeof planSet>;

export interface FirstRowsOptions {
  /** Folder that relative paths start from. */
  readonly folder: string;
  readonly signal?: AbortSignal | undefined;
}

/** Missing columns, and rows that make no example, in the first rows of each data set that is on this machine. */
export async function firstRowsErrors(data: unknown, { folder, signal }: FirstRowsOptions): Promise<Error[]> {
  const errors: Error[] = [];
  const { sets, isStrict } = declared(data);
  for (const plan of sets) {
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

/** Sets of a declaration; none if it is not valid, which the plan's check reports. */
export function declared(data: unknown): { readonly sets: readonly SetPlan[]; readonly isStrict: boolean } {
  try {
    const declaration = checkData(data);
    return { sets: declaration.sets.map(planSet), isStrict: declaration.on_bad_row === "fail" };
  } catch {
    return { sets: [], isStrict: false };
  }
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
