// MBPP: small Python programs from a sentence, judged by executing tests. Austin et al. 2021, arXiv 2108.07732.
import { type Language, requireLanguage, usageError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { declareTask } from "./declare-task.js";
import { asGenerate } from "./multiple-choice.js";
import { type Protocol, protocolsOf } from "./protocol.js";
import type { GenerateItem, OpenOptions, Task, TaskFamily } from "./task.js";
import { dataError, fileRows, findFile, type LocatedRow, type OpenData, taskRows, textField } from "./task-data.js";

interface MbppProtocol extends Protocol {
  readonly form: "docstring" | "austin";
  /** Whether `test_setup_code` is executed: two problems cannot be solved without it. */
  readonly hasSetup: boolean;
}

const DATASET = "google-research-datasets/mbpp";
/** The test split; 1 to 10 are for shots. */
const [FIRST_TEST, LAST_TEST] = [11, 510];
const SHOT_IDS = [2, 3, 4];
const MAX_NEW_TOKENS = 512;

/** Where a program ends and something else begins: a test, a call, the next problem, the end of a code fence. */
const PROGRAM_STOPS = ["\nclass", "\nassert", '\n"""', "\nprint", "\nif", "\n<|/", "\n```"];

const PROTOCOLS = protocolsOf<MbppProtocol>("mbpp");

export const mbpp: TaskFamily = {
  name: "mbpp",
  summary: "small Python programs, pass@1; executes what the model wrote",
  protocols: PROTOCOLS,
  takesPrompts: true,
  pattern: "mbpp, or mbpp_LANGUAGE for a translation you have",
  names: ["mbpp"],
  open(name, options) {
    if (name === "mbpp") return [openMbpp(undefined, options)];
    if (!name.startsWith("mbpp_")) return undefined;
    return [openMbpp(requireLanguage(name.slice("mbpp_".length), { task: name, field: "tasks" }), options)];
  },
};

function openMbpp(language: Language | undefined, options: OpenOptions): Task {
  return declareTask(options, PROTOCOLS, (protocol, shots) => ({
    name: language ? `mbpp_${language.code}` : "mbpp",
    title: language ? `MBPP ${language.name}` : "MBPP",
    metrics: [{ name: "pass@1", title: "pass@1", of: "pass@1", by: "mean", scale: "share" }],
    executes: true,
    published: { what: "MBPP", count: LAST_TEST - FIRST_TEST + 1, unit: "problem" },
    ...(language ? {} : { benchmark: { dataset: DATASET, task: "full" } }),
    async load(data) {
      const read = (split: "test" | "prompt") => readProblems(data, split, { language, prompts: options.prompts });
      const { problems: test, notes } = await read("test");
      const examples = shots === 0 ? [] : (await read("prompt")).problems;
      const shared = shots === 0 ? "" : shotsOfAustin(examples, shots, protocol);
      const items = test.map(
        (problem): GenerateItem => ({
          kind: "generate",
          id: String(problem.id),
          prompt: { form: "text", shared, own: promptOf(problem, protocol) },
          gold: problem.code,
          stop: protocol.form === "austin" ? ["[DONE]"] : PROGRAM_STOPS,
          maxNewTokens: MAX_NEW_TOKENS,
          tests: testsOf(problem, protocol),
        }),
      );
      return { items, notes };
    },
    read: (_, output) => (typeof output === "string" ? { program: output } : {}),
    async score(item, { program }, { executor, signal } = {}) {
      if (!executor) {
        throw usageError("MBPP executes programs that the model wrote", { option: "allowCode" });
      }
      if (typeof program !== "string") return undefined;
      const parts = [{ name: "program", source: program }, ...(asGenerate(item).tests ?? [])];
      const { outcome } = await executor.run(parts, { reference: asGenerate(item).gold, signal });
      return { "pass@1": outcome === "passed" ? 1 : 0 };
    },
  }));
}

interface Problem {
  readonly id: number;
  readonly text: string;
  readonly code: string;
  readonly setup: string;
  readonly tests: readonly string[];
}

function promptOf({ text, tests }: Problem, { form }: MbppProtocol): string {
  if (form === "docstring") return `"""\n${text}\n${tests[0] ?? ""}\n"""\n`;
  return (
    `You are an expert Python programmer, and here is your task: ${text} Your code should pass these tests:\n\n` +
    `${tests.join("\n")}\n[BEGIN]\n`
  );
}

function shotsOfAustin(examples: readonly Problem[], shots: number, protocol: MbppProtocol): string {
  return SHOT_IDS.slice(0, shots)
    .map((id) => {
      const example = examples.find((one) => one.id === id);
      if (!example) throw dataError(`MBPP has no problem ${id}, which is one of the shots`);
      const code = protocol.hasSetup ? example.code.replaceAll("\r\n", "\n") : example.code;
      return `${promptOf(example, protocol)}${code}\n[DONE]\n\n`;
    })
    .join("");
}

/** What is executed after the program. Setup code comes after it too: it uses classes that the program defines. */
function testsOf({ setup, tests }: Problem, { hasSetup }: MbppProtocol): { name: string; source: string }[] {
  return [
    ...(hasSetup && setup.trim() !== "" ? [{ name: "setup", source: setup }] : []),
    ...tests.map((source, i) => ({ name: `test ${i + 1}`, source })),
  ];
}

/**
 * Problems of the test split, or those for prompts, by id. Translated texts take the place of theirs; problems without one
 * are left out, and counted in a note.
 */
async function readProblems(
  data: OpenData,
  split: "test" | "prompt",
  { language, prompts }: { readonly language: Language | undefined; readonly prompts: string | undefined },
): Promise<{ problems: Problem[]; notes: string[] }> {
  if (language && prompts === undefined && data.folder === undefined) {
    const file = `mbpp_${language.code}.jsonl`;
    throw dataError(`a translation of MBPP is read from ${file} in a data folder, or from a file of prompts`, {
      option: "data",
    });
  }
  const source = { what: "MBPP", files: filesOf("mbpp"), dataset: DATASET, config: "full", split };
  const isMeant = ({ id }: Problem) => (split === "test" ? id >= FIRST_TEST && id <= LAST_TEST : id < FIRST_TEST);
  const problems = (await taskRows(data, source)).map(problemOf).filter(isMeant);
  if (problems.length === 0) {
    const place = data.folder ?? DATASET;
    throw dataError(`MBPP in ${place} has no problems from ${FIRST_TEST} to ${LAST_TEST}, which are the test split`);
  }
  if (!language && prompts === undefined) return { problems, notes: [] };
  const what = `MBPP in ${language?.name} (task_id and text of each problem)`;
  const translation = prompts ?? (await findFile(data.folder ?? "", filesOf(`mbpp_${language?.code}`), what));
  const rows = await fileRows(translation, { signal: data.signal });
  const texts = new Map(rows.map((located) => [Number(located.row.task_id), textField(located, "text")]));
  const translated = problems.flatMap((problem) => {
    const text = texts.get(problem.id);
    return text === undefined ? [] : [{ ...problem, text }];
  });
  if (translated.length === 0) {
    throw dataError(`${translation} has none of the problems of MBPP; expected task_id and text in each row`, {
      file: translation,
    });
  }
  const missing = problems.length - translated.length;
  const left = `${translation} has no prompt for ${missing} of ${plural(problems.length, "problem")}, which are left out`;
  return { problems: translated, notes: missing > 0 ? [left] : [] };
}

const filesOf = (name: string) => [`${name}.jsonl`, `mbpp/${name}.jsonl`];

function problemOf(located: LocatedRow): Problem {
  const { row, where } = located;
  const id = Number(row.task_id);
  if (!Number.isInteger(id)) throw dataError(`${where}: task_id is ${JSON.stringify(row.task_id)}; expected a number`);
  const tests = row.test_list;
  if (!Array.isArray(tests) || tests.length === 0 || tests.some((test) => typeof test !== "string")) {
    throw dataError(`${where}: test_list must be a list of assertions`);
  }
  return {
    id,
    text: textField(located, "text"),
    code: textField(located, "code"),
    setup: typeof row.test_setup_code === "string" ? row.test_setup_code : "",
    tests,
  };
}
