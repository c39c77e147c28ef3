// Access to the hub for sources that are not on this machine.

import type { HubAccess } from "../../weights/index.js";
import { runWithProgress, type WorkOptions } from "./output.js";

export const DOWNLOAD_HELP = "download models on the hub into the local cache first";

/**
 * Runs `work` with access to the hub, and shows downloads.
 * @param options.download fetches weight files too
 * @param otherwise what to fetch without `download`; nothing if undefined
 */
export function withHubAccess<T>(
  options: WorkOptions & { readonly download?: boolean },
  otherwise: "headers" | "plan" | undefined,
  work: (hub: HubAccess | undefined) => Promise<T>,
): Promise<T> {
  const fetch = options.download ? "files" : otherwise;
  if (fetch === undefined) return work(undefined);
  return runWithProgress(options, ({ signal, onProgress }) =>
    work({
      fetch,
      signal,
      onProgress: ({ done, total }) => onProgress?.({ phase: "downloading", doneBytes: done, totalBytes: total }),
    }),
  );
}
