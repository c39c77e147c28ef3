// The command of a verb: its flags, help and completion, progress, notes and output, all from the verb.
import type { Command } from "commander";
import { Argument, InvalidArgumentError, type Option } from "commander";
import type { z } from "zod";
import { type Shown, type ShownProgress, shownLines } from "../../figures/index.js";
import { type Progress, usageError } from "../../kit/index.js";
import { checkSchema, type SchemaField } from "../../kit/settings/index.js";
import {
  callVerb,
  checkInput,
  type Noted,
  type Verb,
  verbFields,
  type WorkOptions,
  withHub,
} from "../../verbs/shared/index.js";
import { hubAccess } from "./hub-access.js";
import {
  addToList,
  elapsed,
  hasColors,
  info,
  paletteFor,
  parseNamed,
  print,
  printJson,
  runWithProgress,
  type WorkOptions as WorkFlags,
  warn,
  withCommonOptions,
  workOptions,
} from "./output.js";
import { readTexts } from "./prompt-files.js";
import { checkPushFlags, type PushFlags, printPush, pushResult, withPushOptions } from "./push.js";
import { attributeOf, checked, fieldOption, readValue } from "./recipe-flags.js";

type Flags = WorkFlags & PushFlags & { readonly dryRun?: boolean } & Readonly<Record<string, unknown>>;
type Input = Readonly<Record<string, unknown>>;

/** What adds a verb to the program, for the table of commands. */
export function verbCommand<Schema extends z.ZodObject, Result extends Noted, P extends Progress, Planned>(
  verb: Verb<Schema, Result, P, Planned>,
): (program: Command) => void {
  const plain = verb as unknown as Verb;
  return (program) => {
    declared(program, plain).action(async (...args: unknown[]) => {
      const command = args.at(-1) as Command;
      await run(plain, command.opts<Flags>(), command.args);
    });
  };
}

/** `--save-module` of `saveModules`. */
function flagOf({ terminal: { flags = {} } }: Verb, field: string): string {
  return flags[field]?.flag ?? field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replaceAll("_", "-");
}

function declared(program: Command, verb: Verb): Command {
  const { name, description, plan, options, terminal } = verb;
  const fields = new Map(verbFields(verb).map((field) => [field.name, field]));
  const command = program.command(name).description(description);
  for (const field of terminal.positional ?? []) {
    const { description: words = "", required = false } = fields.get(field) ?? {};
    command.addArgument(new Argument(required ? `<${field}>` : `[${field}]`, words.replaceAll("`", "")));
  }
  for (const [title, names] of Object.entries(terminal.groups)) {
    command.optionsGroup(title);
    for (const name of names) {
      const field = fields.get(name);
      if (field) command.addOption(optionOf(verb, field));
      else if (name === "push") withPushOptions(command);
      else if (name === "dryRun") command.option("--dry-run", plan?.description ?? "");
      else command.option(`--${name}`, options[name as "force" | "resume"] ?? "");
    }
  }
  return options.memory === undefined ? withCommonOptions(command) : workOptions(options.memory)(command);
}

function optionOf(verb: Verb, field: SchemaField): Option {
  const { name, type, choices } = field;
  const { value, help, read } = verb.terminal.flags?.[name] ?? {};
  const flag = flagOf(verb, name);
  const named = { ...field, ...(help === undefined ? {} : { description: help }) };
  if (type === "true or false") return fieldOption(named, flag, "");
  const isRepeated = type.startsWith("list") && read === undefined;
  const described = {
    ...named,
    description: `${named.description}${isRepeated ? "; repeatable" : ""}`,
    ...(field.unset === undefined ? {} : { unset: withFlags(verb, field.unset) }),
  };
  const option = fieldOption(described, flag, value === undefined ? undefined : ` <${value}>`);
  // What is written is asked for in a sentence, as a dry run needs none.
  option.makeOptionMandatory(field.required && !(name === "out" && verb.plan));
  if (name === "out") option.short = "-o";
  if (name === "out") option.flags = `-o, ${option.flags}`;
  if (choices) return option.choices(choices);
  if (read === "places") return option.argParser(parsePlace);
  if (read !== undefined) return option;
  const check = (given: unknown) => checkSchema(verb.schema.shape[name], given).problems[0];
  if (type === "sources by name") return option.argParser(parseNamed);
  if (!isRepeated) return option.argParser((text) => checked(readValue(type, text), check));
  return option.argParser((text, earlier: readonly string[] | undefined) => {
    checked([text], check);
    return addToList(text, earlier);
  });
}

function parsePlace(text: string, earlier: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  const equals = text.indexOf("=");
  if (equals < 1 || equals === text.length - 1)
    throw new InvalidArgumentError("It must be ID=FOLDER, such as task=./math.");
  return { ...earlier, [text.slice(0, equals)]: text.slice(equals + 1) };
}

