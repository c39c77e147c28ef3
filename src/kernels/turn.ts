// Values written in another order than they are stored in: rows of heads whose halves alternate, transposed matrices.

/** Each `rows` x `columns` cells of `cell` neighbouring elements are written column by column: one of `every`, from `first` on. */
export interface Turn {
  readonly rows: number;
  readonly columns: number;
  readonly cell: number;
  /** A divisor of `columns`. Default 1. */
  readonly every?: number;
  /** Default 0. */
  readonly first?: number;
}

/** Elements that are turned together. */
export const turnedElements = ({ rows, columns, cell }: Turn): number => rows * columns * cell;

/** Turns values where they are; returns how many are left. @param scratch space for as many */
export function turnValues(values: Float32Array, scratch: Float32Array, turn: Turn): number {
  const { rows, columns, cell, every = 1, first = 0 } = turn;
  let at = 0;
  for (let start = 0; start < values.length; start += turnedElements(turn)) {
    for (let column = first; column < columns; column += every) {
      for (let row = 0; row < rows; row++) {
        const from = start + (row * columns + column) * cell;
        for (let i = 0; i < cell; i++) scratch[at++] = values[from + i] as number;
      }
    }
  }
  values.set(scratch.subarray(0, at));
  return at;
}
