// Streams of text: the same as decoding at once, and what was given stays.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EXPECTED, fixture, NAMES, TEXTS, tokenizerJson } from "../../test/support/tokenizer-fixtures.js";
import { JsonTokenizer, type Tokenizer } from "./tokenizer.js";

const CLEANED: [string, Tokenizer][] = ["words", "unigram"].map((name) => [
  `${name}, cleaned up`,
  new JsonTokenizer(tokenizerJson(name), { clean_up_tokenization_spaces: true }),
]);
const ALL: [string, Tokenizer][] = [...NAMES.map((name): [string, Tokenizer] => [name, fixture(name)]), ...CLEANED];

/** Ids at random, some of them often, so that bytes come in runs and characters are sometimes whole. */
function idsOf(tokenizer: Tokenizer): fc.Arbitrary<number[]> {
  const any = fc.nat({ max: tokenizer.vocabularySize + 1 });
  const few = fc.uniqueArray(any, { minLength: 1, maxLength: 8 });
  const texts = fc.constantFrom(...TEXTS).map((text) => tokenizer.encode(text));
  return few.chain((some) => {
    const id = fc.oneof(any, fc.constantFrom(...some));
    return fc.array(fc.oneof(fc.array(id, { maxLength: 6 }), texts), { maxLength: 4 }).map((parts) => parts.flat());
  });
}

/** Whether a text has half of a surrogate pair. */
const hasHalf = (text: string) => /\p{Surrogate}/u.test(text);

describe.each(ALL)("a stream of the %s tokenizer", (_, tokenizer) => {
  it("gives what decoding at once gives, and nothing that later ids change", () => {
    const ids = idsOf(tokenizer);
    fc.assert(
      fc.property(ids, ids, fc.boolean(), (first, later, skipSpecialTokens) => {
        const stream = tokenizer.incremental({ skipSpecialTokens });
        const pieces = first.map((id) => stream.push(id));
        const given = pieces.join("");
        expect(pieces.some(hasHalf)).toBe(false);
        expect(tokenizer.decode([...first, ...later], { skipSpecialTokens }).startsWith(given)).toBe(true);
        expect(given + stream.end()).toBe(tokenizer.decode(first, { skipSpecialTokens }));
      }),
      { numRuns: 40 },
    );
  });

  it("gives the texts of all scripts", () => {
    const stream = tokenizer.incremental();
    for (const text of TEXTS) {
      const ids = tokenizer.encode(text);
      expect(ids.map((id) => stream.push(id)).join("") + stream.end()).toBe(tokenizer.decode(ids));
    }
  });
});

describe("a stream", () => {
  it.each(["llama3", "qwen", "gpt2"])("of bytes holds back what is not a whole character, no more: %s", (name) => {
    const tokenizer = fixture(name);
    for (const ids of EXPECTED[name]?.ids ?? []) {
      const stream = tokenizer.incremental();
      let given = "";
      for (const [i, id] of ids.entries()) {
        given += stream.push(id);
        // The ids are of a text, so that only a character that is cut decodes to U+FFFD.
        const soFar = tokenizer.decode(ids.slice(0, i + 1));
        expect(given).toBe(soFar.replace(/\ufffd+$/, given.endsWith("\ufffd") ? "\ufffd" : ""));
      }
    }
  });

  it("of words with fallback to bytes gives words at once and bytes when their run ends", () => {
    const tokenizer = fixture("gemma");
    const ids = tokenizer.encode("the 🙂 sea");
    const stream = tokenizer.incremental();
    const pieces = ids.map((id) => [tokenizer.tokenOf(id), stream.push(id)]);
    const run = pieces.findIndex(([token]) => token === "<0xF0>");
    expect(pieces.slice(run, run + 4)).toEqual(["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"].map((token) => [token, ""]));
    expect(pieces[run + 4]?.[1]).toMatch(/^🙂 /);
    expect(pieces[0]?.[1]).toBe(pieces[0]?.[0]);
  });

  it("starts over after its end", () => {
    const tokenizer = fixture("llama2");
    const stream = tokenizer.incremental();
    const ids = tokenizer.encode("the sea");
    const once = () => ids.map((id) => stream.push(id)).join("") + stream.end();
    expect([once(), once()]).toEqual(["the sea", "the sea"]);
  });
});
