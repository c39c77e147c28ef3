// Whether a training run's data have what its declaration reads, by their first rows: before anything runs. Data that are
// still to be fetched, and all later rows, are the run's own to judge.

import { resolve } from "node:path";
import { exists, formatSome } from "../../core/index.js";
import {
  checkData,
  columnsOf,
  compileFilters,
  compileMapping,
  DataError,
  findSource,
  KNOWN_COLUMNS,
  mappingOf,
  missingColumns,
  planSet,
  readRows,
} from "../../data/index.js";

/** Rows of a file that are looked at. */
const FIRST = 20;

type SetPlan = ReturnType<typeof planSet>;

export interface FirstRowsOptions {
  /** That relative paths start from. */
  readonly folder: string;
  readonly signal?: AbortSignal | undefined;
}

/** What is wrong with the first rows of each set that is on this machine: columns that are missing, rows that make nothing. */
export async function firstRowsErrors(data: unknown, { folder, signal }: FirstRowsOptions): Promise<Error[]> {
  const errors: Error[] = [];
  let plans: SetPlan[];
  let isStrict: boolean;
  try {
    const declaration = checkData(data);
    isStrict = declaration.on_bad_row === "fail";
    plans = declaration.sets.map(planSet);
  } catch {
    return []; // the declaration's own problems are told with the plan's
  }
  for (const plan of plans) {
    if (!(await exists(resolve(folder, plan.source)))) continue;
    try {
      const { files } = await findSource(plan, { folder, signal });
      for (const file of files) await lookAt(file, plan, isStrict, signal);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      errors.push(error);
    }
  }
  return errors;
}

async function lookAt(file: string, plan: SetPlan, isStrict: boolean, signal: AbortSignal | undefined): Promise<void> {
  const { format, header, quotes, allow_short: allowShort, field } = plan;
  const filters = compileFilters(plan.filter);
  const mapped = plan.map === undefined ? KNOWN_COLUMNS : compileMapping(plan.map).columns.flat();
  const columns = [...mapped, ...filters.columns];
  const options = { format, header, quotes, allowShort, field, columns, onBadRow: "skip", signal } as const;
  for await (const batch of readRows([file], options)) {
    const { rows, lines } = batch;
    const mapping = compileMapping(mappingOf(plan.map, batch));
    const present = columnsOf(batch);
    const names = missingColumns([...mapping.columns, ...filters.columns.map((column) => [column])], present);
    if (names.length > 0) {
      const there = formatSome([...present], 40);
      throw new DataError(`${plan.name}: ${file} has no column ${names.join(", nor ")}; its columns are ${there}`, {
        file,
      });
    }
    for (const [i, row] of rows.slice(0, isStrict ? FIRST : 0).entries()) {
      if (filters.ofRows.some(({ passes }) => !passes(row))) continue;
      const mapped = mapping.map(row);
      if (mapped === "empty" || !("problem" in mapped)) continue;
      throw new DataError(`${plan.name}: ${file}, line ${lines[i]}: ${mapped.problem}`, { file });
    }
    return; // the first batch is enough
  }
}
