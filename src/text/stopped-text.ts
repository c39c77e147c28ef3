// The text of an answer as it grows, up to the first stop text.
import { overlap } from "./text-stages.js";
import type { IncrementalDecoder, Tokenizer } from "./tokenizer.js";

/** The final text of an answer: characters are whole, and no stop text begins in it. */
export class StoppedText {
  readonly #decoder: IncrementalDecoder;
  readonly #stop: readonly string[];
  #text = "";
  /** Where stop texts may begin. */
  #from = 0;
  #emitted = 0;
  /** Text of the tokens before that the decoder still holds back. */
  #owed = "";
  isStopped = false;

  /**
   * @param options.before tokens that the answer continues; without them a tokenizer may drop a space that it begins with
   * @param options.skipSpecialTokens whether special tokens are left out; default true
   */
  constructor(
    tokenizer: Pick<Tokenizer, "incremental" | "decode">,
    stop: readonly string[],
    { before = [], skipSpecialTokens = true }: { before?: readonly number[]; skipSpecialTokens?: boolean } = {},
  ) {
    this.#decoder = tokenizer.incremental({ skipSpecialTokens });
    this.#stop = stop;
    const given = before.map((id) => this.#decoder.push(id)).join("");
    this.#owed = tokenizer.decode(before, { skipSpecialTokens }).slice(given.length);
  }

  get text(): string {
    return this.#text;
  }

  /**
   * @param mayStop whether a stop text may begin before the next token; default true
   * @returns the text that is now final
   */
  push(id: number, mayStop = true): string {
    const more = this.#withoutOwed(this.#decoder.push(id));
    if (!mayStop) this.#from = this.#text.length + more.length;
    return this.#add(more, false);
  }

  end(): string {
    return this.#add(this.isStopped ? "" : this.#withoutOwed(this.#decoder.end()), true);
  }

  #withoutOwed(text: string): string {
    const owed = this.#owed;
    if (text !== "") this.#owed = "";
    return text.startsWith(owed) ? text.slice(owed.length) : text;
  }

  #add(more: string, isLast: boolean): string {
    if (!this.isStopped) {
      const before = this.#text.length;
      this.#text += more;
      const found = this.#stop
        // A stop text may have begun earlier.
        .map((stop) => this.#text.indexOf(stop, Math.max(this.#from, before - stop.length + 1)))
        .filter((at) => at >= 0);
      if (found.length > 0) {
        this.isStopped = true;
        this.#text = this.#text.slice(0, Math.min(...found));
      }
    }
    const certain = isLast || this.isStopped ? this.#text.length : this.#text.length - this.#heldBack();
    const text = this.#text.slice(this.#emitted, certain);
    this.#emitted = Math.max(this.#emitted, certain);
    return text;
  }

  /** Number of characters at the end that may begin a stop text. */
  #heldBack(): number {
    return Math.max(0, ...this.#stop.map((stop) => overlap(this.#text, stop)));
  }
}
