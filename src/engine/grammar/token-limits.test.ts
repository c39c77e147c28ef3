// Answers limited to a JSON Schema: every drawn answer fits it, and no token that may come is left out.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { writeByteModel } from "../../../test/support/byte-model.js";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { fixture } from "../../../test/support/tokenizer-fixtures.js";
import { Random } from "../../kit/random.js";
import { openEngine } from "../engine.js";
import { answerSchema } from "./answer-schema.js";
import { ByteReader, type State } from "./byte-grammar.js";
import { jsonGrammar } from "./json-grammar.js";
import { sortTokens, TokenLimit } from "./token-limits.js";

const root = temporaryFolder();

const grammarOf = (schema: object) => jsonGrammar(answerSchema(schema as Record<string, unknown>));

/** The state after a text; null where it may not come. */
function readText(schema: object, text: string): State | null {
  const reader = new ByteReader(grammarOf(schema));
  return Buffer.from(text, "utf8").reduce<State | null>(
    (state, byte) => state && reader.next(state, byte),
    reader.start,
  );
}

const PERSON = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 4 },
    age: { type: "integer" },
    tags: { type: "array", items: { enum: ["a", "b", 1] }, maxItems: 2 },
    next: { anyOf: [{ $ref: "#/$defs/link" }, { type: "null" }] },
  },
};
const LINKED = {
  ...PERSON,
  $defs: { link: { type: "object", properties: { next: { type: ["boolean", "number"] } } } },
};

describe("a grammar of JSON", () => {
  it.each([
    [{}, '{"a": [1, -0.5e-3, "é\\u00e9\\n😀", {}, []], "b": null}'],
    [{ type: "object" }, JSON.stringify({ a: [true, { b: "x" }] }, undefined, 2)],
    [LINKED, JSON.stringify({ name: "éa😀b", age: -12, tags: ["a", 1], next: { next: 1.5 } })],
    [LINKED, JSON.stringify({ name: "x", age: 0, tags: [], next: null }, undefined, 2)],
    [{ type: "array", items: { type: "number" }, minItems: 2 }, "[1, 2, 3]"],
    [{ type: "array", prefixItems: [{ type: "null" }, { type: "boolean" }] }, "[null, true]"],
    [{ type: "string", format: "date-time" }, '"2026-11-29T09:30:00.5+03:00"'],
    [{ type: "object", additionalProperties: { type: "integer" } }, '{"a": 1,"b":2}'],
  ])("of %j has %s", (schema, text) => {
    expect(readText(schema, text)?.isComplete).toBe(true);
    for (let end = 0; end < text.length; end++) expect(readText(schema, text.slice(0, end))).not.toBeNull();
  });

  it.each<[object, ...string[]]>([
    [{ type: "object" }, "[", "{a", '{"a" 1', "{}{", '{"a": 01', '{"a": "\n'],
    [
      LINKED,
      '{"age"',
      '{"name": ""',
      '{"name": "abcde',
      '{"name": "a", "age": 1.',
      '{"name": "a", "age": 1, "tags": ["c',
    ],
    [LINKED, '{"name": "a", "age": 1, "tags": ["a", "a",', '{"name": "a", "age": 1, "tags": [], "next": {}'],
    [{ type: "array", items: { type: "number" }, minItems: 2 }, "[1]"],
    [{ type: "string", format: "date" }, '"2026-13', '"2026-01-32'],
    [{ type: "object", additionalProperties: false }, '{"'],
  ])("of %j has none of the other texts", (schema, ...texts) => {
    for (const text of texts) expect(readText(schema, text), text).toBeNull();
  });

  it("ends where a definition refers to itself at once", () => {
    const schema = { $ref: "#/$defs/a", $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }, { type: "null" }] } } };
    expect(readText(schema, "null")?.isComplete).toBe(true);
  });

  it("needs no more states for longer texts", () => {
    const reader = new ByteReader(grammarOf({ type: "string" }));
    let state: State | null = reader.next(reader.start, 0x22);
    const before = reader.size;
    for (let i = 0; i < 10_000; i++) state = state && reader.next(state, 0x61);
    expect([state !== null, reader.size - before]).toEqual([true, 0]);
  });
});

