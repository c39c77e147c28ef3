import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { z } from "zod";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { RecipeError } from "../errors.js";
import { checkSchema, formatProblem } from "./check-schema.js";
import { jsonSchemaOf, schemaFields, writtenAs } from "./schema-fields.js";
import { checkSettings, readSettingsText } from "./settings-file.js";
import { parseSettings, yamlText } from "./yaml.js";

const inner = z.strictObject({ rate: z.number().min(0).max(1).default(0.5).describe("how fast") });
const schema = z.strictObject({
  name: z.string().min(1).describe("what it is called"),
  steps: z.int().positive().optional(),
  inner: inner.prefault({}),
  parts: z.record(z.string(), z.strictObject({ size: z.enum(["small", "large"]) })).default({}),
  list: z.array(z.union([z.string(), z.strictObject({ weight: z.number() })])).default([]),
});

function problemsOf(value: unknown): string[] {
  return checkSchema(schema, value).problems.map(formatProblem);
}

describe("checkSchema", () => {
  it.each([
    [{ name: 1 }, "name: must be text, not a number"],
    [{ name: "" }, "name: must not be empty"],
    [{}, "name: is missing"],
    [{ name: "a", steps: 1.5 }, "steps: must be a whole number"],
    [{ name: "a", steps: 0 }, "steps: must be above 0"],
    [{ name: "a", inner: { rate: 2 } }, "inner.rate: must be at most 1"],
    [{ name: "a", inner: null }, "inner: must be a mapping, not empty"],
    [{ name: "a", parts: { x: { size: "tiny" } } }, "parts.x.size: must be one of small, large"],
    [{ name: "a", parts: { x: { sise: "small" } } }, "parts.x.size: must be one of small, large"],
    [{ name: "a", list: [{ weight: "1" }] }, "list[0].weight: must be a number, not text"],
    [[], "must be a mapping, not a list"],
  ])("%j", (value, message) => {
    expect(problemsOf(value)[0]).toBe(message);
  });

  it("suggests the field that was meant, or where a field belongs", () => {
    expect(problemsOf({ name: "a", stepps: 1 })).toEqual(['unknown field "stepps"; did you mean steps?']);
    expect(problemsOf({ name: "a", parts: { x: { size: "small", sizes: 1 } } })).toEqual([
      'parts.x: unknown field "sizes"; did you mean size?',
    ]);
    expect(problemsOf({ name: "a", list: [{ weigth: 1 }] })[0]).toBe("list[0].weight: is missing");
    expect(problemsOf({ name: "a", rate: 1 })).toEqual(['unknown field "rate"; it belongs under inner']);
    expect(problemsOf({ name: "a", Rates: 1 })).toEqual(['unknown field "Rates"; did you mean rate under inner?']);
    expect(problemsOf({ name: "a", inner: { name: "b" } })).toEqual([
      'inner: unknown field "name"; it belongs under the top',
    ]);
  });

  it("begins problems with the path of the value", () => {
    expect(checkSchema(inner, { rat: 1 }, ["runs", 0]).problems).toEqual([
      {
        path: ["runs", 0],
        at: ["runs", 0, "rat"],
        unknown: "rat",
        message: 'unknown field "rat"; did you mean rate?',
      },
    ]);
  });
});

describe("settings", () => {
  const kind = { kind: "test", check: (value: unknown) => checkSchema(schema, value) };

  it("report every problem with its line, in the order of the file", () => {
    const text = "steps: x\nname: a\nlist:\n  - weight: no\ninner:\n  rat: 1\n";
    expect(() => parseSettings(text, "a.yaml", kind)).toThrow(
      expect.objectContaining({
        problems: [
          "line 1: steps: must be a number, not text",
          "line 4: list[0].weight: must be a number, not text",
          'line 6: inner: unknown field "rat"; did you mean rate?',
        ],
      }),
    );
  });

  it("refuse a value that contains itself", () => {
    const endless: Record<string, unknown> = { name: "a" };
    endless.inner = endless;
    expect(() => checkSettings(endless, kind)).toThrow("the test nests more than 100 levels deep, or contains itself");
  });
});

describe("schemaFields", () => {
  it("lists fields by path with type, default and meaning", () => {
    const shown = schemaFields(schema).map(({ name, type, required, default: value }) => [name, type, required, value]);
    expect(shown).toEqual([
      ["name", "text", true, undefined],
      ["steps", "whole number", false, undefined],
      ["inner", "mapping", false, undefined],
      ["inner.rate", "number", false, 0.5],
      ["parts", "mapping", false, undefined],
      ["parts.NAME.size", "`small`, `large`", true, undefined],
      ["list", "list of texts, or mappings", false, undefined],
      ["list[].weight", "number", false, undefined],
    ]);
    expect(schemaFields(schema, { closed: ["inner", "list"] }).map(({ name }) => name)).toEqual([
      "name",
      "steps",
      "inner",
      "parts",
      "parts.NAME.size",
      "list",
    ]);
  });

  it("shows shorter forms", () => {
    const short = writtenAs(
      z.preprocess((value) => (typeof value === "string" ? { name: value } : value), schema),
      () => ({ anyOf: [{ type: "string" }, jsonSchemaOf(schema)] }),
    );
    const json = jsonSchemaOf(z.strictObject({ one: short.optional().describe("a short one") }));
    expect(json).toMatchObject({
      properties: { one: { description: "a short one", anyOf: [{ type: "string" }, { type: "object" }] } },
    });
    const fields = schemaFields(z.strictObject({ one: short }));
    expect(fields.map(({ name }) => name)).toContain("one.inner.rate");
  });
});

