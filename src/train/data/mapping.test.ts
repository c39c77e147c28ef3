// From rows to examples: fields, prompts and responses, conversations, translations; filters.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fillTemplate, parseTemplate, valueAt } from "../../kit/settings/index.js";
import type { Example, Mapped } from "./example.js";
import { compileField } from "./field.js";
import { compileFilters, filterSchema } from "./filter.js";
import { compileMapping, mappingSchema } from "./mapping.js";
import type { Row } from "./read/index.js";

const map = (declaration: unknown, row: Row) => compileMapping(mappingSchema.parse(declaration)).map(row);
const messagesOf = (declaration: unknown, row: Row) =>
  (map(declaration, row) as Mapped).examples.map(({ messages }) =>
    messages.map(({ role, content }) => [role, content]),
  );

describe("fields", () => {
  it("are columns, templates or constants", () => {
    const row = { a: "x", n: 1.5, "odd {name}": "odd", t: { en: "deep" }, "t.sw": "flat", none: null, list: ["x"] };
    expect(compileField("a").textOf(row)).toBe("x");
    expect(compileField("n").textOf(row)).toBe("1.5");
    expect(compileField("t.en").textOf(row)).toBe("deep");
    expect(compileField("t.sw").textOf(row)).toBe("flat");
    expect(compileField({ column: "odd {name}" }).textOf(row)).toBe("odd");
    expect(compileField({ constant: "{a}" }).textOf(row)).toBe("{a}");
    expect(compileField("{{{a}}} {n}").textOf(row)).toBe("{x} 1.5");
    expect(compileField("{a} {none}").textOf(row)).toBeUndefined();
    for (const column of ["none", "absent", "constructor", "t.constructor"])
      expect(compileField(column).textOf(row)).toBeUndefined();
    expect(compileField("list[0]").textOf(row)).toBe("x");
    expect(() => compileField("list").textOf(row)).toThrow(
      "list holds a list, not a text; map one value of it, such as list[0]",
    );
    expect(() => compileField("{a} {t}").textOf(row)).toThrow(/t holds an object, .* such as t\.en$/);
    expect(compileField("{a}{t.en}{a}").columns).toEqual(["a", "t.en"]);
    expect(valueAt(row, "a.length")).toBeUndefined();
  });

  it("keep every character of a template", () => {
    const escaped = fc.string().map((text) => text.replaceAll("{", "{{").replaceAll("}", "}}"));
    fc.assert(
      fc.property(escaped, escaped, (before, after) => {
        const text = fillTemplate(parseTemplate(`${before}{x}${after}`), (name) => `<${name}>`);
        expect(text).toBe(
          `${before}{x}${after}`.replace(/\{\{|\}\}|\{x\}/g, (found) => (found === "{x}" ? "<x>" : (found[0] ?? ""))),
        );
      }),
    );
  });
});

describe("prompt and response", () => {
  it("come from columns, with the input appended where there is one", () => {
    const dolly = { prompt: "instruction", input: "input", response: "output" };
    expect(messagesOf(dolly, { instruction: " Sum it. ", input: "1, 2\n", output: "3" })).toEqual([
      [
        ["user", "Sum it.\n\n1, 2"],
        ["assistant", "3"],
      ],
    ]);
    expect(messagesOf(dolly, { instruction: "Hi", input: "", output: "3" })).toEqual([
      [
        ["user", "Hi"],
        ["assistant", "3"],
      ],
    ]);
    expect(messagesOf({ ...dolly, join: "\n", trim: false }, { instruction: "a ", input: "b", output: " 3" })).toEqual([
      [
        ["user", "a \nb"],
        ["assistant", " 3"],
      ],
    ]);
  });

  it("may have a system message, or no prompt", () => {
    expect(messagesOf({ prompt: "Q: {q}", response: "a", system: { constant: "Be brief." } }, { q: 1, a: 2 })).toEqual([
      [
        ["system", "Be brief."],
        ["user", "Q: 1"],
        ["assistant", "2"],
      ],
    ]);
    expect(messagesOf({ response: "text" }, { text: "once" })).toEqual([[["assistant", "once"]]]);
    expect(messagesOf({ text: "{sw}!" }, { sw: "moja" })).toEqual([[["assistant", "moja!"]]]);
  });

  it("of messages and of ShareGPT are read from one file", () => {
    const mapping = { messages: ["messages", "conversations"] };
    const said = [
      ["user", "q"],
      ["assistant", "a"],
    ];
    const messages = [
      { role: "user", content: "q" },
      { role: "assistant", content: "a" },
    ];
    const conversations = [
      { from: "human", value: "q" },
      { from: "gpt", value: "a" },
    ];
    for (const row of [{ messages }, { conversations }, { messages: conversations }, { conversations: messages }])
      expect(messagesOf(mapping, row)).toEqual([said]);
  });

  it("are empty where a side is", () => {
    const pair = { prompt: "q", response: "a" };
    for (const row of [{ q: "x", a: " \n" }, { q: "", a: "y" }, { q: null, a: "y" }, { a: "y" }, { q: "x" }])
      expect(map(pair, row)).toBe("empty");
  });
});

