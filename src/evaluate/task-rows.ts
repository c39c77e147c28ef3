// Rows of the data sets that tasks name on the hub, fetched into the hub's own cache. Rows of files tasks read themselves.
import { type HubDatasetOptions, hubDataset, type Row, readRows } from "../data/index.js";
import type { LoadRows } from "./tasks/index.js";

/**
 * A way for tasks to get rows of the hub, for `DataAccess.loadRows`. HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and the
 * cache's place are honoured as `hubDataset` does.
 * @param options.onProgress called with the data set's name and bytes while files are fetched
 */
export function hubLoader(
  options: Pick<HubDatasetOptions, "environment" | "retryDelay"> & {
    readonly onProgress?: (state: { readonly dataset: string; readonly done: number; readonly total: number }) => void;
  } = {},
): LoadRows {
  const { onProgress, ...rest } = options;
  return async ({ dataset, config, split, signal }) => {
    const { files } = await hubDataset({
      ...rest,
      name: dataset,
      config,
      split,
      signal,
      onProgress: ({ done, total }) => onProgress?.({ dataset, done, total }),
    });
    const rows: Row[] = [];
    for await (const batch of readRows(files, signal ? { signal } : {})) rows.push(...batch.rows);
    return rows;
  };
}
