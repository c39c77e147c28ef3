import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { Argument, type Command } from "commander";
import { isFile, OutputError, usageError, writeFileAtomically } from "../../core/index.js";
import { formatOfName, readRows } from "../../data/index.js";
import { type CommonOptions, info, printJson, withCommonOptions } from "../shared/output.js";

/** Something to fill in: the flag that gives it, and its place in the file. */
interface Blank {
  readonly flag: "task" | "language" | "code" | "base" | "data" | "tasks" | "question" | "answer";
  readonly at: readonly (string | number)[];
  /** What to write for an answer; default: the answer. */
  readonly write?: (answer: string) => unknown;
}

const BASE = { flag: "base", at: ["base"] } as const;
const DATA = { flag: "data", at: ["data"] } as const;
const inBraces = (column: string) => (column.includes("{") ? column : `{${column}}`);

const KINDS: Readonly<Record<string, readonly Blank[]>> = {
  recipe: [
    { flag: "task", at: ["task"] },
    { flag: "language", at: ["language"] },
  ],
  run: [BASE, DATA],
  plan: [
    BASE,
    { flag: "task", at: ["experts", "task-expert", "folders", 0] },
    { flag: "language", at: ["experts", "language-expert", "folders", 0] },
    { flag: "code", at: ["experts", "language-expert", "language"] },
    {
      flag: "tasks",
      at: ["evaluate", "tasks"],
      write: (answer) => answer.split(",").map((name) => name.trim()),
    },
  ],
  task: [
    DATA,
    { flag: "question", at: ["prompt"], write: inBraces },
    { flag: "answer", at: ["gold"], write: inBraces },
  ],
};

interface InitOptions extends CommonOptions, Partial<Record<Blank["flag"], string>> {
  readonly out?: string;
  readonly force?: boolean;
}

export function add(program: Command): void {
  const command = program
    .command("init")
    .description("Write a commented file to start from: a recipe, a training run, a plan of an experiment, or a task.")
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
  withCommonOptions(command).action(writeInitial);
}

async function writeInitial(kind: string, options: InitOptions): Promise<void> {
  const out = options.out ?? `${kind}.yaml`;
  const blanks = KINDS[kind] ?? [];
  const all = Object.values(KINDS).flat();
  const foreign = all.find(({ flag }) => options[flag] !== undefined && !blanks.some((blank) => blank.flag === flag));
  if (foreign) throw usageError(`init ${kind} does not take --${foreign.flag}`);
  const missing = blanks.filter(({ flag }) => !options[flag]).map(({ flag }) => `--${flag}`);
  if (missing.length > 0) throw usageError(`init ${kind} needs ${missing.join(" and ")}`);
  if (!options.force && (await isFile(out))) {
    throw new OutputError(`${out} already exists. Pass --force to replace it, or choose another --out.`, { file: out });
  }
  const require = createRequire(import.meta.url);
  const template = join(dirname(require.resolve("#init")), `${kind}.yaml`);
  const { parseDocument } = await import("yaml");
  const document = parseDocument(await readFile(template, "utf8"));
  for (const { flag, at, write } of blanks) {
    const answer = options[flag] ?? "";
    document.setIn(at, write?.(answer) ?? answer);
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