describe("parseSettings", () => {
  const parse = (text: string) => () =>
    parseSettings(text, "a.yaml", { kind: "test", check: (value) => ({ value, problems: [] }) });
  const noMapping = "<< takes a mapping, or a list of mappings";
  const noName = "the name of a field must be text, not a list or mapping";

  it.each([
    ["%YAML 1.1\n---\nx: 1\n<<: 5\n", { line: 4, message: noMapping }],
    ["%YAML 1.1\n---\na: &a 3\nb:\n  <<: [*a]\n", { line: 5, message: noMapping }],
    ["%YAML 1.1\n---\n!!str <<: 5\n", { line: 3, message: noMapping }],
    ["a: 1\n!!merge <<: 5\n", { line: 2, message: noMapping }],
    ["a: 1\n? [1, 2]\n: 3\n", { line: 2, message: noName }],
    ["a: &a { b: 1 }\nc: !!set { ? *a }\n", { line: 2, message: noName }],
  ])("refuses a key without a value in JavaScript, with its line: %j", (text, problem) => {
    expect(parse(text)).toThrow(new RecipeError("a.yaml is not valid YAML:", [problem], { file: "a.yaml" }));
  });

  it.each([
    ["x: 1\nmodels: [a, 'b[', \"c[\"\nz: 2\n", 2, "[", "]"],
    ["x: [1, 2]\ny: { a: it's }\nz: { b: 1 # }\n", 3, "{", "}"],
    ["x:\n  - [a, b\n    c: [d\ny: 1\n", 3, "[", "]"],
  ])("names a bracket that is not closed, with its line: %j", (text, line, open, close) => {
    const message = `the ${open} on this line has no ${close}; add it`;
    expect(parse(text)).toThrow(new RecipeError("a.yaml is not valid YAML:", [{ line, message }], { file: "a.yaml" }));
  });

  it("merges mappings, and lists of them", () => {
    expect(parse("%YAML 1.1\n---\na: &a { x: 1 }\nb: { <<: *a, w: 2 }\nc: { <<: [*a, { z: 3 }] }\n")()).toEqual({
      ...{ a: { x: 1 }, b: { x: 1, w: 2 }, c: { x: 1, z: 3 } },
    });
    expect(parse('"<<": 5\n')()).toEqual({ "<<": 5 });
  });
});

it("reads a file as UTF-8, or UTF-16 with its mark", async () => {
  const file = join(temporaryFolder(), "recipe.yaml");
  for (const encoding of ["utf8", "utf16le"] as const) {
    writeFileSync(file, "\ufeffmethod: soup # é\n", encoding);
    expect(await readSettingsText(file, "recipe")).toBe("method: soup # é\n");
  }
});

describe("yamlText", () => {
  const TEXTS = [
    "no",
    "NO",
    "y",
    "On",
    "off",
    "null",
    "~",
    "1_000",
    "010",
    "0o17",
    "1:30",
    "2026-01-31",
    "1e5",
    "0x_1f",
    ".inf",
    "<<",
    "",
  ];

  it("is read alike by YAML 1.1 and 1.2, also texts that either takes for something else", () => {
    const text = fc.oneof(fc.constantFrom(...TEXTS), fc.stringMatching(/^[-+0-9._:eExoTZ]{1,12}$/), fc.string());
    const value = fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null), fc.array(fc.integer()));
    fc.assert(
      fc.property(
        fc.dictionary(
          text.filter((key) => key !== "__proto__"),
          value,
        ),
        (written) => {
          const found = yamlText(written);
          expect(parseYaml(found, { version: "1.1" })).toEqual(written);
          expect(parseYaml(found)).toEqual(written);
        },
      ),
    );
  });

  it("writes a list of numbers on one line, and no aliases", () => {
    const rule = { weight: [0.5, 1] };
    expect(yamlText({ a: rule, b: rule })).toBe("a:\n  weight: [0.5, 1]\nb:\n  weight: [0.5, 1]\n");
  });
});

it("refuses a name that would be dropped without a word, wherever it is", () => {
  const schema = z.strictObject({ experts: z.record(z.string(), z.string()) });
  const experts = Object.fromEntries([
    ["math", "a"],
    ["__proto__", "b"],
  ]);
  expect(checkSchema(schema, { experts })).toEqual({
    problems: [{ path: ["experts"], message: "__proto__ is a reserved name" }],
  });
  expect(checkSchema(schema, { experts: { constructor: "b" } }).value).toEqual({ experts: { constructor: "b" } });
});
