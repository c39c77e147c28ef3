// Sentences of the miniature's world: an act or a possession, told or asked about, in either language or in both mixed.
// What a sentence says is drawn by its caller.
import type { Random } from "../../../src/kit/random.js";
import { isNewInSwahili, type Language, SMALL, swahiliNumber, type Term, type Verb } from "./lexicon.js";

/** "Asha bought 4 bananas at the market." */
export interface Act {
  readonly who: string;
  readonly verb: Verb;
  readonly count: number;
  readonly noun: Term;
  readonly place?: Term;
}

/** How a text is told. */
export interface Speaker {
  /** The language whose grammar orders the words. */
  readonly frame: Language;
  word(term: Term): string;
  number(count: number): string;
}

/** English says numbers in digits. */
export const ENGLISH: Speaker = { frame: "en", word: ({ en }) => en, number: String };

/** Swahili says numbers in words. */
export const SWAHILI: Speaker = { frame: "sw", word: ({ sw }) => sw, number: swahiliNumber };

const knownNumber = (count: number) => (isNewInSwahili(count) ? String(count) : swahiliNumber(count));

/** The Swahili of the base, in which the numbers that are new to it are digits. */
export const KNOWN_SWAHILI: Speaker = { ...SWAHILI, number: knownNumber };

/** Takes each word from either language. @param swahili speaker of the Swahili words */
export function mixedSpeaker(random: Random, swahili: Speaker = SWAHILI): Speaker {
  const either = () => (random.chance(0.5) ? swahili : ENGLISH);
  return {
    frame: either().frame,
    word: (term) => either().word(term),
    number: (count) => either().number(count),
  };
}

function sentence(end: "." | "?", ...parts: readonly string[]): string {
  const text = parts.filter((part) => part !== "").join(" ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${end}`;
}

/** English puts the number first, Swahili last. */
function amount(count: number, noun: Term, speaker: Speaker): string {
  const [number, thing] = [speaker.number(count), speaker.word(noun)];
  return speaker.frame === "en" ? `${number} ${thing}` : `${thing} ${number}`;
}

/** An act, told. */
export function tellAct({ who, verb, count, noun, place }: Act, speaker: Speaker): string {
  return sentence(".", who, speaker.word(verb), amount(count, noun, speaker), place ? speaker.word(place) : "");
}

/** What someone has: `Asha had 9 bananas.` */
export function tellPossession(who: string, count: number, noun: Term, speaker: Speaker): string {
  return sentence(".", who, speaker.word(SMALL.had), amount(count, noun, speaker));
}

/** How one feels about an act: happy to have more, sad to have less. */
export function tellFeeling({ who, verb }: Act, speaker: Speaker): string {
  const feeling = verb.sign > 0 ? SMALL.happy : SMALL.sad;
  return sentence(".", who, speaker.word(SMALL.feels), speaker.word(feeling));
}

/** How many someone has in the end, asked. */
export function askHowMany(who: string, noun: Term, speaker: Speaker): string {
  const { howMany, does, have, now } = SMALL;
  const say = (term: Term) => speaker.word(term);
  return speaker.frame === "en"
    ? sentence("?", say(howMany), say(noun), say(does), who, say(have), say(now))
    : sentence("?", who, say(have), say(noun), say(howMany), say(now));
}
