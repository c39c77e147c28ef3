// Values written in another order than they are stored in: rows of heads whose halves alternate, transposed matrices.
import type { Kernels } from "../../kernels/index.js";

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

/** Turns float32 values where they are; returns how many are left. @param scratch an address for as many values */
export function turnValues(kernels: Kernels, address: number, count: number, scratch: number, turn: Turn): number {
  const { rows, columns, cell, every = 1, first = 0 } = turn;
  const values = kernels.floats(address, count);
  const turned = kernels.floats(scratch, count / every);
  let at = 0;
  for (let start = 0; start < count; start += turnedElements(turn)) {
    for (let column = first; column < columns; column += every) {
      for (let row = 0; row < rows; row++) {
        const from = start + (row * columns + column) * cell;
        for (let i = 0; i < cell; i++) turned[at++] = values[from + i] as number;
      }
    }
  }
  values.set(turned);
  kernels.clearPadding(address, at * 4);
  return at;
}
