// Files that someone broke: a tokenizer or a template of any values is refused in words, or works.
// @module-tag slow
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { NAMES, readFixture, TEXTS, tokenizerJson } from "../../test/support/tokenizer-fixtures.js";
import { LayergraftError } from "../kit/errors.js";
import { makeChatTemplate } from "./chat-template.js";
import { JsonTokenizer } from "./tokenizer.js";

// A twentieth of the time, for what never ends anyway.
vi.mock("../kit/guard/guarded.js", async (original) => {
  const all = await original<typeof import("../kit/guard/guarded.js")>();
  const guarded = (module: string) => {
    const call = all.guarded(module) as (name: string, args: unknown[], seconds: number) => unknown;
    return (name: string, args: unknown[], seconds = all.GUARD_SECONDS) => call(name, args, seconds / 20);
  };
  return { ...all, guarded };
});

/** A copy of a value in which one place, found by following numbers down, holds another value. */
function changed(value: unknown, path: number[], other: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined || typeof value !== "object" || value === null) return other;
  const keys = Object.keys(value);
  if (keys.length === 0) return other;
  const key = keys[step % keys.length] ?? "";
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>;
  copy[key] = changed((value as Record<string, unknown>)[key], rest, other);
  return copy;
}

/** Calls, and fails on errors that are not ours to give. */
function works(call: () => unknown): void {
  try {
    call();
  } catch (error) {
    if (!(error instanceof LayergraftError)) throw error;
  }
}

const strange = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    undefined,
    true,
    -1,
    1.5,
    1e9,
    "",
    "a",
    "##",
    "Sequence",
    "Metaspace",
    [],
    {},
    [[]],
    [{}],
  ),
  fc.constantFrom<unknown>({ type: "Sequence" }, { type: "Replace", pattern: { Regex: "(" } }, { type: "Precompiled" }),
  fc.jsonValue(),
);
const path = fc.array(fc.nat({ max: 600 }), { minLength: 1, maxLength: 5 });

