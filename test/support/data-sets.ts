// Data sets with made rows in the layouts of the real ones: what tasks and training runs read, in a folder or on the fake hub.
import { gzipSync } from "node:zlib";
import { MMLU_SUBJECTS } from "../../src/evaluate/tasks/mmlu.js";
import { LANGUAGES as ALL_LANGUAGES } from "../../src/kit/languages.js";
import { checkData, compileFilters, planSet } from "../../src/train/data/index.js";
import { compileMapping } from "../../src/train/data/mapping.js";

/** Contents by path. */
export type Files = Map<string, string | Buffer>;

const lines = (count: number, line: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => `${line(i)}\n`).join("");
const json = (count: number, row: (i: number) => unknown) => lines(count, (i) => JSON.stringify(row(i)));

const LANGUAGES = [...ALL_LANGUAGES].filter(({ short }) => short !== undefined);
const MGSM = ["bn", "de", "en", "es", "fr", "ja", "ru", "sw", "te", "th", "zh"];
/** Problems, questions and sentences of the published data sets; each subject of MMLU has as many as they have on average. */
const COUNTS = { mgsm: 250, belebele: 900, flores: 1012, mbpp: 510, mmlu: 246 };

const problem = (language: string) => (i: number) => ({
  ...{ question: `Problem ${i + 1} in ${language}`, answer: `Step by step, it is ${i}.`, answer_number: i },
});
const belebele = (code: string) => (i: number) => ({
  ...{
    link: `https://example.org/${i}`,
    question_number: 1,
    flores_passage: `A passage in ${code}`,
    question: "Which?",
  },
  ...{ mc_answer1: "a", mc_answer2: "b", mc_answer3: "c", mc_answer4: "d", correct_answer_num: "1", dialect: code },
});
const mbpp = (i: number) => ({
  ...{ task_id: i + 1, text: "Write a function.", code: "def f(): pass", test_list: ["assert True"] },
  ...{ test_setup_code: "", challenge_test_list: [] },
});
const mmlu = (subject: string) => (i: number) => ({
  ...{ question: `Question ${i + 1}?`, subject, choices: ["a", "b", "c", "d"], answer: 0 },
});

const globalMmlu = (subject: string) => (i: number) => ({
  ...{ sample_id: `${subject}/${i}`, subject, question: `Question ${i + 1}?`, answer: "A" },
  ...{ option_a: "a", option_b: "b", option_c: "c", option_d: "d" },
});

/** A folder with the data of the tasks of the papers. */
export function taskFiles(): Files {
  const exemplars = Object.fromEntries(
    MGSM.map((language) => [language, Array.from({ length: 8 }, (_, i) => ({ q: `Q: ${i}`, a: `A: ${i}` }))]),
  );
  return new Map<string, string>([
    ["mgsm/exemplars.json", JSON.stringify({ number_answers: [0, 1, 2, 3, 4, 5, 6, 7], exemplars })],
    ...MGSM.map((one): [string, string] => [
      `mgsm/mgsm_${one}.tsv`,
      lines(COUNTS.mgsm, (i) => `Problem ${i + 1} in ${one}\t${i}`),
    ]),
    ...LANGUAGES.flatMap(({ code }): [string, string][] => [
      [`belebele/${code}.jsonl`, json(COUNTS.belebele, belebele(code))],
      [`flores200/devtest/${code}.devtest`, lines(COUNTS.flores, (i) => `Sentence ${i + 1}`)],
    ]),
    ["mbpp/mbpp.jsonl", json(COUNTS.mbpp, mbpp)],
    ...["bn", "ja", "sw", "te"].flatMap((code): [string, string][] => [
      [`mbpp_${code}.jsonl`, json(COUNTS.mbpp, (i) => ({ task_id: i + 1, text: `Write a function in ${code}.` }))],
      [`global_mmlu/${code}/test.jsonl`, MMLU_SUBJECTS.map((one) => json(COUNTS.mmlu, globalMmlu(one))).join("")],
      [`global_mmlu/${code}/dev.jsonl`, MMLU_SUBJECTS.map((one) => json(5, globalMmlu(one))).join("")],
    ]),
    ...MMLU_SUBJECTS.flatMap((subject): [string, string][] => [
      [`mmlu/dev/${subject}_dev.csv`, lines(5, () => "Which?,a,b,c,d,A")],
      [`mmlu/test/${subject}_test.csv`, lines(COUNTS.mmlu, () => "Which?,a,b,c,d,A")],
    ]),
  ]);
}

