// Regular expressions of tokenizers, which are Oniguruma's in Ruby's syntax, as JavaScript's with the flag `v`. Whole matches
// are the same; groups are not kept, as no tokenizer reads them. What has no equal is refused.
import { shorten } from "../kit/printing/index.js";

/** A part of an expression in JavaScript's syntax. */
interface Translated {
  readonly source: string;
  /** Whether it can match the empty text. */
  readonly isEmpty: boolean;
}

/** A character of a class by its code, or a set such as `\p{L}`. */
type ClassItem = { readonly code: number } | { readonly set: string };

const MAX_DEPTH = 100;

const WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
/** Outside of brackets, Oniguruma takes characters below 256 as Latin-1, where ²³¹¼½¾ belong to words. */
const LATIN_WORD = `[${WORD}\\u00b2\\u00b3\\u00b9\\u00bc-\\u00be]`;
const HEX = "0-9A-Fa-f";
const SETS: Readonly<Record<string, string>> = { d: "\\p{Nd}", s: "\\p{White_Space}", w: WORD, h: HEX };
const POSIX: Readonly<Record<string, string>> = {
  alpha: "\\p{Alphabetic}",
  alnum: "\\p{Alphabetic}\\p{Nd}",
  digit: "\\p{Nd}",
  xdigit: HEX,
  word: WORD,
  lower: "\\p{Lowercase}",
  upper: "\\p{Uppercase}",
  space: "\\p{White_Space}",
  blank: "\\t\\p{Zs}",
};
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, a: 7, e: 27 };
const BINARY = [
  "Alphabetic",
  "Any",
  "ASCII",
  "Emoji",
  "Extended_Pictographic",
  "Ideographic",
  "Lowercase",
  "Uppercase",
];

const ANY = "[\\s\\S]";
const ANCHORS: Readonly<Record<string, string>> = {
  "^": `(?:(?<!${ANY})|(?<=\\n)(?=${ANY}))`,
  $: `(?:(?=\\n)|(?!${ANY}))`,
  A: `(?<!${ANY})`,
  z: `(?!${ANY})`,
  Z: `(?=\\n?(?!${ANY}))`,
  b: `(?:(?<!${LATIN_WORD})(?=${LATIN_WORD})|(?<=${LATIN_WORD})(?!${LATIN_WORD}))`,
  B: `(?:(?<!${LATIN_WORD})(?!${LATIN_WORD})|(?<=${LATIN_WORD})(?=${LATIN_WORD}))`,
};

/** Letters that are one character where case is ignored: ß, ﬀ, ﬁ, ﬂ, ﬆ. */
const LIGATED = ["ss", "ff", "fi", "fl", "st"];

/**
 * Compiles an expression for `matchesOf`.
 * @throws SyntaxError if it is not valid or not supported
 */
export function compilePattern(pattern: string): RegExp {
  const translated = new Translator(pattern).translate();
  try {
    return new RegExp(translated, "gv");
  } catch (error) {
    // V8 quotes the whole expression before the reason.
    const { message } = error as Error;
    throw new SyntaxError(
      `its expression ${shorten(pattern)} is not valid: ${message.slice(message.lastIndexOf(": ") + 2)}`,
    );
  }
}

/** The matches in a text, as [start, end]. No empty one follows another match directly, as in rust-onig. */
export function matchesOf(pattern: RegExp, text: string): [start: number, end: number][] {
  const found: [number, number][] = [];
  let last = -1;
  pattern.lastIndex = 0;
  for (let match = pattern.exec(text); match; match = pattern.exec(text)) {
    const { index } = match;
    const end = index + match[0].length;
    // V8 also finds an empty match between the halves of a surrogate pair.
    if (end === index && isWithinPair(text, index)) {
      pattern.lastIndex++;
      continue;
    }
    if (end === index) pattern.lastIndex += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
    if (end === index && index === last) continue;
    found.push([index, end]);
    last = end;
  }
  return found;
}

const isWithinPair = (text: string, at: number): boolean => at > 0 && (text.codePointAt(at - 1) ?? 0) > 0xffff;

