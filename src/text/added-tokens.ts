// Added tokens, which are matched in a text before the model sees it. Follows AddedVocabulary of Hugging Face
// `tokenizers` (src/tokenizer/added_vocabulary.rs at 3ba8ad0).
import { Matcher } from "./matcher.js";
import { type AddedToken, type CheckedJson, problem, quoted } from "./tokenizer-json.js";
import { listedTokens, type NamedToken, type TokenizerSettings } from "./tokenizer-settings.js";
import { endsWithWord, isSpace, startsWithWord } from "./unicode.js";

/** An added token with its text for matching and decoding: the content, normalized where `normalized` is set. */
interface Added extends AddedToken {
  pattern: string;
}

/** A piece of a text: plain text, or an added token. */
export interface Section {
  readonly text: string;
  /** Id of the added token; undefined for plain text. */
  readonly id: number | undefined;
}

export class AddedTokens {
  readonly byId = new Map<number, Added>();
  readonly byContent = new Map<string, Added>();
  #plain = new Matcher<Added>([]);
  #normalized = new Matcher<Added>([]);
  #highestId = -1;

  /**
   * Tokens of a tokenizer.json, and those that settings add. As in transformers, a token that settings name is special,
   * and one without an id gets that of the vocabulary, or the next free one.
   * `normalizeWith` must be called before use.
   */
  constructor(json: CheckedJson, named: ReadonlyMap<string, NamedToken>, settings: TokenizerSettings) {
    const size = json.vocabulary.size;
    for (const token of json.added) {
      // `tokenizers` does not read the id of an added token: the vocabulary's counts, or the next one.
      const known = this.byContent.get(token.content)?.id ?? json.vocabulary.get(token.content);
      const id = known ?? Math.max(size, this.highestId + 1);
      if (token.id !== id) {
        const message = `its added token ${quoted(token.content)} has the id ${token.id}, but its place in the vocabulary is ${id}`;
        throw problem(message, "added_tokens");
      }
      this.#set(token);
    }
    let next = Math.max(size, this.highestId + 1);
    for (const token of [...listedTokens(settings), ...named.values()]) {
      const known = this.byContent.get(token.content);
      if (known && (known.special || !token.isNamed)) continue;
      const id = known?.id ?? json.vocabulary.get(token.content) ?? next++;
      this.#set(known ? { ...known, special: true } : { ...token, id });
    }
  }

  get highestId(): number {
    return this.#highestId;
  }

  #set(token: AddedToken): void {
    const added = { ...token, pattern: token.content };
    this.#highestId = Math.max(this.#highestId, added.id);
    this.byId.set(added.id, added);
    this.byContent.set(added.content, added);
  }

  /** Sets how texts are normalized, and normalizes the tokens that are matched in normalized text. */
  normalizeWith(normalize: (texts: readonly string[]) => string[]): void {
    const changed = [...this.byId.values()].filter(({ normalized }) => normalized);
    const patterns = normalize(changed.map(({ content }) => content));
    for (const [i, token] of changed.entries()) token.pattern = patterns[i] ?? token.content;
    const matcher = (normalized: boolean) => {
      const all = [...this.byId.values()].filter((token) => token.normalized === normalized && token.pattern !== "");
      return new Matcher(all.map((token) => [token.pattern, token]));
    };
    this.#plain = matcher(false);
    this.#normalized = matcher(true);
  }

  /** Splits a text at the tokens that are matched before normalization. */
  split(text: string): Section[] {
    return splitAt(this.#plain, text);
  }

  /** Splits normalized text at the tokens that are matched in it. */
  splitNormalized(text: string): Section[] {
    return splitAt(this.#normalized, text);
  }
}

/** Splits at the leftmost tokens, of those that start at one place at the longest: `LeftmostLongest` in `tokenizers`. */
function splitAt(matcher: Matcher<Added>, text: string): Section[] {
  if (matcher.isEmpty) return text === "" ? [] : [{ text, id: undefined }];
  const sections: Section[] = [];
  let done = 0;
  // End of the last white space that was skipped; no run is scanned twice.
  let spaceEnd = 0;
  let from = 0;
  for (const { value: token, ...found } of matcher.longest(text)) {
    if (found.start < from) continue;
    let { start, end } = found;
    from = end;
    if (token.singleWord && (endsWithWord(text.slice(0, start)) || startsWithWord(text.slice(end)))) continue;
    if (token.lstrip) {
      while (start > done && isSpace(text[start - 1])) start--;
      start = Math.max(start, done);
    }
    if (token.rstrip) {
      spaceEnd = Math.max(spaceEnd, end);
      while (isSpace(text[spaceEnd])) spaceEnd++;
      end = spaceEnd;
    }
    if (done < start) sections.push({ text: text.slice(done, start), id: undefined });
    if (start < end) sections.push({ text: text.slice(start, end), id: token.id });
    done = end;
  }
  if (done < text.length) sections.push({ text: text.slice(done), id: undefined });
  return sections;
}
