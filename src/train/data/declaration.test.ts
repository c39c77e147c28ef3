// Declarations as people write them: shorthands, problems, what replaces what; and the ready ones on rows of their sets.
import { describe, expect, it } from "vitest";
import { planSet, type SetDeclaration } from "./declaration.js";
import type { Mapped } from "./example.js";
import { compileFilters } from "./filter.js";
import { compileMapping, type MappingDeclaration } from "./mapping.js";
import { checkData } from "./prepare.js";
import type { Row } from "./read/index.js";
import { READY_NAMES, type ReadyName } from "./ready-sets.js";

describe("declarations", () => {
  const plan = (set: unknown) => planSet(checkData([set]).sets[0] as SetDeclaration);

  it("may be a mapping, a list, a set or a name, and can be read again", () => {
    const set = { source: "x.jsonl", map: { prompt: "q", response: "a" } };
    const whole = checkData({ sets: [set] });
    expect(checkData([set])).toEqual(whole);
    expect(checkData(set)).toEqual(whole);
    expect(checkData(whole)).toEqual(whole);
    expect(checkData({ ...set, template: "plain" })).toEqual({ ...whole, template: "plain" });
    expect(checkData("orca-math").sets).toEqual([{ use: "orca-math" }]);
    expect(checkData(["data", "chat.jsonl", "org/name", "./rows", "*.csv"]).sets).toEqual([
      { source: "data" },
      { source: "chat.jsonl" },
      { source: "org/name" },
      { source: "./rows" },
      { source: "*.csv" },
    ]);
    expect(whole).toMatchObject({
      repeat: false,
      deduplicate: false,
      on_bad_row: "fail",
      template: "auto",
      too_long: "cut",
    });
  });

  it("report all problems at once, where they were written", () => {
    const problems = (value: unknown) => {
      try {
        checkData(value);
      } catch (error) {
        return (error as { problems: string[] }).problems;
      }
      return [];
    };
    expect(problems({ source: "x", on_bad_row: "no", cap: 0 })).toEqual([
      expect.stringMatching(/^cap: /),
      expect.stringMatching(/^on_bad_row: /),
    ]);
    expect(
      problems([{ source: "x", map: { prompt: "q" }, cap: 0 }, { use: "aya", wieght: 2 }, { use: "nllb" }]),
    ).toEqual([
      "[0].map.response: is missing",
      expect.stringMatching(/^\[0\]\.cap: /),
      expect.stringMatching(/^\[1\].*unknown field "wieght"/),
      "[2].language: is missing; nllb has several",
    ]);
    expect(problems({ use: "orca-math", language: "Swahili" })).toEqual([
      "language: does not apply to orca-math, which has one language",
    ]);
    expect(problems({ sets: [{ use: "nllb", language: "Swahili" }], deduplicate: 1 })).toHaveLength(2);
    expect(problems({ sets: [{ use: "nllb", language: "Swahili" }] })[0]).toMatch(
      /^sets\[0\]\.source: is missing\. The Hub has only its card/,
    );
    expect(problems({ use: "aya", language: "Swahilli" })[0]).toMatch(/^language: .* did you mean Swahili\?/);
    expect(problems([{ use: "math" }])[0]).toMatch(/^\[0\]\.use: must be one of orca-math, aya/);
    expect(problems([{ source: "x" }, { map: { response: "a" } }])).toEqual([
      expect.stringMatching(/^\[1\]\.source: is missing/),
    ]);
    expect(problems([{ source: "x", map: { prompt: "{{ q }}", response: { template: "{{a}}" } } }])).toEqual([
      "[0].map.prompt: {{ q }} does not insert a field; write {q}",
      "[0].map.response.template: {{a}} does not insert a field; write {a}",
    ]);
    expect(problems(7)).toHaveLength(1);
  });

  it("are replaced by what a run says, filters by their columns", () => {
    const nllb = plan({
      use: "nllb",
      language: "swh_Latn",
      source: "eng_Latn-swh_Latn.gz",
      filter: [{ column: "laser_score", at_least: 1.2 }, { tokens: { max: 9 } }],
    });
    expect(nllb.filter).toEqual([
      { column: "source_lid", at_least: 0.9 },
      { column: "target_lid", at_least: 0.9 },
      { column: "laser_score", at_least: 1.2 },
      { tokens: { max: 9 } },
    ]);
    expect(plan({ use: "indic-align", language: "te", config: "Dolly_T" })).toMatchObject({
      config: "Dolly_T",
      source: "ai4bharat/indic-align",
      name: "indic-align te",
    });
    const local = plan({ use: "xp3mt", language: "sw", source: "here.jsonl" });
    expect([local.files, local.exclude, local.source]).toEqual([undefined, undefined, "here.jsonl"]);
    expect(plan({ use: "xp3mt", language: "sw", config: "sw" }).files).toBeUndefined();
  });
});

