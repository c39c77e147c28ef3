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
