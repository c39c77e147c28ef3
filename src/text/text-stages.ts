// Changes to a text that arrives in pieces: each stage returns what later pieces cannot change, and holds back the rest.

export interface TextStage {
  push(text: string): string;
  /** The text that was held back. */
  end(): string;
}

/** Spaces that transformers removes, in this order (tokenization_utils_base.py, clean_up_tokenization). */
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

/** Replaces every occurrence of a text, which is not empty. What may be its beginning is held back. */
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

/** The length of the longest suffix of a text that is a proper prefix of a pattern. */
export function overlap(text: string, pattern: string): number {
  for (let length = Math.min(text.length, pattern.length - 1); length > 0; length--) {
    if (text.endsWith(pattern.slice(0, length))) return length;
  }
  return 0;
}

/** Removes a character at the start and the end of a text, at most so many times. */
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

/** Changes a text as a whole, at its end. */
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