describe("conversations", () => {
  const expected = [
    [
      ["user", "hi"],
      ["assistant", "ho"],
      ["user", "more"],
      ["assistant", "less"],
    ],
  ];

  it.each([
    [
      { messages: "m" },
      [
        { role: "user", content: "hi" },
        { role: "assistant", content: "ho" },
        { role: "user", content: "more" },
        { role: "assistant", content: "less" },
      ],
    ],
    [
      { messages: "m", role: "from", content: "value" },
      [
        { from: "human", value: "hi" },
        { from: "GPT", value: "ho" },
        { from: "human", value: "more" },
        { from: "gpt", value: "less" },
      ],
    ],
    [
      { messages: "m", roles: { npc: "assistant" } },
      [
        { role: "user", content: "hi" },
        { role: "npc", content: "ho" },
        { role: "user", content: "more" },
        { role: "npc", content: "less" },
      ],
    ],
    [
      { messages: ["other", "m"] },
      [
        ["hi", "ho"],
        ["more", "less"],
      ],
    ],
    [{ messages: "m" }, ["hi", "ho", "more", "less"]],
    [{ messages: "m" }, '[["hi","ho"],["more","less"]]'],
  ])("are read in every layout: %j", (declaration, m) => {
    expect(messagesOf(declaration, { m })).toEqual(expected);
  });

  it("may end with a question, and are empty without an answer", () => {
    expect(messagesOf({ messages: "m" }, { m: [["hi", "ho"], ["more"]] })).toEqual([
      [
        ["user", "hi"],
        ["assistant", "ho"],
        ["user", "more"],
      ],
    ]);
    for (const m of [[], null, "", [["hi"]], [["hi", " "]], [["hi", null]]])
      expect(map({ messages: "m" }, { m })).toBe("empty");
  });

  it.each([
    [7, "m is not a list of messages"],
    ["no JSON", "m is not a list of messages"],
    [[["a", "b", "c"]], "m[0] is a list, but not [user, assistant]"],
    [[["a", "b"], 7], "m[1] is neither a message, nor a pair of texts, nor a text"],
    [[{ role: "judge", content: "x" }], 'm[0] has the unknown role "judge"; map it (roles: {judge: user})'],
    [
      [{ role: "constructor", content: "x" }],
      'm[0] has the unknown role "constructor"; map it (roles: {constructor: user})',
    ],
    [
      [{ who: "human", value: "x" }],
      "m[0] has no role; it has who, value. Name the fields (role: NAME, content: NAME)",
    ],
  ])("that are not valid are refused with a reason: %j", (m, problem) => {
    expect(map({ messages: "m" }, { m })).toEqual({ problem });
  });
});

describe("translations", () => {
  const pair = { english: "en", other: "sw", language: "Swahili" };
  const row = { en: "Good day", sw: "Siku njema" };
  const [toSwahili, toEnglish] = [
    [
      ["user", "Translate the following text from English to Swahili.\n\nGood day"],
      ["assistant", "Siku njema"],
    ],
    [
      ["user", "Translate the following text from Swahili to English.\n\nSiku njema"],
      ["assistant", "Good day"],
    ],
  ];

  it("are instructions in both directions, or in one", () => {
    expect(messagesOf({ translation: pair }, row)).toEqual([toSwahili, toEnglish]);
    expect(messagesOf({ translation: { ...pair, directions: "to-english" } }, row)).toEqual([toEnglish]);
    expect(messagesOf({ translation: { ...pair, directions: "from-english" } }, row)).toEqual([toSwahili]);
    expect(map({ translation: pair }, { en: "x", sw: " " })).toBe("empty");
  });

  it("go either way as the pair's hash says, about as often, and pick instructions so", () => {
    const instructions = ["{source}>{target} {text}", "[{target}] {text} {x}"];
    const all = Array.from({ length: 400 }, (_, i) =>
      messagesOf({ translation: { ...pair, directions: "either", instructions } }, { en: `en ${i}`, sw: `sw ${i}` }),
    );
    const prompts = all.map(([messages]) => messages?.[0]?.[1] ?? "");
    expect(all.every((examples) => examples.length === 1)).toBe(true);
    for (const count of [
      prompts.filter((text) => text.includes(" en ")).length,
      prompts.filter((text) => text.endsWith("{x}")).length,
    ]) {
      expect(count).toBeGreaterThan(150);
      expect(count).toBeLessThan(250);
    }
    expect(
      messagesOf({ translation: { ...pair, directions: "either", instructions } }, { en: "en 0", sw: "sw 0" }),
    ).toEqual(all[0]);
  });

  it("have one key whatever the instructions and directions", () => {
    const keys = [{}, { directions: "to-english" }, { instructions: ["{text}"] }].map(
      (more) => (map({ translation: { ...pair, ...more } }, row) as Mapped).key,
    );
    expect(new Set(keys).size).toBe(1);
    expect(() => mappingSchema.parse({ translation: { ...pair, instructions: ["no place"] } })).toThrow(
      /text to translate/,
    );
  });
});

