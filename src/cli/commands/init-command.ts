import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { createInterface } from "node:readline/promises";
import { Argument, type Command } from "commander";
import type { Document } from "yaml";
import { isFile, writeFileAtomically } from "../../kit/files/index.js";
import { CancelledError, OutputError, usageError } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import { presetLayers } from "../../merge/index.js";
import { formatOfName, readRows } from "../../train/data/index.js";
import { inspect } from "../../verbs/index.js";
import { type CommonOptions, info, printJson, withCommonOptions } from "../shared/output.js";
import { checkpointFolders } from "../shared/sources.js";

/** Something to fill in: the flag that gives it, the question that asks for it, and its place in the file. */
interface Blank {
  readonly flag: "task" | "language" | "code" | "base" | "data" | "tasks" | "question" | "answer";
  readonly question: string;
  readonly at: readonly (string | number)[];
  /** What to write for an answer; default: the answer. */
  readonly write?: (answer: string) => unknown;
}

const TASK = { flag: "task", question: "Expert in the task" } as const;
const LANGUAGE = { flag: "language", question: "Expert in the language" } as const;
const BASE = { flag: "base", question: "Base model", at: ["base"] } as const;
const DATA = { flag: "data", question: "Data: a file, or a data set on the hub", at: ["data"] } as const;
const inBraces = (column: string) => (column.includes("{") ? column : `{${column}}`);

const KINDS: Readonly<Record<string, readonly Blank[]>> = {
  recipe: [
    { ...TASK, at: ["task"] },
    { ...LANGUAGE, at: ["language"] },
  ],
  run: [BASE, DATA],
  plan: [
    BASE,
    { ...TASK, at: ["experts", "task-expert", "folders", 0] },
    { ...LANGUAGE, at: ["experts", "language-expert", "folders", 0] },
    {
      flag: "code",
      question: "Code of the language, such as sw",
      at: ["experts", "language-expert", "language"],
    },
    {
      flag: "tasks",
      question: "Tasks, such as mgsm_sw,task.yaml",
      at: ["evaluate", "tasks"],
      write: (answer) => answer.split(",").map((name) => name.trim()),
    },
  ],
  task: [
    DATA,
    { flag: "question", question: "Column with the question", at: ["prompt"], write: inBraces },
    { flag: "answer", question: "Column with the right answer", at: ["gold"], write: inBraces },
  ],
};

interface InitOptions extends CommonOptions, Partial<Record<Blank["flag"], string>> {
  readonly out?: string;
  readonly force?: boolean;
}

export function add(program: Command): void {
  const command = program
    .command("init")
    .description(
      "Write a commented file to start from: a recipe, a training run, a plan of an experiment, or a task. Asks for " +
        "what no flag gives.",
    )
    .addArgument(new Argument("<kind>", "kind of file to write").choices(Object.keys(KINDS)))
    .optionsGroup("Content:")
    .option("--base <model>", "run, plan: base model")
    .option("--task <model>", "recipe, plan: expert in the task")
    .option("--language <model>", "recipe, plan: expert in the language")
    .option("--code <language>", "plan: code of the language, such as sw")
    .option("--data <source>", "run, task: file, or data set on the hub")
    .option("--tasks <names>", "plan: tasks to evaluate, comma-separated")
    .option("--question <column>", "task: column with the question")
    .option("--answer <column>", "task: column with the right answer")
    .optionsGroup("Output:")
    .option("-o, --out <file>", "file to write (default: the kind with .yaml)")
    .option("--force", "replace an existing file");
  // Models and data are named by flags, as each kind takes others.
  withCommonOptions(command).allowExcessArguments().action(writeInitial);
}

async function writeInitial(kind: string, options: InitOptions, { args }: Command): Promise<void> {
  const out = options.out ?? `${kind}.yaml`;
  const blanks = KINDS[kind] ?? [];
  const [, ...words] = args;
  if (words.length > 0) {
    const open = blanks.filter(({ flag }) => options[flag] === undefined);
    const flags = open.map(({ flag }, i) => [`--${flag}`, words[i] ?? flag.toUpperCase()]);
    throw usageError(
      `init ${kind} takes what it needs by flags. Write: ${commandLine`init ${[kind, ...flags.flat()]}`}`,
    );
  }
  const all = Object.values(KINDS).flat();
  const foreign = all.find(({ flag }) => options[flag] !== undefined && !blanks.some((blank) => blank.flag === flag));
  if (foreign) throw usageError(`init ${kind} does not take --${foreign.flag}`);
  if (!options.force && (await isFile(out))) {
    throw new OutputError(`${out} already exists. Pass --force to replace it, or choose another --out.`, { file: out });
  }
  const require = createRequire(import.meta.url);
  const template = join(dirname(require.resolve("#init")), `${kind}.yaml`);
  const { parseDocument } = await import("yaml");
  const document = parseDocument(await readFile(template, "utf8"));
  for (const [blank, answer] of await fillIn(kind, blanks, options)) {
    document.setIn(blank.at, blank.write?.(answer) ?? answer);
  }
  if (kind === "recipe" || kind === "plan") {
    const model = String(document.getIn(blanks[0]?.at ?? []));
    const depth = await depthOf(model);
    if (depth !== undefined) writeLayers(document, kind, depth);
    else
      info(
        options,
        `note: ${model} could not be read. Set bottom and top in ${out} for its depth; 8 layers were assumed.`,
      );
  }
  if (kind === "task" && !(await isNumeric(document.get("data"), document.get("gold")))) document.set("read", "line");
  const schema = join(dirname(require.resolve("#package.json")), "docs", `${kind}.schema.json`);
  const within = relative(dirname(resolve(out)), schema);
  const head = `# yaml-language-server: $schema=${within.startsWith("..") ? schema : within}\n`;
  // Lists without spaces inside their brackets, as the templates have them.
  const text = document.toString({ lineWidth: 0 }).replace(/\[ | \]/g, (bracket) => bracket.trim());
  await writeFileAtomically(out, head + text.replaceAll(`${kind}.yaml`, out));
  if (options.json) printJson({ kind, file: out });
  else info(options, `Wrote ${out}. Its first lines have the commands to try.`);
}