describe("ready declarations", () => {
  // A row of each, in the layout of the data set.
  const rows: Record<ReadyName, { set: object; row: Row; expected: unknown }> = {
    "orca-math": {
      set: {},
      row: { question: "1+1?", answer: "2" },
      expected: [
        [
          ["user", "1+1?"],
          ["assistant", "2"],
        ],
      ],
    },
    aya: {
      set: { language: "Swahili" },
      row: {
        inputs: "Habari?",
        targets: "Nzuri.",
        language: "Swahili",
        language_code: "swh",
        annotation_type: "original",
        user_id: "x",
      },
      expected: [
        [
          ["user", "Habari?"],
          ["assistant", "Nzuri."],
        ],
      ],
    },
    nllb: {
      set: { language: "ben", source: "ben_Beng-eng_Latn.gz" },
      row: { ben_Beng: "হ্যালো", eng_Latn: "Hello", laser_score: "1.1", source_lid: "1.0", target_lid: "0.99" },
      expected: [
        [
          ["user", "Translate the following text from English to Bengali.\n\nHello"],
          ["assistant", "হ্যালো"],
        ],
        [
          ["user", "Translate the following text from Bengali to English.\n\nহ্যালো"],
          ["assistant", "Hello"],
        ],
      ],
    },
    xp3mt: {
      set: { language: "sw" },
      row: { inputs: "i", targets: "t" },
      expected: [
        [
          ["user", "i"],
          ["assistant", "t"],
        ],
      ],
    },
    inkuba: {
      set: { language: "Swahili" },
      row: { instruction: "Tafsiri", inputs: "x", targets: "y", task: "mmt", data_source: "z" },
      expected: [
        [
          ["user", "Tafsiri\n\nx"],
          ["assistant", "y"],
        ],
      ],
    },
    "dolly-ja": {
      set: {},
      row: { instruction: "要約して", input: "文", output: "答え", category: "c", index: "0" },
      expected: [
        [
          ["user", "要約して\n\n文"],
          ["assistant", "答え"],
        ],
      ],
    },
    "llm-japanese": {
      set: {},
      row: { instruction: "i", input: "", output: "o" },
      expected: [
        [
          ["user", "i"],
          ["assistant", "o"],
        ],
      ],
    },
    "indic-align": {
      set: { language: "Telugu" },
      row: {
        tel_Telu: [
          ["ప్ర", "స"],
          ["2", "3"],
        ],
        num_turns: 2,
        doc_id: "d",
      },
      expected: [
        [
          ["user", "ప్ర"],
          ["assistant", "స"],
          ["user", "2"],
          ["assistant", "3"],
        ],
      ],
    },
    bongchat: {
      set: {},
      row: { instruction: "i", input: "x", output: "o" },
      expected: [
        [
          ["user", "i\n\nx"],
          ["assistant", "o"],
        ],
      ],
    },
  };

  it.each(READY_NAMES)("of %s fit its layout", (use) => {
    const { set, row, expected } = rows[use];
    const plan = planSet(checkData({ use, ...set }).sets[0] as SetDeclaration);
    const mapping = compileMapping(plan.map as MappingDeclaration);
    const filters = compileFilters(plan.filter);
    expect(filters.ofRows.filter(({ passes }) => !passes(row))).toEqual([]);
    expect(
      (mapping.map(row) as Mapped).examples.map(({ messages }) => messages.map(({ role, content }) => [role, content])),
    ).toEqual(expected);
    for (const columns of mapping.columns) expect(columns.some((column) => column in row)).toBe(true);
  });

  it("order the two sentences of NLLB as the files do", () => {
    const header = (language: string) => plan(language).header;
    const plan = (language: string) =>
      planSet(checkData({ use: "nllb", language, source: "x" }).sets[0] as SetDeclaration);
    expect(header("Swahili")).toEqual(expect.arrayContaining(["eng_Latn", "swh_Latn"]));
    expect((header("Swahili") as string[]).slice(0, 3)).toEqual(["eng_Latn", "swh_Latn", "laser_score"]);
    expect((header("bn") as string[]).slice(0, 3)).toEqual(["ben_Beng", "eng_Latn", "laser_score"]);
  });
});
