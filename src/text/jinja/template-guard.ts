// The guard against hostile templates: limits of steps, characters and depth of one rendering. A template is foreign code that
// runs here, so all that it does is counted.

/**
 * Most steps: operations, and a quarter for each character that is read. About two seconds. Of 129 published
 * templates, the one that reads messages most often takes 16 million for 2,000 of them.
 */
const MAX_STEPS = 30_000_000;

/** Most characters that a rendering makes, whether it keeps them or not; an entry of a list counts as eight. */
const MAX_ROOM = 64_000_000;

/** Most characters of one text: more than any model reads. */
const MAX_TEXT = 32_000_000;

/** Deepest calls of macros; Python ends at about as many. */
const MAX_DEPTH = 200;

const ENTRY = 8;

/** A limit that a template exceeded. The message is a predicate. */
export class LimitError extends Error {}

// Rendering is synchronous, so one count is enough.
let steps = 0;
let room = 0;
let depth = 0;

/** Runs within fresh limits. @throws LimitError beyond them */
export function limited<T>(run: () => T): T {
  [steps, room, depth] = [0, 0, 0];
  try {
    return run();
  } catch (error) {
    // Values that contain one another to any depth are printed and compared recursively.
    if (error instanceof RangeError) throw new LimitError("nests too deeply");
    throw error;
  }
}

/** Counts operations. */
export function spend(count = 1): void {
  steps += count;
  if (steps > MAX_STEPS) throw new LimitError(`takes more than ${MAX_STEPS} steps`);
}

/** Counts reading a text, which may also copy it once. */
export function scan(text: string): void {
  spend(1 + text.length / 4);
}

/** Counts the search of a text in another, which may compare all of it in many places. */
export function seek(text: string, sought: string): void {
  spend(1 + (text.length / 4) * (1 + sought.length / 16));
}

function take(units: number): void {
  spend();
  room += units;
  if (room > MAX_ROOM) throw new LimitError(`makes more than ${MAX_ROOM} characters`);
}

/** Checks the length of a text before it is made. Joining two texts copies neither, so it takes no room. */
export function checkLength(length: number): void {
  if (length > MAX_TEXT) throw new LimitError(`makes a text of more than ${MAX_TEXT} characters`);
}

/** Counts the characters of a text before it is made. */
export function takeText(length: number): void {
  checkLength(length);
  take(length);
}

/** Counts the entries of a list before it is made. */
export function takeEntries(count: number): void {
  take(ENTRY * (1 + count));
}

/** Calls one level deeper. */
export function deeper<T>(run: () => T): T {
  if (++depth > MAX_DEPTH) throw new LimitError(`calls itself more than ${MAX_DEPTH} levels deep`);
  try {
    return run();
  } finally {
    depth--;
  }
}
