// Options that the library's calls share.

import type { Progress } from "../core/index.js";
import type { HubAccess } from "../weights/index.js";

/** Options of every call that takes long. */
export interface CallOptions<P extends Progress = Progress> {
  /** Cancels the call, which then throws a `CancelledError`. Default: none. */
  readonly signal?: AbortSignal | undefined;
  /** Called at most ten times a second, and at the end. Default: none. */
  readonly onProgress?: ((progress: P) => void) | undefined;
}

/** Options of calls that stream weights from the disk. */
export interface StreamOptions extends CallOptions {
  /** Threads to use. Default: the machine's cores, at most 8. Results do not depend on it. */
  readonly threads?: number | undefined;
  /** Maximum bytes of all buffers together. Default: 256 MB. */
  readonly memory?: number | undefined;
}

/** Options of calls that take paths. */
export interface FolderOptions {
  /** Folder that relative paths start from. Default: the working folder. */
  readonly folder?: string | undefined;
}

/** Run options from `StreamOptions`. */
export function controlsOf({ signal, onProgress, threads, memory }: StreamOptions) {
  return { signal, onProgress, threads, memory };
}

/** Access to the hub for sources that are not on this machine: weights are streamed, unless a call downloads them. */
export function hubOf({ signal }: Pick<CallOptions, "signal">): HubAccess {
  return { fetch: "stream", signal };
}

/** An object without its undefined fields. */
export function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as never;
}