/** Words of a schema with its fields as flags: `energy` in backticks is --energy. */
function withFlags(verb: Verb, words: string): string {
  return words.replace(/`(\w+)`/g, (_, field: string) =>
    field in verb.schema.shape ? `--${flagOf(verb, field)}` : field,
  );
}

/** The fields that flags and arguments give. */
async function inputOf(verb: Verb, flags: Flags, args: readonly string[]): Promise<Input> {
  const { positional = [], flags: spelled = {} } = verb.terminal;
  const entries = Object.keys(verb.schema.shape).map(async (field): Promise<[string, unknown]> => {
    if (positional.includes(field)) return [field, args[positional.indexOf(field)]];
    const value = flags[attributeOf(flagOf(verb, field))];
    if (value instanceof Map) return [field, Object.fromEntries(value)];
    return [field, spelled[field]?.read === "texts" && value !== undefined ? await readTexts(String(value)) : value];
  });
  return Object.fromEntries((await Promise.all(entries)).filter(([, value]) => value !== undefined));
}

async function run(verb: Verb, flags: Flags, args: readonly string[]): Promise<void> {
  const start = performance.now();
  const { plan, terminal, options } = verb;
  const input = await inputOf(verb, flags, args);
  const isDry = plan !== undefined && flags.dryRun === true;
  if (!isDry && plan && terminal.writes !== undefined && input.out === undefined) {
    throw usageError(`Missing --out. Pass --out FOLDER to write ${terminal.writes}, or --dry-run to print the plan.`);
  }
  if (terminal.pushed) await checkPushFlags(flags);
  if (isDry) return runPlan(verb, input, flags);
  const said = new Set<string>();
  const result = await runWithProgress(
    flags,
    ({ onNote, onProgress, ...controls }) => {
      const note = (text: string) => {
        said.add(text);
        onNote?.(text);
      };
      const update = (progress: Progress) => {
        const shown: ShownProgress & Progress = {
          ...progress,
          ...(terminal.detail ? { detail: terminal.detail(progress) } : {}),
        };
        onProgress?.(shown);
      };
      const onPlan = (planned: unknown) => announce(verb, planned, input, flags, said);
      const given = Object.keys(options).flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]]));
      const work = Object.fromEntries(given) as WorkOptions;
      const hub = hubAccess(verb.fetch, { signal: controls.signal, onProgress, ...(onNote ? { onNote } : {}) });
      return callVerb(verb, input, { ...controls, ...work, onNote: note, onProgress: update, onPlan, hub });
    },
    terminal.waitsFor,
  );
  await printResult(verb, result, { input, flags, start, said });
}

/** Prints what is about to be done, on stderr. */
function announce(verb: Verb, planned: unknown, input: Input, flags: Flags, said: Set<string>): void {
  const { notes = [], warnings = [] } = Object(planned) as Partial<Noted>;
  info(flags, [...linesOf(verb.plan?.show(planned, input) ?? [], process.stderr), ""].join("\n"));
  for (const warning of warnings) warn(warning);
  for (const text of [...notes, ...warnings]) said.add(text);
}

async function printResult(
  verb: Verb,
  result: Noted,
  { input, flags, start, said }: { input: Input; flags: Flags; start: number; said: ReadonlySet<string> },
): Promise<void> {
  const { terminal } = verb;
  if (terminal.isFailed?.(result)) process.exitCode = 1;
  for (const warning of result.warnings) if (!said.has(warning)) warn(warning);
  const pushed = async (): Promise<Awaited<ReturnType<typeof pushResult>>> =>
    terminal.pushed ? pushResult(terminal.pushed(result, input), flags) : {};
  if (flags.json) {
    const shown = terminal.json ? terminal.json(result, (performance.now() - start) / 1000) : result;
    return printJson(Array.isArray(shown) ? shown : { ...Object(shown), ...(await pushed()) });
  }
  print(linesOf(verb.show(result, input), process.stdout));
  for (const note of result.notes) if (!said.has(note)) info(flags, `note: ${note}`);
  for (const line of terminal.closing?.(result, input, elapsed(start)) ?? []) info(flags, line);
  const { push } = await pushed();
  if (push) printPush(push);
}

async function runPlan(verb: Verb, input: Input, flags: Flags): Promise<void> {
  const { plan } = verb;
  if (!plan) return;
  // A dry run writes nothing, so that it needs no folder.
  const whole = checkInput(verb, "out" in verb.schema.shape ? { out: "out", ...input } : input);
  const planned = await runWithProgress(flags, (controls) =>
    plan.run(whole, withHub(verb, { ...controls, hub: hubAccess("plan", controls) })),
  );
  const { warnings = [] } = Object(planned) as Partial<Noted>;
  if (flags.json) printJson(plan.json ? plan.json(planned, whole) : planned);
  else print(linesOf(plan.show(planned, whole), process.stdout));
  for (const warning of warnings) warn(warning);
}

function linesOf(shown: readonly Shown[], stream: NodeJS.WriteStream): string[] {
  return shownLines(shown, { palette: paletteFor(stream), hasColours: hasColors(stream) });
}