describe("broken tokenizers", () => {
  it.each(NAMES)("like %s are refused or work", (name) => {
    const json = tokenizerJson(name);
    fc.assert(
      fc.property(path, strange, fc.constantFrom(...TEXTS), (where, value, text) => {
        works(() => {
          const broken = changed(json, where, value) as Record<string, unknown>;
          const tokenizer = new JsonTokenizer(broken);
          const ids = tokenizer.encode(text, { specialTokens: true });
          for (const id of ids) expect(Number.isSafeInteger(id)).toBe(true);
          tokenizer.decode([...ids, 0, 1, 2, 300]);
        });
      }),
      { numRuns: 30 },
    );
  });

  it.each([
    ["", "(".repeat(9000)],
    ["", `\\p{${"L".repeat(9000)}}`],
    ["", `[z-a]${"\\b".repeat(900)}`],
    // Refused when it first runs.
    ["", "\\b".repeat(3000)],
    ["a", { model: { type: "BPE", vocab: { a: 0, ["q".repeat(9000)]: -1 }, merges: [] } }],
    ["a", { model: { type: "BPE", vocab: { a: 0 }, merges: [`a ${"q".repeat(9000)}`] } }],
    ["a", { added_tokens: [{ id: -1, content: "q".repeat(9000) }] }],
    ["a", { added_tokens: [{ id: 9000, content: "q".repeat(9000) }] }],
    ["z".repeat(9000), { model: { type: "BPE", vocab: { a: 0 }, merges: [], unk_token: "u" } }],
  ])("are not quoted at length: %#", (text, change) => {
    const split = { pre_tokenizer: { type: "Split", pattern: { Regex: change }, behavior: "Isolated" } };
    const json = { ...tokenizerJson("words"), ...(typeof change === "string" ? split : change) };
    expect(() => new JsonTokenizer(json).encode(text || "ab c")).toThrow(
      expect.objectContaining({ code: "checkpoint", message: expect.stringMatching(/^the tokenizer .{20,260}$/) }),
    );
  });

  it("do not hang", () => {
    const pattern = { Regex: "^(a+)+$" };
    const json = { ...tokenizerJson("words"), normalizer: { type: "Replace", pattern, content: "b" } };
    const text = `${"a".repeat(60)}!`;
    expect(() => new JsonTokenizer(json).encode(text)).toThrow(
      /^the tokenizer took longer than 0\.\d+ s on "a{40}\.\.\."; an expression in its tokenizer\.json is broken/,
    );
    const decoding = new JsonTokenizer({
      ...tokenizerJson("words"),
      decoder: { type: "Replace", pattern, content: "b" },
    });
    const the = decoding.encode("the");
    expect(decoding.decode(the)).toBe("the");
    const trap = { type: "Replace", pattern: { Regex: "^(t|h|e|the)+$" }, content: "" };
    const many = Array.from({ length: 40 }, () => the).flat();
    expect(() =>
      new JsonTokenizer({
        ...tokenizerJson("words"),
        decoder: { type: "Sequence", decoders: [{ type: "Fuse" }, trap] },
      }).decode([...many, 0, ...decoding.encode("sea")]),
    ).toThrow(/^the tokenizer took longer than/);
    expect(new JsonTokenizer(json).encode("aaa")).toEqual(new JsonTokenizer(json).encode("b"));
  });

  const words = { model: { type: "WordLevel", vocab: { "[UNK]": 0, a: 1 }, unk_token: "[UNK]" } };
  const runs = (prefix: string, most: number) =>
    Array.from({ length: most }, (_, i) => `${prefix}${"a".repeat(i + 1)}`);

  it("take linear time in the length of a word", () => {
    const word = "a".repeat(60_000);
    const scores = [["[UNK]", 0], ...runs("", 200).map((piece) => [piece, -1])];
    const unigram = new JsonTokenizer({ model: { type: "Unigram", unk_id: 0, vocab: scores } });
    expect(unigram.encode(word)).toHaveLength(300);
    const single = [
      ["[UNK]", 0],
      ["a", -1],
    ]; // more pieces than a call takes arguments
    expect(
      new JsonTokenizer({ model: { type: "Unigram", unk_id: 0, vocab: single } }).encode("a".repeat(200_000)),
    ).toHaveLength(200_000);
    const blank = { ...words, added_tokens: [{ id: 2, content: " ", special: true, rstrip: true }] };
    expect(new JsonTokenizer(blank).encode(" ".repeat(60_000))).toHaveLength(60_000);
  });

  it("have pieces of bounded length", () => {
    const long = "a".repeat(1001);
    const refused = "the tokenizer cannot be used: a token has 1001 characters; at most 1000 are supported";
    expect(() => new JsonTokenizer({ model: { type: "Unigram", unk_id: 0, vocab: [[long, 0]] } })).toThrow(refused);
    expect(() => new JsonTokenizer({ ...words, added_tokens: [{ id: 2, content: long }] })).toThrow(refused);
  });

  const double = { type: "Replace", pattern: { String: "a" }, content: "aa" };
  const thirty = (part: object) => Array.from({ length: 30 }, () => part);
  it.each([
    ["tokens", thirty(double)],
    ["joined text", [{ type: "Fuse" }, ...thirty(double)]],
  ])("do not lengthen without bound what they decode: %s", (_, decoders) => {
    expect(() => new JsonTokenizer({ ...words, decoder: { type: "Sequence", decoders } }).decode([1, 1])).toThrow(
      /^the tokenizer cannot be used: its decoder makes more than \d+ characters of tokens with \d$/,
    );
  });

  it.each([
    ["Replace", { normalizer: { type: "Sequence", normalizers: Array.from({ length: 14 }, () => double) } }],
    [
      "ByteLevel",
      {
        pre_tokenizer: {
          type: "Sequence",
          pretokenizers: Array.from({ length: 14 }, () => ({ type: "ByteLevel", use_regex: false })),
        },
      },
    ],
  ])("do not lengthen without bound what they encode: %s", (_, parts) => {
    expect(() => new JsonTokenizer({ ...words, ...parts }).encode("aé a")).toThrow(
      /^the tokenizer made \d{5} characters on "aé a"; an expression in its tokenizer.json is broken/,
    );
  });

  it("are bounded in size", () => {
    let nested: object = { type: "NFC" };
    for (let i = 0; i < 20_000; i++) nested = { type: "Sequence", normalizers: [nested] };
    const refusal = (parts: object) => () => new JsonTokenizer({ ...words, ...parts });
    expect(refusal({ normalizer: nested })).toThrow(
      "its normalizer nests deeper than 100 levels. Use the tokenizer.json of the original model",
    );
    const template = (count: number, ids: number) => ({
      type: "TemplateProcessing",
      single: [...Array.from({ length: count }, () => ({ SpecialToken: { id: "x" } })), { Sequence: { id: "A" } }],
      special_tokens: { x: { ids: Array.from({ length: ids }, () => 1) } },
    });
    expect(refusal({ post_processor: template(1, 1_000_000) })).toThrow(
      "its post_processor has more than 10000 values",
    );
    expect(refusal({ post_processor: template(11, 100) })).toThrow(
      "its post-processor adds more than 1000 tokens to a text",
    );
    expect(refusal({ model: { ...words.model, unk_token: "x".repeat(10_001) } })).toThrow(
      "its model has a text of 10001 characters; at most 10000 are supported",
    );
  });

  it("work with settings of any kind", () => {
    const json = tokenizerJson("words");
    const names = ["bos_token", "added_tokens_decoder", "extra_special_tokens", "clean_up_tokenization_spaces"];
    const settings = fc.dictionary(fc.constantFrom(...names), fc.oneof(strange, fc.constant({ content: 1 })));
    fc.assert(fc.property(settings, (some) => works(() => new JsonTokenizer(json, some).encode("the [BOS] sea"))));
  });
});

