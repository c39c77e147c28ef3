// Rows of data sets on the Hugging Face Hub, through its cache.
import { type HubDatasetOptions, hubDataset, type Row, readRows } from "../data/index.js";
import type { LoadRows } from "./tasks/index.js";

/**
 * Loads rows from the hub, for `DataAccess.loadRows`, with HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE as `hubDataset` uses
 * them.
 * @param options.onProgress called with the data set's name and bytes while files are fetched
 */
export function hubLoader(
  options: Pick<HubDatasetOptions, "environment" | "retryDelay"> & {
    readonly onProgress?: (state: { readonly dataset: string; readonly done: number; readonly total: number }) => void;
  } = {},
): LoadRows {
  const { onProgress, ...rest } = options;
  return async ({ dataset, config, split, read, signal }) => {
    const { files } = await hubDataset({
      ...rest,
      name: dataset,
      config,
      split,
      signal,
      onProgress: ({ done, total }) => onProgress?.({ dataset, done, total }),
    });
    const rows: Row[] = [];
    for await (const batch of readRows(files, { ...read, signal })) rows.push(...batch.rows);
    return rows;
  };
}
