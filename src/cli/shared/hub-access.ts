import type { HubAccess } from "../../formats/checkpoint/index.js";
import { formatDuration } from "../../kit/printing/index.js";
import { runWithProgress, type WorkControls, type WorkOptions } from "./output.js";

export const DOWNLOAD_HELP = "download models on the hub into the local cache first";

/** Access to the hub that shows downloads and stops with Ctrl-C. */
export function hubAccess(
  fetch: HubAccess["fetch"],
  { signal, onProgress, onNote }: Pick<WorkControls, "signal" | "onProgress" | "onNote">,
): HubAccess {
  return {
    fetch,
    signal,
    onWait: (seconds) => onNote?.(`waiting ${formatDuration(seconds)} for the hub`),
    onProgress,
  };
}

/** Runs a long operation with progress, and with access to the hub that streams weights. */
export function runWithHub<T>(
  options: WorkOptions,
  work: (controls: WorkControls & { readonly hub: HubAccess }) => Promise<T>,
): Promise<T> {
  return runWithProgress(options, (controls) => work({ ...controls, hub: hubAccess("stream", controls) }));
}