describe("broken templates", () => {
  const { templates } = readFixture("templates") as { templates: Record<string, string> };
  const chat = [
    { role: "user", content: "a" },
    { role: "assistant", content: "b" },
  ];

  it.each(Object.entries(templates))("like %s are refused or work", (_, source) => {
    const cut = fc.tuple(
      fc.nat({ max: source.length }),
      fc.nat({ max: 6 }),
      fc.constantFrom("", "}", "{{", "%}", "'", "("),
    );
    fc.assert(
      fc.property(cut, ([at, length, put]) => {
        works(() => makeChatTemplate(source.slice(0, at) + put + source.slice(at + length)).render(chat));
      }),
      { numRuns: 30 },
    );
  });

  it("are not quoted at length", () => {
    const template = makeChatTemplate(`{{ raise_exception("${"no".repeat(1000)}") }}`);
    expect(() => template.render(chat)).toThrow(/refuses these messages: (no){500}$/);
  });

  const long = "a".repeat(20_000);
  const repeat = (count: number, body: string) => `{% for i in range(${count}) %}${body}{% endfor %}`;
  const endsInWords = (source: string, words: string | RegExp) => {
    const before = process.memoryUsage().rss;
    expect(() => makeChatTemplate(source).render(chat)).toThrow(words);
    expect(process.memoryUsage().rss - before).toBeLessThan(300e6);
    expect(makeChatTemplate("{{ messages[0].content }}").render(chat)).toBe("a");
  };
  it.each([
    [
      "replace",
      `{% set s = "${long}" %}{% set s = s|replace("a", s) %}{% set n = namespace(l=[]) %}${repeat(99, '{% set n.l = n.l + [s|replace("a", "b" ~ i)] %}')}`,
    ],
    ["a list that grows", `{% set n = namespace(l=[1]) %}${repeat(40, "{% set n.l = n.l + n.l %}")}`],
    ["a text that grows", `{% set n = namespace(s="é") %}${repeat(40, "{% set n.s = n.s ~ n.s %}")}{{ n.s }}`],
    ["what it writes", `{% set s = "${long}" %}{{ s|replace("a", s) }}`],
    ["join", `{% set l = range(100000)|list %}${repeat(1000, `{{ l|join("${long}") }}`)}`],
    ["a range", "{{ range(10 ** 9)|length }}"],
    ["recursion", "{% macro m(n) %}{{ m(n + 1) }}{{ m(n + 2) }}{% endmacro %}{{ m(0) }}"],
    ["repetition", "{{ 'ab' * 10 ** 9 }}"],
    ["repeated lists", "{{ ([1] * 10 ** 9)|length }}"],
    ["powers", "{{ 9 ** (9 ** 9) }}"],
    [
      "large numbers",
      `{% set n = namespace(x=10 ** 4000) %}${repeat(100_000, "{% set n.x = n.x * 3 // 2 %}{{ n.x }}")}`,
    ],
    ["padding", "{{ 'a'.ljust(10 ** 9) }}"],
    ["formats", "{{ '%999999999s' % 'a' }}"],
    ["format specifications", "{{ '{:>999999999}'.format('a') }}"],
    ["nested lists", `{% set n = namespace(l=[]) %}${repeat(90_000, "{% set n.l = [n.l] %}")}{{ n.l }}`],
    ["shared lists", `{% set n = namespace(l=[1]) %}${repeat(60, "{% set n.l = [n.l, n.l] %}")}{{ n.l }}`],
    [
      "searches",
      `{% set s = "${long}" %}{% set t = ("b" ~ s) * 30 %}${repeat(100_000, '{% if (s ~ "c") in t %}x{% endif %}')}`,
    ],
    ["splits", `{% set s = "${long}" %}${repeat(100_000, "{% set l = s|list %}")}`],
    [
      "a text of ropes",
      `{% set n = namespace(s="é" * 1000000, l=[]) %}${repeat(90_000, '{% set n.l = n.l + [("x" ~ n.s)|replace("y", "z")] %}')}`,
    ],
    ["an endless join", `{% set s = "${long}" %}${repeat(100_000, "{{ s.join([s, s, s]) }}")}`],
    ["JSON", `{% set n = namespace(l=[1]) %}${repeat(60, "{% set n.l = [n.l, n.l] %}")}{{ n.l|tojson(indent=900) }}`],
  ])("that amplify by %s end in words, and the next one works", (_, source) =>
    endsInWords(
      source,
      /^the chat template ((takes more than|makes|calls itself|nests) .*; it is broken or was made to hang|failed: .*)$/,
    ),
  );

  const TOO_LONG = "the chat template takes more than 30000000 steps; it is broken or was made to hang";
  // Characters that are read are steps.
  it("do not hang", () =>
    endsInWords(`{% set s = "${long}" %}${repeat(100_000, '{% if "b" in s %}a{% endif %}')}`, TOO_LONG));
  it.each([
    ["loops in loops", repeat(100_000, repeat(100_000, "{% if i < 0 %}a{% endif %}"))],
    [
      "shared lists that are compared",
      `{% set n = namespace(l=[1], m=[1]) %}${repeat(60, "{% set n.l = [n.l, n.l] %}{% set n.m = [n.m, n.m] %}")}{{ n.l == n.m }}`,
    ],
  ])("do not hang, step by step: %s", { tags: ["slow"] }, (_, source) => endsInWords(source, TOO_LONG));

  it.each(["(", "[", "{% if true %}", "{% for i in range(2) %}", "-", "not "])("that nest %s are refused", (open) => {
    const source = open.startsWith("{") ? open.repeat(5000) : `{{ ${open.repeat(5000)}1 }}`;
    expect(() => makeChatTemplate(source)).toThrow(/^the chat template is not valid: line 1: /);
    expect(() => makeChatTemplate(`{{ ${"1 + ".repeat(100_000)}1 }}`).render(chat)).toThrow(
      /nests too deeply; it is broken/,
    );
  });

  it.each([
    "messages.__proto__",
    "messages.constructor",
    "messages[0].constructor.constructor('return process')()",
    "messages[0]['__proto__'].x",
    "''.constructor",
    "''['__class__'].__mro__",
    "namespace.constructor",
    "range.__globals__.x",
    "namespace(__proto__=1)",
    "loop.constructor",
    "'{0.__class__.__init__}'.format('')",
    "messages|map(attribute='constructor.prototype')|list",
    "messages|map('constructor')|list",
    "messages|selectattr('role', 'toString')|list",
    "messages is hasOwnProperty",
    "''|toString",
    "'%(constructor)s' % {}",
    "messages.append(1)",
    "messages.push(1)",
    "messages[0].update({'role': 'x'})",
    "messages[0].pop('role')",
  ])("cannot reach what is not theirs: %s", (expression) => {
    const render = (source: string) => () => makeChatTemplate(source).render(chat);
    // Python prints an undefined value as nothing; whatever uses it fails.
    expect(render(`{{ (${expression}).x }}`)).toThrow(/^the chat template (failed|is not valid): /);
  });

  const large = 1_000_000;
  it.each([
    ["tags", "{{a}}".repeat(large / 5), ""],
    ["openings", "{% ".repeat(large / 3), "is not valid: line 1: a tag has no end"],
    ["braces", "{".repeat(large), "is not valid: line 1: a tag has no end"],
    ["digits", `{{ ${"1_".repeat(large / 2 - 10)}1 }}`, "is not valid: line 1: a number has more than 4300 digits"],
    ["blanks", `${" ".repeat(large / 2 - 10)}{{- a -}}${" ".repeat(large / 2 - 10)}`, ""],
    ["attributes", `{{ a${".a".repeat(large / 2 - 10)} }}`, "nests too deeply; it is broken or was made to hang"],
  ])("of %s end in words at any length", (_, source, problem) => {
    const render = () => makeChatTemplate(source).render(chat);
    if (problem) expect(render).toThrow(`the chat template ${problem}`);
    else expect(render()).toBe("");
  });

  it("of 30 MB are refused before they are parsed", () => {
    expect(() => makeChatTemplate("x".repeat(30_000_000))).toThrow(
      "the chat template has 30000000 characters; at most 1000000 are supported. Replace it with the template of the original model",
    );
  });
});
