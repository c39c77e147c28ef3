// Tokens and their ids. A Map of a quarter of a million strings takes longer to make than most answers to generate.

/** The tokens of a vocabulary, without added ones. */
export interface TokenIds extends Pick<ReadonlyMap<string, number>, "size" | "get" | "has" | typeof Symbol.iterator> {
  /** The highest id; -1 where there is none. */
  readonly highestId: number;
  /** The token of an id. Of several with one id, the last. */
  tokenOf(id: number): string | undefined;
}

/** Tokens that are strings already. */
export class TokenMap extends Map<string, number> implements TokenIds {
  #tokens: string[] | undefined;

  get highestId(): number {
    let most = -1;
    for (const id of this.values()) most = Math.max(most, id);
    return most;
  }

  tokenOf(id: number): string | undefined {
    if (!this.#tokens) {
      this.#tokens = [];
      for (const [token, own] of this) this.#tokens[own] = token;
    }
    return this.#tokens[id];
  }
}

/** A place that is searched for longer than this, on average, was made to be. Half of the places are free. */
const MAX_STEPS = 16;
const SEED = 0x811c9dc5 | 0;

/** The hash of some bytes (FNV-1a). That of bytes and more bytes continues from the hash of the first. */
export function hashOf(bytes: Uint8Array, from: number, to: number, seed = SEED): number {
  let hash = seed;
  for (let i = from; i < to; i++) hash = Math.imul(hash ^ (bytes[i] as number), 0x01000193);
  return hash;
}

/** Tokens as UTF-8, found by their hashes. */
export class TokenTable implements TokenIds {
  readonly size: number;
  readonly highestId: number;
  /** All tokens, one after another. */
  readonly #bytes: Buffer;
  /** First byte of each token, and the end of the last. */
  readonly #starts: Int32Array;
  readonly #ids: Int32Array;
  readonly #hashes: Int32Array;
  /** Places of tokens in the lists, from 1; 0 is free. */
  readonly #slots: Int32Array;
  readonly #byId: Int32Array;
  readonly #scratch: Uint8Array;

  private constructor(bytes: Buffer, starts: Int32Array, ids: Int32Array) {
    this.#bytes = bytes;
    this.#starts = starts;
    this.#ids = ids;
    this.size = ids.length;
    let [highest, longest] = [-1, 0];
    for (let i = 0; i < ids.length; i++) {
      highest = Math.max(highest, ids[i] as number);
      longest = Math.max(longest, this.#start(i + 1) - this.#start(i));
    }
    this.highestId = highest;
    this.#hashes = new Int32Array(ids.length);
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(2 * ids.length + 2)));
    this.#byId = new Int32Array(highest + 1);
    this.#scratch = new Uint8Array(longest);
  }

  /**
   * Makes a table.
   * @param bytes UTF-8 of all tokens, one after another
   * @param starts first byte of each, and the end of the last: as many as ids, and one
   * @returns undefined if a token is there twice, or many were chosen to have the same hash
   */
  static of(bytes: Buffer, starts: Int32Array, ids: Int32Array): TokenTable | undefined {
    const table = new TokenTable(bytes, starts, ids);
    return table.#fill() ? table : undefined;
  }

  #fill(): boolean {
    const mask = this.#slots.length - 1;
    let left = MAX_STEPS * this.size + 1000;
    for (let i = 0; i < this.size; i++) {
      const [from, to] = [this.#start(i), this.#start(i + 1)];
      const hash = hashOf(this.#bytes, from, to);
      let slot = spread(hash) & mask;
      for (; this.#slots[slot] !== 0; slot = (slot + 1) & mask) {
        if (--left < 0 || this.#is((this.#slots[slot] as number) - 1, this.#bytes, from, to, hash)) return false;
      }
      this.#slots[slot] = i + 1;
      this.#hashes[i] = hash;
      this.#byId[this.#ids[i] as number] = i + 1;
    }
    return true;
  }

  get(token: string): number | undefined {
    const length = encodeInto(token, this.#scratch);
    if (length < 0) return undefined;
    const id = this.find(this.#scratch, 0, length, hashOf(this.#scratch, 0, length));
    return id < 0 ? undefined : id;
  }

  has(token: string): boolean {
    return this.get(token) !== undefined;
  }

  /** The id of a token in UTF-8 with its hash; -1 where there is none. */
  find(bytes: Uint8Array, from: number, to: number, hash: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = spread(hash) & mask; ; slot = (slot + 1) & mask) {
      const place = (this.#slots[slot] as number) - 1;
      if (place < 0) return -1;
      if (this.#is(place, bytes, from, to, hash)) return this.#ids[place] as number;
    }
  }

  tokenOf(id: number): string | undefined {
    const place = this.#byId[id] ?? 0;
    return place === 0 ? undefined : this.#textAt(place - 1);
  }

  *[Symbol.iterator](): MapIterator<[string, number]> {
    for (let i = 0; i < this.size; i++) yield [this.#textAt(i), this.#ids[i] as number];
  }

  #start(place: number): number {
    return this.#starts[place] as number;
  }

  #is(place: number, bytes: Uint8Array, from: number, to: number, hash: number): boolean {
    const start = this.#start(place);
    if (this.#hashes[place] !== hash || this.#start(place + 1) - start !== to - from) return false;
    for (let i = from; i < to; i++) if (this.#bytes[start + i - from] !== bytes[i]) return false;
    return true;
  }

  #textAt(place: number): string {
    return this.#bytes.toString("utf8", this.#start(place), this.#start(place + 1));
  }
}

/** Hashes that differ in their high bits alone differ in the low ones, too. */
function spread(hash: number): number {
  const mixed = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return mixed ^ (mixed >>> 13);
}

/** Writes a text as UTF-8. @returns how many bytes; -1 if there are more than have place, or half of a surrogate pair */
function encodeInto(text: string, bytes: Uint8Array): number {
  let at = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.codePointAt(i) as number;
    if (code < 0x80) bytes[at++] = code;
    else if (code < 0x800) {
      bytes[at++] = 0xc0 | (code >> 6);
      bytes[at++] = 0x80 | (code & 63);
    } else {
      if (code >= 0xd800 && code < 0xe000) return -1;
      if (code > 0xffff) {
        i++;
        bytes[at++] = 0xf0 | (code >> 18);
        bytes[at++] = 0x80 | ((code >> 12) & 63);
      } else bytes[at++] = 0xe0 | (code >> 12);
      bytes[at++] = 0x80 | ((code >> 6) & 63);
      bytes[at++] = 0x80 | (code & 63);
    }
    if (at > bytes.length) return -1;
  }
  return at;
}
