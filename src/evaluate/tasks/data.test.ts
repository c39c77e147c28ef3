// Readers of data files: what they take, and what they say of files that are wrong.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { LayergraftError } from "../../kit/errors.js";
import { openTasks } from "./open-tasks.js";
import { parsePythonDictionary } from "./python-literal.js";
import { fileRows, readText } from "./task-data.js";

const FIXTURES = new URL("../../../test/fixtures/evaluation/", import.meta.url);
const root = mkdtempSync(join(tmpdir(), "layergraft-test-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let count = 0;
/** A folder with these files. */
function folderWith(files: Readonly<Record<string, string | Uint8Array>>): string {
  const folder = join(root, String(count++));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return folder;
}

async function load(name: string, folder: string, shots?: number) {
  const [task] = await openTasks([name], { shots });
  if (!task) throw new Error("no task");
  return task.load({ folder });
}

describe("lines", () => {
  it.each<[string, string | Uint8Array, RegExp]>([
    ["text that is not JSON", '{"a": 1}\nb\n', /a\.jsonl, line 2: it is not valid JSON/],
    ["a list", "[1]\n", /line 1: it is a list, not an object/],
    ["bytes that are not UTF-8", Uint8Array.of(0x7b, 0xff, 0x7d), /is not UTF-8/],
  ])("refuse %s", async (_, content, message) => {
    const folder = folderWith({ "a.jsonl": content });
    await expect(fileRows(join(folder, "a.jsonl"))).rejects.toThrow(message);
  });

  it("names a file that is not there, or is a folder", async () => {
    await expect(readText(join(root, "none"))).rejects.toThrow(/none does not exist/);
    await expect(readText(root)).rejects.toThrow(/is a folder; pass a file/);
  });
});

describe("MGSM's files", () => {
  const row = (answer: string) => `Swali?\t${answer}\n`;

  it("are found beside one another or in mgsm/, with exemplars as JSON or as Python", async () => {
    const { number_answers: numbers, exemplars } = JSON.parse(
      readFileSync(new URL("mgsm/exemplars.json", FIXTURES), "utf8"),
    ) as { number_answers: number[]; exemplars: Record<string, { q: string; a: string }[]> };
    // As the data set's own file is written: escapes, strings beside one another, keys for numbers.
    const escaped = (text: string) =>
      [...text].map((sign) => (sign > "~" ? `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}` : sign)).join("");
    const pieces = (text: string) => `"${escaped(text.slice(0, 9))}"\n      "${escaped(text.slice(9))}"`;
    const python = [
      '"""Prompts."""',
      `EXEMPLAR_NUMBER_ANSWERS = [${numbers.join(", ")}]`,
      "MGSM_EXEMPLARS = {",
      '    "sw": {  # Swahili',
      ...(exemplars.sw ?? []).map(({ q, a }, i) => `"${i + 1}": {"q": (${pieces(q)}), "a": ${pieces(a)},},`),
      "}}",
    ].join("\n");
    const asJson = folderWith({
      "mgsm_sw.tsv": row("1"),
      "exemplars.json": JSON.stringify({ number_answers: numbers, exemplars }),
    });
    const asPython = folderWith({ "mgsm/mgsm_sw.tsv": row("1"), "mgsm/exemplars.py": python });
    const [one, other] = [await load("mgsm_sw", asJson), await load("mgsm_sw", asPython)];
    expect(one.items[0]?.prompt.shared).toMatch(/^Swali: Roger ana mipira 5/);
    expect(other.items).toEqual(one.items);
  });

  it.each<[string, Record<string, string>, number, RegExp]>([
    ["no file", {}, 0, /has no data for MGSM in sw; expected one of mgsm_sw\.tsv, mgsm\/mgsm_sw\.tsv/],
    [
      "a header of three columns",
      { "mgsm_sw.tsv": "a\tb\tc\n" },
      0,
      /mgsm_sw\.tsv, line 1: it has 3 fields where there are 2 columns/,
    ],
    ["an answer in words", { "mgsm_sw.tsv": row("moja") }, 0, /line 1: the answer "moja" is not a number/],
    [
      "no exemplars",
      { "mgsm_sw.tsv": row("1") },
      1,
      /no data for the exemplars of MGSM; expected one of exemplars\.json/,
    ],
    ["exemplars of others", { "mgsm_sw.tsv": row("1"), "exemplars.json": "{}" }, 1, /has no exemplars in sw/],
    ["exemplars that are null", { "mgsm_sw.tsv": row("1"), "exemplars.json": "null" }, 1, /has no exemplars in sw/],
  ])("are refused with %s", async (_, files, shots, message) => {
    const folder = folderWith({ "x.txt": "", ...files });
    await expect(load("mgsm_sw", folder, shots)).rejects.toThrow(message);
  });
});

it("a pipe or a device in the place of data is called what it is", async () => {
  const folder = folderWith({ "x.txt": "" });
  symlinkSync("/dev/null", join(folder, "mgsm_sw.tsv"));
  await expect(load("mgsm_sw", folder, 0)).rejects.toThrow(
    /mgsm_sw\.tsv is not a regular file. Save the rows as a file\./,
  );
});

describe("a Python literal", () => {
  it("is data, of strings, numbers, lists and dictionaries", () => {
    const source = 'X = 1\nA = {"a": [1, -2.5, \'x\\\'\\n\'], "b": ("c" "d"), 3: {}}  # end\n';
    expect(parsePythonDictionary(source, "A", "f.py")).toEqual({ a: [1, -2.5, "x'\n"], b: "cd", 3: {} });
    const hostile = parsePythonDictionary('A = {"__proto__": {"x": 1}}', "A", "f.py") as object;
    expect(Object.getPrototypeOf(hostile)).toBe(Object.prototype);
  });

  it.each([
    ['A = open("x")', /more than a dictionary or list/],
    ["A = {1: f}", /more than a dictionary or list/],
    ["A = [1 2]", /more than a dictionary or list/],
    ["A = {", /more than a dictionary or list/],
    [`A = ${"[".repeat(100)}`, /more than a dictionary or list/],
    ["B = 1", /does not assign A/],
  ])("is refused where it is more: %s", (source, message) => {
    expect(() => parsePythonDictionary(source, "A", "f.py")).toThrow(message);
    expect(() => parsePythonDictionary(source, "A", "f.py")).toThrow(LayergraftError);
  });
});

describe("MMLU's, MBPP's and Belebele's files", () => {
  it.each<[string, Record<string, string>, RegExp]>([
    [
      "mmlu",
      { "test/anatomy_test.csv": "q,a,b,c,A\n" },
      /anatomy_test\.csv, line 1: it has 5 fields where there are 6 columns/,
    ],
    [
      "mmlu",
      { "test/anatomy_test.csv": "q,a,b,c,d,E\n" },
      /line 1: the answer is "E"; expected four choices, and A, B, C or D/,
    ],
    ["mmlu", { "test/other_test.csv": "q,a,b,c,d,A\n" }, /has no MMLU test questions; expected one of test\/SUBJECT/],
    ["mmlu", { "test/anatomy_test.csv": "q,a,b,c,d,A\n" }, /has no MMLU dev questions/],
    [
      "mmlu",
      { "test/anatomy_test.csv": "q,a,b,c,d,A\n", "dev/anatomy_dev.csv": "q,a,b,c,d,A\n" },
      /anatomy has 1 dev question here, too few for 5 shots/,
    ],
    [
      "mbpp",
      { "mbpp.jsonl": '{"task_id": 11, "text": "t", "code": "c", "test_list": []}\n' },
      /line 1: test_list must be/,
    ],
    [
      "mbpp",
      { "mbpp.jsonl": '{"task_id": 11, "prompt": "t", "test_list": ["x"]}\n' },
      /text is missing; expected text/,
    ],
    [
      "mbpp",
      { "mbpp.jsonl": '{"task_id": 1, "text": "t", "code": "c", "test_list": ["x"]}\n' },
      /no problems from 11 to 510/,
    ],
    [
      "mbpp_sw",
      {
        "mbpp.jsonl": '{"task_id": 11, "text": "t", "code": "c", "test_list": ["x"]}\n',
        "mbpp_swh_Latn.jsonl": '{"task_id": 12, "text": "u"}\n',
      },
      /mbpp_swh_Latn\.jsonl has none of the problems of MBPP; expected task_id and text/,
    ],
    [
      "belebele_sw",
      {
        "swh_Latn.jsonl": `${JSON.stringify({
          ...{ link: "l", question_number: 1, flores_passage: "p", question: "q", correct_answer_num: "5" },
          ...{ mc_answer1: "a", mc_answer2: "b", mc_answer3: "c", mc_answer4: "d" },
        })}\n`,
      },
      /line 1: correct_answer_num is 5; expected 1, 2, 3 or 4/,
    ],
  ])("%s is refused with %j", async (name, files, message) => {
    await expect(load(name, folderWith(files))).rejects.toThrow(message);
  });

  it("take a translation's texts", async () => {
    const folder = folderWith({
      "mbpp.jsonl": '{"task_id": 11, "text": "t", "code": "c", "test_list": ["assert f()"]}\n',
      "mbpp_swh_Latn.jsonl": '{"task_id": 11, "text": "Andika"}\n',
    });
    const { items } = await load("mbpp_sw", folder);
    expect(items[0]?.prompt).toMatchObject({ own: '"""\nAndika\nassert f()\n"""\n' });
  });

  it("take prompts from a file, count those that it lacks, and leave the tests as they are", async () => {
    const row = (id: number) => `{"task_id": ${id}, "text": "t${id}", "code": "c", "test_list": ["assert f(${id})"]}\n`;
    const folder = folderWith({
      "mbpp.jsonl": [11, 12, 13].map(row).join(""),
      "mine.jsonl":
        '{"task_id": 13, "text": "Andika"}\n{"task_id": 11, "text": "Tafuta"}\n{"task_id": 900, "text": "?"}\n',
    });
    const prompts = join(folder, "mine.jsonl");
    for (const name of ["mbpp", "mbpp_sw"]) {
      const [task] = await openTasks([name], { prompts });
      const { items, notes } = (await task?.load({ folder })) ?? { items: [], notes: [] };
      expect(items.map(({ id, prompt }) => [id, prompt])).toEqual([
        ["11", { form: "text", shared: "", own: '"""\nTafuta\nassert f(11)\n"""\n' }],
        ["13", { form: "text", shared: "", own: '"""\nAndika\nassert f(13)\n"""\n' }],
      ]);
      expect(notes[0]).toBe(`${prompts} has no prompt for 1 of 3 problems, which are left out`);
    }
    await expect(openTasks(["mgsm_sw"], { prompts })).rejects.toThrow(/only mbpp takes them from a file/);
  });
});
