// Sentences of the miniature's world: an act or a possession, told or asked about, in either language or in both mixed.
// What a sentence says is drawn by its caller.
import type { Random } from "../../../core/index.js";
import { type Language, NAMES, NOUNS, type Noun, PLACES, type Term, TIMES, VERBS, type Verb } from "./lexicon.js";

/** An act is of two things at least, so that every noun is a plural, and of nine at most. */
export const MOST_AT_ONCE = 9;

/** "Asha bought 4 mangoes at the market today." */
export interface Act {
  readonly who: string;
  readonly verb: Verb;
  readonly count: number;
  readonly noun: Noun;
  readonly place?: Term;
  readonly time?: Term;
}

/** How a text is told. */
export interface Speaker {
  /** The language whose grammar orders the words and gives the small ones. */
  readonly frame: Language;
  /** The language of a content word: always the frame's, or, code-mixed, either. */
  word(term: Term): string;
  /** "4 mangoes" or "mangoes 4"; Swahili says the number last. */
  readonly numberFirst: boolean;
}

/** A speaker of one language. English puts the number on either side, so that its place alone tells no language. */
export function speakerOf(language: Language, random?: Random): Speaker {
  const numberFirst = language === "en" && (random === undefined || random.chance(0.5));
  return { frame: language, word: (term) => term[language], numberFirst };
}

/** A speaker who takes each content word from either language. */
export function mixedSpeaker(random: Random): Speaker {
  const frame = random.chance(0.5) ? "en" : "sw";
  return {
    frame,
    word: (term) => (random.chance(0.5) ? term.en : term.sw),
    numberFirst: frame === "en" && random.chance(0.5),
  };
}

function amount(count: number, noun: Noun, speaker: Speaker): string {
  return speaker.numberFirst ? `${count} ${speaker.word(noun)}` : `${speaker.word(noun)} ${count}`;
}

/** An act, told. */
export function tellAct({ who, verb, count, noun, place, time }: Act, speaker: Speaker): string {
  const where = [place, time].filter((term) => term !== undefined).map((term) => speaker.word(term));
  return [who, speaker.word(verb), amount(count, noun, speaker), ...where, "."].join(" ");
}

/** What someone has at first: `asha had 9 mangoes .` */
export function tellPossession(who: string, count: number, noun: Noun, speaker: Speaker): string {
  return `${who} ${speaker.frame === "en" ? "had" : "alikuwa na"} ${amount(count, noun, speaker)} .`;
}

/** How many someone has in the end, asked. */
export function askHowMany(who: string, noun: Noun, speaker: Speaker): string {
  const thing = speaker.word(noun);
  return speaker.frame === "en"
    ? `how many ${thing} does ${who} have now ?`
    : `${who} ana ${thing} ${noun.howMany} sasa ?`;
}

/** Whether it became more, asked. */
export function askMore(who: string, noun: Noun, speaker: Speaker): string {
  const thing = speaker.word(noun);
  return speaker.frame === "en"
    ? `does ${who} have more or fewer ${thing} now ?`
    : `${who} ana ${thing} zaidi au pungufu sasa ?`;
}

/** The answer to that. */
export function answerMore({ sign }: Verb, language: Language): string {
  const answers = {
    "1": { en: "more", sw: "zaidi" },
    "-1": { en: "fewer", sw: "pungufu" },
    "0": { en: "the same", sw: "sawa" },
  };
  return answers[sign][language];
}

/** What can be asked about an act. */
const ASPECTS = ["who", "what", "where", "when", "count"] as const;
export type Aspect = (typeof ASPECTS)[number];

/** What can be asked about this act. */
export function aspectsOf({ place, time }: Act): Aspect[] {
  return ASPECTS.filter((aspect) => (aspect === "where" ? place : aspect === "when" ? time : true) !== undefined);
}

/** A question about an act. */
export function askAct({ who, verb, noun }: Act, aspect: Aspect, speaker: Speaker): string {
  const [did, thing] = [speaker.word(verb), speaker.word(noun)];
  if (speaker.frame === "sw") {
    if (aspect === "who") return `nani ${did} ${thing} ?`;
    if (aspect === "what") return `${who} ${did} nini ?`;
    return `${who} ${did} ${thing} ${{ where: "wapi", when: "lini", count: noun.howMany }[aspect]} ?`;
  }
  if (aspect === "who") return `who ${did} ${thing} ?`;
  if (aspect === "what") return `what was it that ${who} ${did} ?`;
  if (aspect === "count") return `how many ${thing} was it that ${who} ${did} ?`;
  return `${aspect} was it that ${who} ${did} ${thing} ?`;
}

/** The answer to that, in a language of its own. */
export function answerAct({ who, count, noun, place, time }: Act, aspect: Aspect, language: Language): string {
  if (aspect === "who") return who;
  if (aspect === "count") return String(count);
  const term = { what: noun, where: place, when: time }[aspect];
  return term?.[language] ?? "";
}

/**
 * Acts with different verbs and different things, by different people or, half of the time, by one, so that questions
 * can often be answered by the verb alone. Each has a place or a time, neither or both.
 */
export function drawActs(random: Random, count: number, verbs: readonly Verb[] = VERBS): Act[] {
  const [names, nouns, did] = [random.sample(NAMES, count), random.sample(NOUNS, count), random.sample(verbs, count)];
  const one = random.chance(0.5) ? names[0] : undefined;
  return names.map((who, i) => ({
    who: one ?? who,
    verb: did[i] as Verb,
    count: random.between(2, MOST_AT_ONCE),
    noun: nouns[i] as Noun,
    ...(random.chance(0.25) ? { place: random.pick(PLACES) } : {}),
    ...(random.chance(0.25) ? { time: random.pick(TIMES) } : {}),
  }));
}
