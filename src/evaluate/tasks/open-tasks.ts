// Opens tasks by name: families, suites and task files.

import { isFile } from "../../kit/files/index.js";
import { LayergraftError, own, RecipeError } from "../../kit/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import { withAnswers } from "./answer-settings.js";
import { belebele } from "./belebele.js";
import { openCustomTask } from "./custom.js";
import { flores } from "./flores.js";
import { afrimgsm, gsm8k } from "./gsm.js";
import { mbpp } from "./mbpp.js";
import { mgsm } from "./mgsm.js";
import { afrimmlu, globalMmlu, mmlu } from "./mmlu.js";
import { checkProtocols, type Protocol } from "./protocol.js";
import type { OpenOptions, Task, TaskFamily } from "./task.js";

export { type AnswerSettings, answerWords, repeatItems } from "./answer-settings.js";
export { parseDeclaration, readDeclaration, taskFields, taskJsonSchema } from "./custom-file.js";
export type {
  Benchmark,
  ChooseItem,
  Executor,
  GenerateItem,
  Item,
  Message,
  Metric,
  Output,
  Prompt,
  Reading,
  Sampling,
  Task,
  TaskFamily,
  Verdict,
} from "./task.js";
export { type DataAccess, type LoadRows, MISSING_DATA } from "./task-data.js";

/** The built-in tasks, each with its names and protocols. */
export const TASK_FAMILIES: readonly TaskFamily[] = [
  ...[mgsm, gsm8k, afrimgsm],
  ...[belebele, flores, mbpp],
  ...[mmlu, globalMmlu, afrimmlu],
];

/** Every protocol there is, but for those of declared tasks. */
export const PROTOCOLS: readonly Protocol[] = TASK_FAMILIES.flatMap(({ protocols }) => protocols);

/** The protocol that asks a built-in task as a chat; undefined if it has none. @param name may have `{language}` in it */
export function chatProtocolOf(name: string): string | undefined {
  const family = TASK_FAMILIES.find((one) => name === one.name || name.startsWith(`${one.name}_`));
  return family?.protocols.find(({ form }) => form === "chat")?.name;
}

/** The languages whose MGSM mean the paper gives: FLORES names ten too, and Thai is not among them. */
const PAPER_MGSM = ["en", "de", "fr", "es", "ru", "zh", "ja", "bn", "sw", "te"];
const PAPER_LANGUAGES = ["ja", "bn", "sw", "te"];

/**
 * Lists of tasks under one name. `paper`: table 5 of Bandarkar et al., arXiv 2410.01335, and MGSM in the other languages of its
 * mean. Its translations of MMLU and MBPP are not published: MMLU is Global-MMLU, and of MBPP you bring one (mbpp_sw.jsonl).
 */
export const SUITES: Readonly<Record<string, readonly string[]>> = {
  paper: [
    ...PAPER_MGSM.map((code) => `mgsm_${code}`),
    ...["en", ...PAPER_LANGUAGES].map((code) => `belebele_${code}`),
    ...PAPER_LANGUAGES.map((code) => `flores_${code}`),
    ...PAPER_LANGUAGES.flatMap((code) => [`mbpp_${code}`, `global_mmlu_${code}`]),
  ],
  ...Object.fromEntries(
    PAPER_LANGUAGES.map((code) => [
      `paper_${code}`,
      [`mgsm_${code}`, "mgsm_en", `belebele_${code}`, `flores_${code}`, `mbpp_${code}`, `global_mmlu_${code}`],
    ]),
  ),
};

export interface OpenTasksOptions extends Omit<OpenOptions, "protocol"> {
  /** Protocols in place of the tasks' own: `mgsm-en-cot` or `layergraft/mgsm-en-cot@5`. Default: none. */
  readonly protocols?: readonly string[] | undefined;
  /** Called with what a name of a task was taken for, if that is another name. */
  readonly onNote?: ((text: string) => void) | undefined;
}

