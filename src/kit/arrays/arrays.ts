// Arrays whose length follows a model's: how long one may be here, and the bytes of long ones in pieces.

import { constants } from "node:buffer";
import { LayergraftError } from "../errors.js";

/** Elements of the longest array: 2^32 before Node.js 22.3, 2^53 - 1 since. */
let most = constants.MAX_LENGTH;

/** Lowers the limit, for tests without large arrays. @param elements default: what this Node.js allows */
export function limitArrays(elements = constants.MAX_LENGTH): void {
  most = elements;
}

/**
 * Checks that one array can have so many elements.
 * @param what what the array holds, for the message
 * @throws LayergraftError code `memory` if not
 */
export function requireArray(elements: number, what: string, where: { file?: string; tensor?: string } = {}): void {
  if (elements <= most) return;
  throw new LayergraftError(
    "memory",
    `${what} needs an array of ${elements} elements, but Node.js ${process.versions.node} allows ${most}. Use Node.js 22.3 or newer.`,
    { ...where, expected: `at most ${most} elements`, actual: `${elements} elements` },
  );
}

/** Bytes of a piece: a write takes less than 2 GiB at once. */
const PIECE_BYTES = 2 ** 30;

/** The bytes of a view, in order, in pieces that share its memory. A view may have more bytes than one array of bytes. */
export function* bytesInPieces({ buffer, byteOffset, byteLength }: ArrayBufferView<ArrayBufferLike>) {
  const piece = Math.min(PIECE_BYTES, most);
  for (let at = 0; at < byteLength; at += piece) {
    yield new Uint8Array(buffer, byteOffset + at, Math.min(piece, byteLength - at));
  }
}

/** The smallest and the largest of some numbers. `Math.max(...)` overflows the stack for a hundred thousand. */
export function extremesOf(numbers: Iterable<number>): [smallest: number, largest: number] {
  let [smallest, largest] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const number of numbers) {
    smallest = Math.min(smallest, number);
    largest = Math.max(largest, number);
  }
  return [smallest, largest];
}

/** The largest of some numbers, and at least `least`. */
export const largestOf = (numbers: Iterable<number>, least = Number.NEGATIVE_INFINITY) =>
  Math.max(least, extremesOf(numbers)[1]);

/** Length of the longest list, and at least `least`. */
export function longestOf(lists: Iterable<{ readonly length: number }>, least = 0): number {
  let longest = least;
  for (const { length } of lists) longest = Math.max(longest, length);
  return longest;
}
