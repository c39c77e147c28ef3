// Checks of numeric options: a wrong one would loop forever or give wrong answers silently.
import { usageError } from "../core/index.js";

/** @throws LayergraftError if an option that is given is not a whole number, or too small */
export function requireWhole(options: Readonly<Record<string, number | undefined>>, least: number): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || (Number.isSafeInteger(value) && value >= least)) continue;
    throw usageError(`${name} is ${value}; it must be a whole number, at least ${least}`);
  }
}

/** @throws LayergraftError if an option that is given is not a number from 0 to `most` */
export function requireNumber(options: Readonly<Record<string, number | undefined>>, most: number): void {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || (Number.isFinite(value) && value >= 0 && value <= most)) continue;
    const range = Number.isFinite(most) ? ` from 0 to ${most}` : ", at least 0";
    throw usageError(`${name} is ${value}; it must be a number${range}`);
  }
}
