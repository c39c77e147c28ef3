// All rows of a split of the hub, for sets small enough to hold: those that models are evaluated on.
import { type Environment, hubDataset } from "./hub/index.js";
import { type Row, readRows } from "./read/index.js";

export interface HubRowsRequest {
  /** `organisation/name`. */
  readonly dataset: string;
  readonly config?: string | undefined;
  readonly split?: string | undefined;
  readonly revision?: string | undefined;
  readonly environment?: Environment | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Reads a split whole, fetching it first if it is not in the cache.
 * @throws {DataError} as `hubDataset` and `readRows` do
 */
export async function hubRows({ dataset: name, signal, ...request }: HubRowsRequest): Promise<Row[]> {
  const { files } = await hubDataset({ name, signal, ...request });
  const rows: Row[] = [];
  for await (const batch of readRows(files, { signal })) rows.push(...batch.rows);
  return rows;
}
