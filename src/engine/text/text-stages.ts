// Changes to a text that arrives in pieces: each stage gives what later pieces cannot change, and holds back the rest.
// Not of tokens: decoder.ts has those.

export interface TextStage {
  push(text: string): string;
  /** What was held back. */
  end(): string;
}

/**
 * Blanks that transformers removes, one after another (tokenization_utils_base.py, clean_up_tokenization). The eighth is
 * where decoders of word pieces have one more.
 */
export const CLEAN_UP: readonly (readonly [from: string, to: string])[] = [
  [" .", "."],
  [" ?", "?"],
  [" !", "!"],
  [" ,", ","],
  [" ' ", "'"],
  [" n't", "n't"],
  [" 'm", "'m"],
  [" 's", "'s"],
  [" 've", "'ve"],
  [" 're", "'re"],
];

/** Replaces a text, not empty, wherever it stands. What may be its beginning is held back. */
export function replaceText(from: string, to: string): TextStage {
  let held = "";
  return {
    push: (text) => {
      const parts = (held + text).split(from);
      const rest = parts.pop() ?? "";
      const keep = overlap(rest, from);
      held = rest.slice(rest.length - keep);
      return [...parts, rest.slice(0, rest.length - keep)].join(to);
    },
    end: () => {
      const rest = held;
      held = "";
      return rest;
    },
  };
}

/** The length of the longest end of a text that is a beginning of a pattern, though not all of it. */
function overlap(text: string, pattern: string): number {
  for (let length = Math.min(text.length, pattern.length - 1); length > 0; length--) {
    if (text.endsWith(pattern.slice(0, length))) return length;
  }
  return 0;
}

/** Removes a character at the start of a text, at most so many times, and at its end. */
export function stripText(character: string, start: number, stop: number): TextStage {
  let left = start;
  let held = "";
  return {
    push: (text) => {
      let rest = text;
      while (left > 0 && rest.startsWith(character)) {
        rest = rest.slice(character.length);
        left--;
      }
      if (rest === "") return "";
      left = 0;
      rest = held + rest;
      let keep = 0;
      const isAtEnd = () => rest.slice(0, rest.length - keep * character.length).endsWith(character);
      while (keep < stop && isAtEnd()) keep++;
      held = character.repeat(keep);
      return rest.slice(0, rest.length - held.length);
    },
    end: () => "",
  };
}

/** Changes a text as a whole, and so gives nothing before its end. */
export function holdAll(change: (text: string) => string): TextStage {
  let held = "";
  return {
    push: (text) => {
      held += text;
      return "";
    },
    end: () => change(held),
  };
}