const escaped = (code: number): string => {
  const character = String.fromCodePoint(code);
  return /[A-Za-z0-9]/.test(character) ? character : `\\u{${code.toString(16)}}`;
};

class Translator {
  readonly #pattern: string;
  #at = 0;
  #depth = 0;
  #behind = 0;
  #atomic = 0;
  /** Whether case is ignored, and whether a dot matches line feeds. */
  #options = { i: false, m: false };

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  translate(): string {
    const { source } = this.#alternatives();
    if (this.#at < this.#pattern.length) this.#refuse("has a parenthesis that does not open");
    return source;
  }

  #refuse(problem: string): never {
    throw new SyntaxError(`its expression ${shorten(this.#pattern)} ${problem}`);
  }

  #unsupported(what: string): never {
    this.#refuse(`has ${shorten(what)}, which is not supported`);
  }

  /** Takes the text that a sticky expression matches here; undefined where it does not. */
  #take(expected: RegExp): RegExpExecArray | undefined {
    expected.lastIndex = this.#at;
    const found = expected.exec(this.#pattern);
    if (!found) return undefined;
    this.#at = expected.lastIndex;
    return found;
  }

  #character(): string | undefined {
    const code = this.#pattern.codePointAt(this.#at);
    if (code === undefined) return undefined;
    const character = String.fromCodePoint(code);
    this.#at += character.length;
    return character;
  }

  /** Alternatives up to the end of their group. */
  #alternatives(): Translated {
    if (++this.#depth > MAX_DEPTH) this.#refuse(`nests deeper than ${MAX_DEPTH} levels`);
    const options = this.#options;
    const all = [this.#sequence()];
    while (this.#take(/\|/y)) all.push(this.#sequence());
    this.#options = options;
    this.#depth--;
    return { source: all.map(({ source }) => source).join("|"), isEmpty: all.some(({ isEmpty }) => isEmpty) };
  }

  #sequence(): Translated {
    let source = "";
    let isEmpty = true;
    let letters = "";
    while (this.#at < this.#pattern.length && !/[|)]/.test(this.#pattern.charAt(this.#at))) {
      const start = this.#at;
      if (this.#take(/\(\?#[^)]*\)/y)) continue;
      const options = this.#take(/\(\?([a-z]*)(?:-([a-z]*))?\)/y);
      if (options) {
        // Set within an alternative, they would bind the rest of it more closely than the alternatives after it.
        if (source !== "") this.#unsupported("options within an alternative");
        this.#set(options);
        continue;
      }
      const part = this.#quantified(this.#atom());
      const raw = this.#pattern.slice(start, this.#at);
      letters = this.#options.i && /^[A-Za-z]$/.test(raw) ? letters + raw.toLowerCase() : "";
      if (LIGATED.includes(letters.slice(-2))) this.#unsupported(`${letters.slice(-2)} without regard to case`);
      source += part.source;
      isEmpty &&= part.isEmpty;
    }
    return { source, isEmpty };
  }

  #set([, on = "", off = ""]: RegExpExecArray): void {
    if (/[^im]/.test(on + off)) this.#unsupported(`the option ${on}${off}`);
    const of = (name: "i" | "m") => !off.includes(name) && (on.includes(name) || this.#options[name]);
    this.#options = { i: of("i"), m: of("m") };
  }

  #quantified(atom: Translated): Translated {
    let { source, isEmpty } = atom;
    for (;;) {
      const simple = this.#take(/([*+?])([+?]?)/y);
      const counted = simple ? undefined : this.#take(/\{(?:(\d+)(,?)(\d*)|(),(\d+))\}/y);
      if (!simple && !counted) return { source, isEmpty };
      const [least, most] = simple
        ? LIMITS[simple[1] as keyof typeof LIMITS]
        : this.#counts(counted as RegExpExecArray);
      if (isEmpty && most > 1) this.#unsupported("a repetition of what may be empty");
      const isExact = counted !== undefined && least === most;
      const mode = simple ? simple[2] : !isExact && this.#take(/\?/y) ? "?" : "";
      const times = `{${least},${most === Number.POSITIVE_INFINITY ? "" : most}}`;
      source = `(?:${source})${times}`;
      if (mode === "?") source += "?";
      if (mode === "+") source = this.#atomicGroup(source);
      isEmpty ||= least === 0;
    }
  }

  #counts([, from, comma, to, , most]: RegExpExecArray): [number, number] {
    if (from === undefined) return [0, Number(most)];
    const least = Number(from);
    const limit = comma === "" ? least : to === "" ? Number.POSITIVE_INFINITY : Number(to);
    if (limit < least) this.#unsupported("a repetition of which the second number is lower");
    return [least, limit];
  }

  /** What it matches first is not tried again. */
  #atomicGroup(source: string): string {
    if (this.#behind > 0) this.#unsupported("an atomic group in a look-behind");
    const name = `a${this.#atomic++}`;
    return `(?:(?=(?<${name}>${source}))\\k<${name}>)`;
  }

  #atom(): Translated {
    const character = this.#character() ?? "";
    switch (character) {
      case "(":
        return this.#group();
      case "[":
        return { source: this.#class(), isEmpty: false };
      case ".":
        return { source: this.#options.m ? ANY : "[^\\n]", isEmpty: false };
      case "^":
      case "$":
        return { source: ANCHORS[character] as string, isEmpty: true };
      case "*":
      case "+":
      case "?":
        return this.#refuse("has a repetition of nothing");
      case "\\": {
        const anchor = this.#take(/[AzZbB]/y);
        if (anchor) return { source: ANCHORS[anchor[0]] as string, isEmpty: true };
        if (this.#take(/w/y)) return { source: LATIN_WORD, isEmpty: false };
        if (this.#take(/W/y)) return { source: LATIN_WORD.replace("[", "[^"), isEmpty: false };
        const item = this.#escape();
        return { source: "set" in item ? `[${item.set}]` : this.#literal(item.code), isEmpty: false };
      }
      default:
        return { source: this.#literal(character.codePointAt(0) ?? 0), isEmpty: false };
    }
  }

  #literal(code: number): string {
    const folded = this.#options.i ? this.#folded(code) : [code];
    return folded.length === 1 ? escaped(code) : `[${folded.map(escaped).join("")}]`;
  }

  /** The characters that equal one if case is ignored. */
  #folded(code: number): number[] {
    const character = String.fromCodePoint(code);
    const [lower, upper] = [character.toLowerCase(), character.toUpperCase()];
    if (lower === upper) return [code];
    if (code > 127) this.#unsupported(`${character} without regard to case`);
    const others = { k: [0x212a], s: [0x17f] }[lower] ?? [];
    return [lower.charCodeAt(0), upper.charCodeAt(0), ...others];
  }

  #group(): Translated {
    const kind = this.#take(/\?(?:<?[=!]|[:>]|<[A-Za-z_]\w*>|([a-z]*)(?:-([a-z]*))?:)/y);
    if (!kind && this.#take(/\?/y)) this.#unsupported(`the group (?${this.#character() ?? ""}`);
    const options = this.#options;
    const [opening = ""] = kind ?? [];
    if (kind && /^\?[a-z-]/.test(opening)) this.#set(kind);
    const isBehind = opening.startsWith("?<=") || opening.startsWith("?<!");
    if (isBehind) this.#behind++;
    const inner = this.#alternatives();
    if (isBehind) this.#behind--;
    if (!this.#take(/\)/y)) this.#refuse("has a parenthesis that does not close");
    this.#options = options;
    if (/^\?<?[=!]$/.test(opening)) return { source: `(${opening}${inner.source})`, isEmpty: true };
    const source = opening === "?>" ? this.#atomicGroup(inner.source) : `(?:${inner.source})`;
    return { source, isEmpty: inner.isEmpty };
  }

  /** A character or set after a backslash. */
  #escape(): ClassItem {
    const property = this.#take(/([pP])\{(\^?)([^}]*)\}/y);
    if (property) {
      const [, kind, caret, name = ""] = property;
      return { set: `\\${(kind === "P") === (caret === "^") ? "p" : "P"}{${this.#property(name)}}` };
    }
    const hexadecimal = this.#take(/x\{0*([0-9A-Fa-f]{1,6})\}|x([0-7][0-9A-Fa-f])|u([0-9A-Fa-f]{4})/y);
    if (hexadecimal) return { code: Number.parseInt(hexadecimal.slice(1).find(Boolean) as string, 16) };
    const octal = this.#take(/0[0-7]{0,2}/y);
    if (octal) return { code: Number.parseInt(octal[0], 8) };
    const character = this.#character();
    if (character === undefined) this.#refuse("ends in a backslash");
    const set = SETS[character.toLowerCase()];
    if (set !== undefined) return { set: character in SETS ? set : `[^${set}]` };
    const control = CONTROLS[character];
    if (control !== undefined) return { code: control };
    if (/[A-Za-z0-9]/.test(character)) this.#unsupported(`\\${character}`);
    return { code: character.codePointAt(0) ?? 0 };
  }

  #property(name: string): string {
    if (this.#options.i) this.#unsupported(`\\p{${name}} without regard to case`);
    const exists = (property: string) => {
      try {
        return new RegExp(`\\p{${property}}`, "v") instanceof RegExp;
      } catch {
        return false;
      }
    };
    if (BINARY.includes(name)) return name;
    // Oniguruma's punct, digit and cntrl are POSIX's.
    if (/^[A-Z]/.test(name) && !/^(Punct|Digit|Cntrl)$/.test(name)) {
      const found = [`gc=${name}`, `Script=${name}`].find(exists);
      if (found) return found;
    }
    return this.#unsupported(`\\p{${name}}`);
  }

  /** A class after its opening bracket, in the syntax of the flag `v`. */
  #class(): string {
    if (++this.#depth > MAX_DEPTH) this.#refuse(`nests deeper than ${MAX_DEPTH} levels`);
    const negation = this.#take(/\^/y) ? "^" : "";
    if (this.#take(/\]/y)) this.#unsupported("a class that begins with ]");
    const operands: string[] = [""];
    let isFirst = true;
    while (!this.#take(/\]/y)) {
      if (this.#take(/&&/y)) {
        operands.push("");
        isFirst = true;
        continue;
      }
      operands[operands.length - 1] += this.#classItem(isFirst);
      isFirst = false;
    }
    if (operands.includes("")) this.#unsupported("an empty class");
    this.#depth--;
    return `[${negation}${operands.length === 1 ? operands[0] : operands.map((one) => `[${one}]`).join("&&")}]`;
  }

  #classItem(isFirst: boolean): string {
    const posix = this.#take(/\[:(\^?)(\w+):\]/y);
    if (posix) {
      const set = POSIX[posix[2] as string];
      if (set === undefined || this.#options.i) this.#unsupported(posix[0]);
      return posix[1] ? `[^${set}]` : set;
    }
    if (this.#take(/\[/y)) return this.#class();
    const isDash = this.#pattern[this.#at] === "-" && !isFirst;
    const from = this.#classCharacter();
    if ("set" in from) {
      if (/-(?!\]|&&)/y.test(this.#pattern.slice(this.#at))) this.#unsupported("a range from a set");
      return from.set;
    }
    if (!this.#take(/-(?!\]|&&)/y)) return this.#literal(from.code);
    const to = this.#classCharacter();
    if (isDash || "set" in to) this.#unsupported("a range that is not of two characters");
    const range = `${escaped(from.code)}-${escaped(to.code)}`;
    if (!this.#options.i) return range;
    if (to.code > 127) this.#unsupported("a range of other letters without regard to case");
    const codes = Array.from({ length: Math.max(0, to.code - from.code + 1) }, (_, i) => from.code + i);
    return range + codes.map((code) => this.#literal(code)).join("");
  }

  #classCharacter(): ClassItem {
    const character = this.#character();
    if (character === undefined || character === "[") this.#refuse("has a class that does not close");
    if (character !== "\\") return { code: character.codePointAt(0) ?? 0 };
    if (this.#take(/b/y)) return { code: 8 };
    return this.#escape();
  }
}

const LIMITS = { "*": [0, Number.POSITIVE_INFINITY], "+": [1, Number.POSITIVE_INFINITY], "?": [0, 1] } as const;
