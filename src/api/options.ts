// What calls of the library share: how far they are, and their common options.

/** How far a call is. */
export interface Progress {
  /** What is being done, such as `reading and writing`. */
  readonly phase: string;
  /** How much is done, in `unit`. */
  readonly done: number;
  /** How much there is, in `unit`. */
  readonly total: number;
  /** Unit of `done` and `total`. */
  readonly unit: "bytes" | "steps" | "items";
}

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
  /** Most bytes for all buffers together. Default: 256 MB. */
  readonly memory?: number | undefined;
}

/** Options of calls that take paths. */
export interface FolderOptions {
  /** Folder that relative paths start from. Default: the working folder. */
  readonly folder?: string | undefined;
}

/** What the rooms are given of `StreamOptions`. */
export function controlsOf({ signal, onProgress, threads, memory }: StreamOptions) {
  return {
    signal,
    threads,
    memory,
    onProgress:
      onProgress &&
      (({ phase, doneBytes, totalBytes }: { phase: string; doneBytes: number; totalBytes: number }) =>
        onProgress({ phase, done: doneBytes, total: totalBytes, unit: "bytes" })),
  };
}

/** An object without its undefined fields. */
export function defined<T extends object>(value: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as never;
}