describe.each(["llama3", "qwen", "llama2", "gemma", "mistral", "unigram-bytes"])("tokens of %s", (name) => {
  const tokenizer = fixture(name);
  const sorted = sortTokens(tokenizer);
  const stopIds = new Set([tokenizer.eos ?? sorted.size - 1]);
  const idOfEach = new Map(Array.from(sorted.ids, (id, i) => [id, sorted.bytes[i] as Uint8Array]));

  it("are limited as their bytes are, one by one, and make answers that fit", () => {
    for (let seed = 0; seed < 12; seed++) {
      const random = Random.of(seed, "answers");
      const schema = seed % 2 === 0 ? LINKED : { type: "object" };
      const [limit, reader] = [new TokenLimit(sorted, grammarOf(schema)), new ByteReader(grammarOf(schema))];
      let state: State | null = reader.start;
      const ids: number[] = [];
      for (let at = 0; at < 300; at++) {
        const row = Float32Array.from({ length: sorted.size }, () => random.float());
        // What closes is likelier with time.
        for (const close of ['"', "}", "]"]) row[tokenizer.idOf(close) ?? 0] = random.float() + at / 40;
        const limited = limit.limit(row, stopIds);
        const allowed = [...limited.keys()].filter((id) => limited[id] !== Number.NEGATIVE_INFINITY);
        const wanted = [...idOfEach].flatMap(([id, bytes]) => {
          const after = bytes.reduce<State | null>((one, byte) => one && reader.next(one, byte), state);
          return after === null ? [] : [id];
        });
        const ends: number[] = state?.isComplete ? [...stopIds] : [];
        expect(allowed).toEqual([...new Set([...wanted, ...ends])].sort((a, b) => a - b));
        const id = limited.indexOf(Math.max(...allowed.map((one) => limited[one] as number)));
        if (stopIds.has(id)) break;
        ids.push(id);
        limit.accept(id);
        state = (idOfEach.get(id) ?? new Uint8Array()).reduce<State | null>(
          (one, byte) => one && reader.next(one, byte),
          state,
        );
      }
      if (!state?.isComplete) continue;
      const value = JSON.parse(tokenizer.decode(ids)) as Record<string, unknown>;
      expect(value).toBeTypeOf("object");
      if (schema === LINKED) expect(Object.keys(value)).toEqual(["name", "age", "tags", "next"]);
    }
  });
});

it("answers forget states that are behind them", () => {
  const tokenizer = fixture("qwen");
  const limit = new TokenLimit(
    sortTokens(tokenizer),
    grammarOf({ type: "array", items: { type: "string", maxLength: 3 } }),
  );
  const stops = new Set([tokenizer.eos ?? 0]);
  const flat = new Float32Array(tokenizer.vocabularySize);
  for (const text of ["[", ...Array.from({ length: 200 }, () => '"ab",'), '"a"', "]"]) {
    for (const id of tokenizer.encode(text)) {
      expect(limit.limit(flat, stops)[id]).toBe(0);
      limit.accept(id);
    }
  }
  const end = limit.limit(flat, stops);
  expect([...end.keys()].filter((id) => end[id] === 0)).toEqual([...stops]);
});

it("a tokenizer without the characters of JSON is refused", () => {
  expect(() => sortTokens(fixture("gpt2"))).toThrow(/has no token for "\{"/);
});

it("a model's answers are limited in a batch, beside others", async () => {
  const folder = await writeByteModel(join(root, "model"), 1);
  const engine = await openEngine(folder);
  try {
    const tokenizer = await engine.tokenizer();
    const batch = engine.openBatch(4);
    const answer = async (schema: object | undefined, seed: number) => {
      const grammar = schema && (await engine.grammar(schema as Record<string, unknown>));
      const { ids, finish } = await batch.generate({
        ...{ prompt: [256, 97], maxNewTokens: 200, stopIds: new Set([257]), temperature: seed === 0 ? 0 : 1, grammar },
        random: Random.of(seed, "answer"),
      });
      return { text: tokenizer.decode(ids), finish };
    };
    const schema = {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "string", maxLength: 3 }, c: { enum: ["x", null] } },
    };
    const free = await answer(undefined, 0);
    const found = await Promise.all([answer(schema, 0), answer(undefined, 0), answer(schema, 1), answer(schema, 2)]);
    expect(found[1]).toEqual(free);
    for (const { text, finish } of [found[0], found[2], found[3]] as const) {
      expect(finish).toBe("stop");
      const { a, b, c } = JSON.parse(text) as Record<string, unknown>;
      expect([Number.isInteger(a), String(b).length <= 3, c === "x" || c === null]).toEqual([true, true, true]);
    }
    await expect(engine.grammar({ type: "string", pattern: "a" })).rejects.toThrow(/has pattern/);
  } finally {
    await engine.close();
  }
});