/**
 * The tasks of a list of names: `mgsm_sw`, `belebele_swh`, `flores_eng-swh`, `mbpp`, `mmlu`, a suite, or the path of a
 * YAML file that declares one. Each task once, in the order of the list.
 * @throws RecipeError for unknown tasks, protocols of none of the tasks, or shots that a protocol does not have
 */
export async function openTasks(names: readonly string[], options: OpenTasksOptions = {}): Promise<Task[]> {
  const { protocols: protocol = [], onNote, ...rest } = options;
  const settings: OpenOptions = { ...rest, protocol };
  const tasks = new Map<string, Task>();
  const families = new Set<TaskFamily>();
  const problems: LayergraftError[] = [];
  for (const name of names.flatMap((name) => own(SUITES, name) ?? [name])) {
    const isPath = /\.ya?ml$/i.test(name);
    let opened: readonly Task[];
    try {
      opened = isPath ? [await openCustomTask(name, settings)] : await openKnown(name, settings, families, onNote);
    } catch (error) {
      if (!(error instanceof LayergraftError)) throw error;
      problems.push(error);
      continue;
    }
    const [only] = opened;
    const isOther = names.includes(name) && !isPath && opened.length === 1 && only?.name !== name;
    if (isOther) onNote?.(`${name} is the task ${only?.name}`);
    for (const one of opened) {
      const task = withAnswers(one, options.answers);
      const known = tasks.get(task.name);
      if (known && known.protocol.name !== task.protocol.name) {
        throw RecipeError.at({ field: "tasks" }, `two tasks are called ${task.name}; rename one of them`);
      }
      tasks.set(task.name, task);
    }
  }
  const [fault] = problems;
  if (fault && problems.length === 1) throw fault;
  if (fault) {
    const messages = problems.map(({ message }) => message);
    throw new RecipeError("some tasks cannot be opened:", messages, { field: "tasks" });
  }
  if (tasks.size === 0) throw RecipeError.at({ field: "tasks" }, "no tasks; pass at least one");
  checkProtocols(
    protocol,
    [...families].flatMap(({ protocols }) => protocols),
  );
  return [...tasks.values()];
}

/** A task by name, or else by the name of its file without the ending. */
async function openKnown(
  name: string,
  settings: OpenOptions,
  families: Set<TaskFamily>,
  onNote: OpenTasksOptions["onNote"],
): Promise<readonly Task[]> {
  try {
    return openNamed(name, settings, families);
  } catch (error) {
    const file = await taskFileOf(name);
    if (file === undefined) throw error;
    onNote?.(`${name} is the task of ${file}`);
    return [await openCustomTask(file, settings)];
  }
}

/** The file of a task that is called by its name without the ending; undefined if there is none. */
export async function taskFileOf(name: string): Promise<string | undefined> {
  for (const file of [`${name}.yaml`, `${name}.yml`]) if (await isFile(file)) return file;
  return undefined;
}

function openNamed(name: string, settings: OpenOptions, families: Set<TaskFamily>): readonly Task[] {
  for (const family of TASK_FAMILIES) {
    const tasks = family.open(name, settings);
    if (!tasks) continue;
    if (settings.prompts !== undefined && !family.takesPrompts) {
      throw RecipeError.at(
        { field: "prompts" },
        `${name} has no prompts of your own; only mbpp takes them from a file`,
      );
    }
    families.add(family);
    return tasks;
  }
  const known = [...TASK_FAMILIES.flatMap(({ names }) => names), ...Object.keys(SUITES)];
  const patterns = TASK_FAMILIES.map(({ pattern }) => pattern).join("; ");
  throw RecipeError.at(
    { field: "tasks", actual: name },
    `unknown task ${name}${didYouMean(name, known)} (tasks: ${patterns}; suites: ` +
      `${Object.keys(SUITES).join(", ")}; or the path of a .yaml file)`,
  );
}