describe("filters", () => {
  const filters = (declarations: unknown[]) => compileFilters(declarations.map((one) => filterSchema.parse(one)));

  it("look at columns", () => {
    const { ofRows, columns } = filters([
      { column: "lang", equals: ["sw", "te"] },
      { column: "score", at_least: 1.06, at_most: 2 },
    ]);
    expect(columns).toEqual(["lang", "score"]);
    expect(ofRows.map(({ name }) => name)).toEqual(["lang = sw or te", "score >= 1.06", "score <= 2"]);
    const passing = (row: Row) => ofRows.map(({ passes }) => passes(row));
    expect(passing({ lang: "te", score: " 1.06 " })).toEqual([true, true, true]);
    expect(passing({ lang: "fr", score: 3 })).toEqual([false, true, false]);
    expect(passing({ score: "n/a" })).toEqual([false, false, false]);
    expect(passing({ score: "" })).toEqual([false, false, false]);
  });

  it("count characters and tokens", () => {
    const { ofExamples, ofTokens } = filters([
      { characters: { of: "response", min: 2, max: 3 } },
      { characters: { max: 6 } },
      { tokens: { min: 4 } },
    ]);
    expect(ofExamples.map(({ name }) => name)).toEqual([
      "characters of response >= 2",
      "characters of response <= 3",
      "characters <= 6",
    ]);
    const passing = (prompt: string, response: string) =>
      ofExamples.map(({ passes }) =>
        passes({
          messages: [
            { role: "user", content: prompt },
            { role: "assistant", content: response },
          ],
        }),
      );
    expect(passing("abc", "😀é題")).toEqual([true, true, true]);
    expect(passing("abc", "a")).toEqual([false, true, true]);
    expect(passing("abc", "abcd")).toEqual([true, false, false]);
    expect(ofTokens.map(({ passes }) => [3, 4].map((count) => passes(count)))).toEqual([[false, true]]);
  });

  it("leaves out examples with words, whole or not, in prompts or replies", () => {
    const passing = (without: object) => {
      const [filter] = filters([{ without }]).ofExamples;
      const talk = (prompt: string, response: string): Example => ({
        messages: [
          { role: "user", content: prompt },
          { role: "assistant", content: response },
        ],
      });
      const talks = [
        talk("Do the MATH.", "ok"),
        talk("aftermath", "ok"),
        talk("Hi", "mathematics"),
        talk("数学の本", "ok"),
      ];
      return [filter?.name, talks.map((one) => filter?.passes(one))];
    };
    expect(passing({ words: ["math"] })).toEqual(["free of math", [false, true, true, true]]);
    expect(passing({ words: ["math*"] })).toEqual(["free of math*", [false, true, false, true]]);
    expect(passing({ words: ["*math*", "*数学*"] })).toEqual(["free of *math*, *数学*", [false, false, false, false]]);
    expect(passing({ words: ["math*"], of: "prompt" })[1]).toEqual([false, true, true, true]);
    // Composed or not, and however many spaces.
    const passes = (words: readonly string[], content: string) =>
      filters([{ without: { words } }]).ofExamples[0]?.passes({ messages: [{ role: "user", content }] });
    for (const [word, text] of [
      ["\u00e9cole", "e\u0301cole"],
      ["e\u0301cole", "\u00c9COLE"],
      ["do the", "do\n  the"],
    ] as const)
      expect(passes([word], text), word).toBe(false);
    expect(passes(["ecole"], "e\u0301cole")).toBe(true);
    expect(passing({ words: ["a.+(b", "do the"] })[1]).toEqual([false, true, true, true]);
    for (const word of ["", "*", "a*b", " a"]) {
      expect(filterSchema.safeParse({ without: { words: [word] } }).success, word).toBe(false);
    }
  });
});
