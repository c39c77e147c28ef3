// Memory that all threads of a pass share.

export interface Shared {
  /** [next piece, stop, turn]; see `NEXT`, `STOP`, `TURN`. */
  readonly control: Int32Array;
  /** One per piece: 1 when done, also before the start for pieces done by an earlier run. */
  readonly done: Uint8Array;
  /** [bytes read, bytes written] */
  readonly traffic: BigInt64Array;
  /** `RESULTS_PER_PIECE` numbers per piece. */
  readonly results: Float64Array;
  /** Bytes of remote files; undefined if all files are on the disk. */
  readonly window?: Window;
}

/** Remote bytes of the pieces that come next. */
export interface Window {
  readonly bytes: Uint8Array;
  /** By piece: offset of its bytes. */
  readonly places: Float64Array;
  /** By piece: 1 when its bytes are there. */
  readonly ready: Uint8Array;
}

export const NEXT = 0;
export const STOP = 1;
/** Changes, and wakes the threads that wait for bytes, when a piece is ready or the pass stops. */
export const TURN = 2;

export function wake(control: Int32Array): void {
  Atomics.add(control, TURN, 1);
  Atomics.notify(control, TURN);
}

/** Threads finish the piece they are at and stop. */
export function stop(control: Int32Array): void {
  Atomics.store(control, STOP, 1);
  wake(control);
}
