// Functions of the guarded process for regular expressions.
export function test(source: string, flags: string, text: string): boolean {
  return new RegExp(source, flags).test(text);
}

/** The whole and the groups of the last match; `flags` must have `g`. */
export function lastMatch(source: string, flags: string, text: string): (string | undefined)[] | undefined {
  let last: (string | undefined)[] | undefined;
  for (const match of text.matchAll(new RegExp(source, flags))) last = [...match];
  return last;
}
