/** How far a long operation has come. */
export interface Progress {
  /** Current phase, such as `reading and writing`. */
  readonly phase: string;
  /** Amount done, in `unit`. */
  readonly done: number;
  /** Total amount, in `unit`. */
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

/** Most threads: far above any useful number, as each has its own stack from the start. */
export const MAX_THREADS = 256;