/** The same on the hub, by the name of the data set. */
export function taskSets(): Map<string, Files> {
  return new Map<string, Files>([
    [
      "juletxara/mgsm",
      new Map(
        MGSM.flatMap((one): [string, string][] => [
          [`${one}/train.jsonl`, json(8, problem(one))],
          [`${one}/test.jsonl`, json(COUNTS.mgsm, problem(one))],
        ]),
      ),
    ],
    [
      "masakhane/afrimgsm",
      new Map(
        ["swa", "yor"].flatMap((one): [string, string][] => [
          [`${one}/train.jsonl`, json(8, problem(one))],
          [`${one}/test.jsonl`, json(COUNTS.mgsm, problem(one))],
        ]),
      ),
    ],
    ["lightonai/mgsm-rev2", new Map(MGSM.map((one) => [`${one}/test.jsonl`, json(COUNTS.mgsm, problem(one))]))],
    [
      "facebook/belebele",
      new Map(LANGUAGES.map(({ code }) => [`${code}/test.jsonl`, json(COUNTS.belebele, belebele(code))])),
    ],
    [
      "openlanguagedata/flores_plus",
      new Map(LANGUAGES.map(({ code }) => [`${code}/devtest.jsonl`, json(COUNTS.flores, (i) => ({ text: `${i}` }))])),
    ],
    ["google-research-datasets/mbpp", new Map([["full/test.jsonl", json(COUNTS.mbpp, mbpp)]])],
    [
      "cais/mmlu",
      new Map([
        ["all/dev-00000-of-00001.jsonl", MMLU_SUBJECTS.map((subject) => json(5, mmlu(subject))).join("")],
        ["all/test-00000-of-00001.jsonl", MMLU_SUBJECTS.map((subject) => json(COUNTS.mmlu, mmlu(subject))).join("")],
      ]),
    ],
  ]);
}

const ROWS = 600;

/** What training runs read: files by the path that names them, and data sets of the hub by their names. */
export function trainingSets(declarations: readonly unknown[]): { files: Files; sets: Map<string, Files> } {
  const files: Files = new Map();
  const sets = new Map<string, Files>();
  for (const declaration of declarations) {
    const { sets: declared } = checkData(declaration);
    for (const set of declared.map(planSet)) {
      const { source } = set;
      const rows = Array.from({ length: ROWS }, (_, i) => rowOf(set, i));
      const text = rows.map((row) => `${JSON.stringify(row)}\n`).join("");
      if (!/\.(jsonl|gz)$/.test(source)) {
        const own = sets.get(source) ?? new Map<string, string>();
        const before = own.get(pathOf(set)) ?? "";
        // One file may have several languages.
        sets.set(source, own.set(pathOf(set), before.includes(text) ? before : before + text));
      } else if (!Array.isArray(set.header)) files.set(source, text);
      else {
        const header = set.header;
        const table = rows.map((row) => `${header.map((column) => row[column] ?? "").join("\t")}\n`).join("");
        files.set(source, gzipSync(table));
      }
    }
  }
  return { files, sets };
}

type SetPlan = ReturnType<typeof planSet>;

/** A file that is chosen for the set's patterns, configuration and split. */
function pathOf({ files, config, split = "train" }: SetPlan): string {
  const [pattern] = files ?? [];
  if (pattern !== undefined) return pattern.replace("{jsonl,parquet}", "jsonl").replaceAll("*", "data");
  return `${config === undefined ? "" : `${config}/`}${split}-00000-of-00001.jsonl`;
}

/** A row that the set's filters keep. */
function rowOf({ map, filter = [] }: SetPlan, i: number): Record<string, unknown> {
  const turns = [
    { role: "user", content: `Question ${i}?` },
    { role: "assistant", content: `Answer ${i}.` },
  ];
  const columns = map === undefined ? [["prompt"], ["response"]] : compileMapping(map).columns;
  const isConversation = map !== undefined && "messages" in map;
  const row = Object.fromEntries(
    columns.flatMap(([column = ""]) => (column === "" ? [] : [[column, isConversation ? turns : `${column} ${i}`]])),
  );
  for (const column of compileFilters(filter).columns) {
    const own = filter.find((one) => "column" in one && one.column === column) ?? {};
    const wanted = "equals" in own ? own.equals : "at_least" in own ? own.at_least : row[column];
    row[column] = Array.isArray(wanted) ? wanted[0] : wanted;
  }
  return row;
}
