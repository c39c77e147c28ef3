// Patterns of file names: * and ? within a name, ** across folders, [abc] and {a,b}.
import picomatch from "picomatch";
import { DataError } from "./data-error.js";

// Cards of data sets are written by strangers, and each wildcard multiplies what a match can cost.
const MAX_WILDCARDS = 8;
const MAX_LENGTH = 500;

export function isPattern(text: string): boolean {
  return /[*?[{]/.test(text);
}

/**
 * A test for paths with forward slashes. `**` followed by a slash also matches nothing, so that a pattern of it and a
 * name matches that name at the top too.
 * @throws DataError for a pattern that is too complicated or not valid
 */
export function matcherOf(pattern: string): (path: string) => boolean {
  if (pattern.length > MAX_LENGTH || (pattern.match(/\*+|\?/g)?.length ?? 0) > MAX_WILDCARDS) {
    throw new DataError(`the pattern ${JSON.stringify(pattern.slice(0, 80))} has too many wildcards`);
  }
  try {
    const matches = picomatch(pattern, { dot: true, posix: true, noextglob: true, debug: true });
    return (path) => matches(path);
  } catch (error) {
    throw new DataError(`${JSON.stringify(pattern)} is not a valid pattern`, {}, error);
  }
}