/** Number of layers; undefined for a model that cannot be read. */
const depthOf = (source: string): Promise<number | undefined> =>
  inspect({ source }).then(
    ({ layers }) => layers,
    () => undefined,
  );

/** Writes how many layers the paper takes of the language expert in a model of this depth, and numbers around it. */
function writeLayers(document: Document, kind: "recipe" | "plan", depth: number): void {
  const { bottom, top } = presetLayers(depth);
  if (kind === "recipe") {
    document.comment = (document.comment ?? "")
      .replace(/bottom: \d+/, `bottom: ${bottom}`)
      .replace(/top: \d+/, `top: ${top}`);
    return;
  }
  const fewest = presetLayers(depth, "paper-smallest");
  const most = { bottom: bottom + Math.max(1, bottom - fewest.bottom), top: top + Math.max(1, top - fewest.top) };
  const counts = (field: "bottom" | "top") =>
    [...new Set([fewest, { bottom, top }, most].map((one) => one[field]))].filter((count) => count < depth);
  const write = (field: string, value: object) =>
    document.setIn(["merges", 0, field], document.createNode(value, { flow: true }));
  write("grid", { bottom: counts("bottom"), top: counts("top") });
  write("default", { bottom, top });
}

/** The answers to a kind's questions, from flags or from a terminal. */
async function fillIn(kind: string, blanks: readonly Blank[], options: InitOptions): Promise<Map<Blank, string>> {
  const answers = new Map<Blank, string>();
  const missing = blanks.filter(({ flag }) => options[flag] === undefined);
  if (missing.length > 0 && !process.stdin.isTTY) {
    throw usageError(
      `init ${kind} needs ${missing.map(({ flag }) => `--${flag}`).join(", ")}, or a terminal to ask in`,
    );
  }
  const terminal = missing.length > 0 ? createInterface({ input: process.stdin, output: process.stderr }) : undefined;
  const stop = new AbortController();
  for (const event of ["SIGINT", "close"]) terminal?.once(event, () => stop.abort());
  try {
    for (const blank of blanks) {
      let answer = options[blank.flag];
      const here = answer === undefined ? await choicesOf(blank, answers) : [];
      const hint = here.length > 0 ? ` (here: ${here.slice(0, 8).join(", ")})` : "";
      while (!answer)
        answer = (await terminal?.question(`${blank.question}${hint}: `, { signal: stop.signal }))?.trim();
      answers.set(blank, answer);
    }
  } catch (error) {
    throw stop.signal.aborted ? new CancelledError("Nothing was written.") : error;
  } finally {
    terminal?.close();
  }
  return answers;
}

/** What could answer a question here: checkpoints, or columns of the data. */
async function choicesOf({ flag }: Blank, answers: ReadonlyMap<Blank, string>): Promise<readonly string[]> {
  if (flag === "question" || flag === "answer") return Object.keys((await firstRow(answers.get(DATA))) ?? {});
  return flag === "data" || flag === "tasks" || flag === "code" ? [] : checkpointFolders(".");
}

/** The first row of a data file; undefined if it is elsewhere or cannot be read. */
async function firstRow(file: unknown): Promise<Readonly<Record<string, unknown>> | undefined> {
  if (typeof file !== "string" || !(await isFile(file)) || !formatOfName(file)) return undefined;
  for await (const { rows } of readRows([file])) return rows[0];
  return undefined;
}

/** Whether the right answer of the first row is a number, or not known. */
async function isNumeric(data: unknown, gold: unknown): Promise<boolean> {
  const value = (await firstRow(data))?.[String(gold).replace(/^\{|\}$/g, "")];
  return value === undefined || /^-?[\d.,]+$/.test(String(value));
}
