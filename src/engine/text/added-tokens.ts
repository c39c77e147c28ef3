// Added tokens: found in a text before the model sees it. Follows AddedVocabulary of Hugging Face `tokenizers`
// (src/tokenizer/added_vocabulary.rs at 3ba8ad0). Not the model's own vocabulary.
import { type AddedToken, type CheckedJson, highest } from "./tokenizer-json.js";
import { listedTokens, type NamedToken, type TokenizerSettings } from "./tokenizer-settings.js";
import { endsWithWord, isSpace, startsWithWord } from "./unicode.js";

/** An added token with the text it is matched as, and decoded from: its content, normalized where it says so. */
interface Added extends AddedToken {
  pattern: string;
}

/** A stretch of text, or an added token found in it. */
export interface Section {
  readonly text: string;
  /** Id of the added token; undefined for plain text. */
  readonly id: number | undefined;
}

/** Letters (UTF-16 units) to nodes; a node where a token ends holds it. */
interface Node {
  readonly next: Map<number, Node>;
  token: Added | undefined;
}

export class AddedTokens {
  readonly byId = new Map<number, Added>();
  readonly byContent = new Map<string, Added>();
  #plain: Node = { next: new Map(), token: undefined };
  #normalized: Node = { next: new Map(), token: undefined };

  /**
   * Those of a tokenizer.json, and those that settings add to them. As in transformers, a token that settings name
   * counts as special, and one without an id gets that of the vocabulary, or the first that is free after all others.
   */
  constructor(json: CheckedJson, named: ReadonlyMap<string, NamedToken>, settings: TokenizerSettings) {
    for (const token of json.added) this.#set(token);
    const size = json.vocabulary.size;
    let next = Math.max(size, this.highestId + 1);
    for (const token of [...listedTokens(settings), ...named.values()]) {
      const known = this.byContent.get(token.content);
      if (known && (known.special || !token.isNamed)) continue;
      const id = known?.id ?? json.vocabulary.get(token.content) ?? next++;
      this.#set(known ? { ...known, special: true } : { ...token, id });
    }
    this.normalizeWith((text) => text);
  }

  get highestId(): number {
    return highest(this.byId.keys());
  }

  #set(token: AddedToken): void {
    const added = { ...token, pattern: token.content };
    this.byId.set(added.id, added);
    this.byContent.set(added.content, added);
  }

  /** Says how text is normalized, and so what tokens that are looked for in normalized text look like there. */
  normalizeWith(normalize: (text: string) => string): void {
    this.#plain = { next: new Map(), token: undefined };
    this.#normalized = { next: new Map(), token: undefined };
    for (const token of this.byId.values()) {
      token.pattern = token.normalized ? normalize(token.content) : token.content;
      if (token.pattern !== "") insert(token.normalized ? this.#normalized : this.#plain, token);
    }
  }

  /** Splits a text at the tokens that are looked for before it is normalized. */
  split(text: string): Section[] {
    return splitAt(this.#plain, text);
  }

  /** Splits normalized text at the tokens that are looked for in it. */
  splitNormalized(text: string): Section[] {
    return splitAt(this.#normalized, text);
  }
}

function insert(root: Node, token: Added): void {
  let node = root;
  for (let i = 0; i < token.pattern.length; i++) {
    const letter = token.pattern.charCodeAt(i);
    let next = node.next.get(letter);
    if (!next) {
      next = { next: new Map(), token: undefined };
      node.next.set(letter, next);
    }
    node = next;
  }
  node.token = token;
}

/** The longest token that starts at a place of a text. */
function longest(root: Node, text: string, from: number): Added | undefined {
  let found: Added | undefined;
  let node: Node | undefined = root;
  for (let i = from; node; i++) {
    found = node.token ?? found;
    node = i < text.length ? node.next.get(text.charCodeAt(i)) : undefined;
  }
  return found;
}

function splitAt(root: Node, text: string): Section[] {
  if (root.next.size === 0) return text === "" ? [] : [{ text, id: undefined }];
  const sections: Section[] = [];
  let done = 0;
  for (let from = 0; from < text.length; ) {
    const token = longest(root, text, from);
    if (!token) {
      from++;
      continue;
    }
    let start = from;
    let end = from + token.pattern.length;
    from = end;
    if (token.singleWord && (endsWithWord(text.slice(0, start)) || startsWithWord(text.slice(end)))) continue;
    if (token.lstrip) while (start > done && isSpace(text[start - 1])) start--;
    if (token.rstrip) while (isSpace(text[end])) end++;
    if (done < start) sections.push({ text: text.slice(done, start), id: undefined });
    sections.push({ text: text.slice(start, end), id: token.id });
    done = end;
  }
  if (done < text.length) sections.push({ text: text.slice(done), id: undefined });
  return sections;
}
