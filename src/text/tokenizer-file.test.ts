// The fast reading of a tokenizer.json against JSON.parse: the same tokenizer, or JSON.parse's own answer.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CheckpointError } from "../kit/index.js";
import { LaterMerges } from "./merge-table.js";
import { hashOf, TokenTable } from "./token-table.js";
import { JsonTokenizer } from "./tokenizer.js";
import { parseTokenizer } from "./tokenizer-file.js";
import type { TokenizerJson } from "./tokenizer-json.js";

const parse = (text: string | Buffer) => parseTokenizer(Buffer.from(text), "FILE") as TokenizerJson;
const isFast = (json: TokenizerJson) => (json.model as { vocab: unknown }).vocab instanceof TokenTable;

const TOKENS = [
  "<unk>",
  "a",
  "b",
  "é",
  "한",
  "👍",
  " ",
  "\n",
  '"',
  "\\",
  "\u0001",
  "ab",
  "é한",
  "👍👍",
  "aab",
  "abab",
  "0",
  "__proto__",
];
const vocab = Object.fromEntries(TOKENS.map((token, id) => [token, id]));
const MERGES = [
  ["👍", "👍"],
  ["é", "한"],
  ["a", "ab"],
  ["a", "b"],
  ["ab", "ab"],
  ["a", "ab"],
]; // prettier-ignore
const TEXTS = ["abab", "aabab", "é한👍👍👍", 'a"\\\n\u0001b', "xaby", "\ud83d", "한é0ab", ""];
const json = (merges: unknown, more: object = {}) => ({
  model: { type: "BPE", unk_token: "<unk>", vocab, merges, ...more },
});
const PAIRS = json(MERGES);
const ENTITIES = JSON.stringify(PAIRS).replace(
  /[^ -~]/g,
  (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
);

describe("a tokenizer.json", () => {
  it.each([
    ["with merges in pairs", JSON.stringify(PAIRS)],
    ["with merges in strings", JSON.stringify(json(MERGES.map((pair) => pair.join(" "))))],
    [
      "on many lines",
      JSON.stringify({ version: "1.0", added_tokens: [{ id: 18, content: "<|x|>" }], ...PAIRS }, null, 2),
    ],
    ["with escapes for all that is not ASCII", ENTITIES],
    ["of words", JSON.stringify({ model: { type: "WordLevel", vocab, unk_token: "<unk>" } })],
    ["without merges", JSON.stringify(json([]))],
    ["with two tokens of one id", JSON.stringify(json([], { vocab: { ...vocab, z: 1 } }))],
  ])("%s is read fast, and to the same tokenizer", (_, text) => {
    const value = parse(text);
    expect(isFast(value)).toBe(true);
    const [fast, slow] = [new JsonTokenizer(value), new JsonTokenizer(JSON.parse(text) as TokenizerJson)];
    for (const word of TEXTS) expect(fast.encode(word)).toEqual(slow.encode(word));
    expect(fast.vocabularySize).toBe(slow.vocabularySize);
    for (let id = -1; id <= fast.vocabularySize; id++) expect(fast.tokenOf(id)).toBe(slow.tokenOf(id));
    for (const token of [...TOKENS, "z", "<|x|>", "none", "a".repeat(100)])
      expect(fast.idOf(token)).toBe(slow.idOf(token));
  });

  it.each([
    ["a token twice", '{"model": {"vocab": {"a": 0, "a": 1}, "merges": []}}'],
    ["two vocabularies", '{"model": {"vocab": {"a": 0}, "vocab": {"b": 0}, "merges": []}}'],
    ["two models", '{"model": {"vocab": {"a": 0}, "merges": []}, "model": {"vocab": null}}'],
    ["a half of a surrogate pair", '{"model": {"vocab": {"\\ud83d": 0}, "merges": []}}'],
    [
      "bytes that are not UTF-8",
      Buffer.from([...Buffer.from('{"model": {"vocab": {"'), 0xff, ...Buffer.from('": 0}}}')]),
    ],
    ["an id in a fraction", '{"model": {"vocab": {"a": 0.0}, "merges": []}}'],
    ["an id beyond all tables", '{"model": {"vocab": {"a": 10000001}, "merges": []}}'],
    ["a prefix of later pieces", JSON.stringify(json([], { continuing_subword_prefix: "##" }))],
    ["scores", '{"model": {"vocab": [["a", 0]]}}'],
    ["merges that are not a list", '{"model": {"vocab": {"a": 0}, "merges": null}}'],
    ["a list of numbers beside it", "[1]"],
  ])("with %s is left to JSON.parse", (_, text) => {
    expect(parse(text)).toEqual(JSON.parse(text.toString("utf8")));
  });

  it.each([
    ["no end", '{"model": {"vocab": {"a": 0'],
    ["text after its end", `${JSON.stringify(PAIRS)}]`],
    ["a comma too many", '{"model": {"vocab": {"a": 0,}, "merges": []}}'],
    ["a zero before an id", '{"model": {"vocab": {"a": 01}, "merges": []}}'],
    ["a control character in a token", '{"model": {"vocab": {"\n": 0}, "merges": []}}'],
    ["no colon", '{"model": {"vocab": {"a" 0}, "merges": []}}'],
    ["an error in another field", '{"model": {"vocab": {"a": 0}, "merges": [], "x": tru}}'],
    ["nothing", ""],
  ])("with %s is no JSON", (_, text) => {
    expect(() => parse(text)).toThrow(SyntaxError);
  });

  it.each([
    ["of a token that is not there", [["a", "q"]], /FILE: .*merge 0, \["a","q"\], has tokens that are not in its/],
    ["of three tokens", ["a b a"], /FILE: .*merge 0, "a b a", has tokens/],
    ["of one token", ["a"], /FILE: .*merge 0, "a", has tokens/],
    ["in both forms", [["a", "b"], "a b"], /FILE: .*merge 1 is not a pair/],
    [
      "of numbers",
      [
        ["a", "b"],
        [1, 2],
      ],
      /FILE: .*merge 1 is not a pair/,
    ],
  ])("with a merge %s is refused when a word is merged", (_, merges, message) => {
    const value = parse(JSON.stringify(json(merges)));
    expect(isFast(value)).toBe(true);
    const tokenizer = new JsonTokenizer(value);
    expect(() => tokenizer.encode("ab")).toThrow(CheckpointError);
    expect(() => tokenizer.encode("ab")).toThrow(message);
  });

  it("with damage is what JSON.parse makes of it, or refused", () => {
    const text = JSON.stringify(json(MERGES.map((pair) => pair.join(" "))));
    const other = fc.constantFrom(...'"\\,:[]{} 01a\u0001é');
    const damage = fc.tuple(fc.nat(text.length), fc.nat(2), fc.array(other, { maxLength: 2 }));
    const encoded = (make: () => TokenizerJson) => {
      try {
        const tokenizer = new JsonTokenizer(make());
        return TEXTS.map((one) => tokenizer.encode(one));
      } catch (error) {
        if (!(error instanceof CheckpointError || error instanceof SyntaxError)) throw error;
        return "refused";
      }
    };
    const check = fc.property(damage, ([at, removed, added]) => {
      const damaged = text.slice(0, at) + added.join("") + text.slice(at + removed);
      expect(encoded(() => parse(damaged))).toEqual(encoded(() => JSON.parse(damaged) as TokenizerJson));
    });
    fc.assert(check, { numRuns: 300 });
  });

  it("with merges that are not JSON is refused when a word is merged", () => {
    const value = parse('{"model": {"vocab": {"a": 0}, "merges": ["a a" "a a"]}}');
    expect((value.model as { merges: unknown }).merges).toBeInstanceOf(LaterMerges);
    expect(() => new JsonTokenizer(value).encode("aa")).toThrow(/^FILE is not valid JSON/);
  });
});

// Pairs of texts with the same hash after any of the pairs before, as in Joux 2004: 2 ** 7 texts with one hash.
const COLLISIONS = [
  ["76mmiq", "2391dx"],
  ["uuxd08", "19xroen"],
  ["6ah2a5", "w9gl1q"],
  ["1bhgix", "168vjom"],
  ["jq8j80", "1k53a97"],
  ["1pggb4v", "hhacrg"],
  ["12yf02f", "1v4h2r3"],
];

describe("a table of tokens", () => {
  const tableOf = (tokens: readonly string[]) => {
    const starts = [0];
    for (const token of tokens) starts.push((starts.at(-1) ?? 0) + token.length);
    return TokenTable.of(Buffer.from(tokens.join("")), Int32Array.from(starts), Int32Array.from(tokens.keys()));
  };

  it("is not made of tokens that were chosen to have one hash", () => {
    let chosen = [""];
    for (const pair of COLLISIONS) chosen = chosen.flatMap((text) => pair.map((more) => text + more));
    const hashes = new Set(chosen.map((text) => hashOf(Buffer.from(text), 0, text.length)));
    expect([chosen.length, hashes.size]).toEqual([128, 1]);
    expect(tableOf(chosen)).toBeUndefined();
    expect(tableOf(chosen.slice(0, 20))?.get(chosen[19] ?? "")).toBe(19);
  });

  it("is not made of a token that is there twice", () => {
    expect(tableOf(["ab", "cd", "ef"])?.get("cd")).toBe(1);
    expect(tableOf(["ab", "cd", "ab"])).toBeUndefined();
  });
});
