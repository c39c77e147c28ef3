// The words of MGSM prompts in its eleven languages.
import type { MgsmLanguage } from "../answers/mgsm-announcements.js";
import WORDS from "./mgsm-words.json" with { type: "json" };

export interface MgsmWords {
  readonly name: string;
  readonly question: string;
  /** Before an answer in steps. */
  readonly steps: string;
  /** Before an answer alone. */
  readonly direct: string;
  /** What a chat is asked after the problem. */
  readonly instruction: string;
}

// Prefixes of questions and steps: those of the exemplars of Shi et al. 2022 (arXiv 2210.03057), character by
// character. Chinese and Japanese have the full-width colon, and no space after it.
export const MGSM_WORDS: Readonly<Record<MgsmLanguage, MgsmWords>> = WORDS;

/** A prefix before a text, with a space between them except after a full-width colon. */
export function prefixed(prefix: string, text: string): string {
  return prefix.endsWith("：") ? prefix + text : `${prefix} ${text}`;
}
