// The command of a verb: its flags, help and completion, progress, notes and output, all from the verb.
import { availableParallelism } from "node:os";
import type { Command } from "commander";
import { Argument, InvalidArgumentError, Option } from "commander";
import type { z } from "zod";
import { type Shown, type ShownProgress, shownLines } from "../../figures/index.js";
import { isObject, type Progress, usageError } from "../../kit/index.js";
import { withWritten } from "../../kit/numbers/index.js";
import { checkSchema, type SchemaField } from "../../kit/settings/index.js";
import {
  type Controls,
  checkInput,
  type FieldText,
  type FlagSpelling,
  type Located,
  type Noted,
  type Verb,
  verbFields,
  type WorkOptions,
} from "../../verbs/shared/index.js";
import { asFlag } from "./advice.js";
import { hubAccess } from "./hub-access.js";
import {
  addToList,
  elapsed,
  hasColors,
  info,
  paletteFor,
  parseList,
  parseNamed,
  parseThreads,
  print,
  printJson,
  runWithProgress,
  type WorkOptions as WorkFlags,
  warn,
  withCommonOptions,
  workOptions,
} from "./output.js";
import { parseJson, readPrompts, readTexts, readTokenFile } from "./prompt-files.js";
import { checkPushFlags, type PushFlags, printPush, pushResult, withPushOptions } from "./push.js";
import { attributeOf, type Check, checked, fieldOption, readValue, withField } from "./recipe-flags.js";

type Flags = WorkFlags & PushFlags & { readonly dryRun?: boolean } & Readonly<Record<string, unknown>>;
type Input = Readonly<Record<string, unknown>>;

/** What a command does beside its verb. */
interface Extra {
  /** Adds flags where the groups of the verb have these names. */
  readonly flags?: Readonly<Record<string, (command: Command) => void>>;
  /** The help of the command. Default: the verb's description. */
  readonly description?: string;
  /** Required fields that the command asks for in a sentence. */
  readonly missing?: Readonly<Record<string, (given: Input) => string>>;
  /** Flags that are not in the help, after all others. */
  readonly hidden?: readonly Option[];
  /** Does something else before the input is read, if the flags say so. */
  readonly before?: (flags: Flags, args: readonly string[]) => Promise<boolean>;
  /** Fields of the input, and flags, that other flags stand for. */
  readonly settled?: (flags: Flags, args: readonly string[]) => Promise<{ input?: Input; flags?: Flags }>;
  /** Does something else, if the flags say so. */
  readonly instead?: (located: Located<never>, flags: Flags) => Promise<boolean>;
  /** Further controls of the verb. @param clear removes the progress, to print something else */
  readonly controls?: (flags: Flags, clear: () => void, input: never) => object;
  /** Does something with a result before it is printed and pushed. */
  readonly finished?: (result: never, input: never) => Promise<void>;
  /** Prints the result in another form, if the flags say so. */
  readonly printed?: (result: never, input: never, flags: Flags) => Promise<boolean>;
}

/** What adds a verb to the program, for the table of commands. */
export function verbCommand<Schema extends z.ZodObject, Result extends Noted, P extends Progress, Planned>(
  verb: Verb<Schema, Result, P, Planned>,
  extra?: Extra,
): (program: Command) => void {
  const plain = verb as unknown as Verb;
  return (program) => {
    declared(program, plain, extra).action(async (...args: unknown[]) => {
      const command = args.at(-1) as Command;
      const given = command.opts<Flags>();
      if (await extra?.before?.(given, command.args)) return;
      const { input = {}, flags = given } = (await extra?.settled?.(given, command.args)) ?? {};
      const located = await locatedInput(plain, flags, command.args, { input, ...extra });
      if (await extra?.instead?.(located as Located<never>, flags)) return;
      await carryOut(plain, located, flags, extra);
    });
  };
}

/** `--save-module` of `saveModules`; flags of a verb that takes a file are called as its fields. */
function flagOf({ file, terminal: { flags = {} } }: Verb, field: string): string {
  if (file) return field;
  return flags[field]?.flag ?? field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replaceAll("_", "-");
}

function declared(program: Command, verb: Verb, extra?: Extra): Command {
  const { name, options, terminal, file, plan } = verb;
  const fields = verbFields(verb);
  const command = program.command(name).description(withFlags(verb, extra?.description ?? verb.description));
  for (const field of terminal.positional ?? []) {
    const { description = `${file?.kind} file (YAML)`, required = false } =
      fields.find((one) => one.name === field) ?? {};
    const { flag, value, help: words = description } = terminal.flags?.[field] ?? {};
    const called = flag ?? value ?? field;
    const isAsked = extra?.missing?.[field] !== undefined || (field === "out" && plan !== undefined);
    command.addArgument(new Argument(required && !isAsked ? `<${called}>` : `[${called}]`, words.replaceAll("`", "")));
  }
  addFlags(command, verb, extra);
  const whole = options.memory === undefined ? withCommonOptions(command) : workOptions(options.memory)(command);
  for (const option of extra?.hidden ?? []) whole.addOption(option);
  return whole;
}

/** Adds the flags of a verb by their groups. */
function addFlags(command: Command, verb: Verb, extra?: Extra): void {
  const { plan, options, terminal } = verb;
  const fields = verbFields(verb);
  const top = (field: string) => field.split(".", 1)[0] ?? "";
  const named = new Set(Object.values(terminal.groups).flat());
  for (const [title, names] of Object.entries(terminal.groups)) {
    command.optionsGroup(title);
    for (const name of names) {
      const own = fields.filter((field) => (name === "*" ? !named.has(top(field.name)) : top(field.name) === name));
      for (const field of own) {
        for (const option of optionsOf(verb, field, extra)) command.addOption(option);
        const { file } = terminal.flags?.[field.name] ?? {};
        if (file) command.option(`--${file.flag} <file>`, file.help);
      }
      if (own.length > 0) continue;
      if (extra?.flags?.[name]) extra.flags[name](command);
      else if (name === "push") withPushOptions(command);
      else if (name === "dryRun") command.option("--dry-run", withFlags(verb, plan?.description ?? ""));
      else if (name === "threads") command.option("--threads <n>", threadsHelp(options.threads), parseThreads);
      else command.option(`--${name}`, withFlags(verb, options[name as "force" | "resume"] ?? ""));
    }
  }
}

/** Fields that a command of the terminal shares with verbs. */
export interface Fields<Schema extends z.ZodObject> extends Pick<Verb<Schema>, "name" | "schema" | "options"> {
  readonly terminal: Pick<Verb["terminal"], "groups" | "flags">;
}

/** Adds the flags of fields by their groups, and those of every command. */
export function withFields<Schema extends z.ZodObject>(command: Command, fields: Fields<Schema>): Command {
  addFlags(command, fields as unknown as Verb);
  return withCommonOptions(command);
}

/** The checked fields that flags give. */
export async function fieldsIn<Schema extends z.ZodObject>(
  fields: Fields<Schema>,
  flags: object,
): Promise<z.output<Schema>> {
  const given = await inputOf(fields as unknown as Verb, flags as Flags, []);
  return checkInput(fields, given);
}

const threadsHelp = (unset = "") =>
  `threads to use (default: ${unset === "all cores" ? `${unset}, ${availableParallelism()} here` : unset})`;

function optionsOf(verb: Verb, field: SchemaField, extra?: Extra): Option[] {
  const { each } = verb.terminal.flags?.[field.name] ?? {};
  if (!each) return [optionOf(verb, field, extra)];
  return Object.entries(each).map(([flag, [, help]]) => new Option(`--${flag}`, help));
}

function optionOf(verb: Verb, field: SchemaField, { missing = {} }: Pick<Extra, "missing"> = {}): Option {
  const { name, type, choices } = field;
  const {
    value,
    help,
    read,
    explains = false,
    short = name === "out" ? "o" : undefined,
  } = verb.terminal.flags?.[name] ?? {};
  const flag = flagOf(verb, name);
  if (verb.file) {
    const option = fieldOption(field, flag);
    // Shown only: the schema checks the values of flags and of files alike.
    if (choices) option.argChoices = [...choices];
    return option;
  }
  const named = { ...field, ...(help === undefined ? {} : { description: help }) };
  if (type === "true or false") {
    // Of what --no-x negates, the default is that it is.
    const { default: _, unset: __, ...bare } = named;
    return fieldOption(flag.startsWith("no-") ? bare : named, flag, "");
  }
  const isNamed = /^(?:sources|folders) by name$/.test(type);
  const isRepeated = (type.startsWith("list") || isNamed) && read === undefined;
  const described = {
    ...named,
    description: `${withFlags(verb, named.description)}${isRepeated && help === undefined && !value?.endsWith("...") ? "; repeatable" : ""}`,
    ...(field.unset === undefined ? {} : { unset: withFlags(verb, field.unset) }),
  };
  const option = fieldOption(described, flag, value === undefined ? undefined : ` <${value}>`);
  // What is written is asked for in a sentence, as a dry run needs none.
  const isAsked = missing[name] !== undefined;
  option.makeOptionMandatory(field.required && !isAsked && !(name === "out" && verb.plan));
  if (short !== undefined) option.short = `-${short}`;
  if (short !== undefined) option.flags = `-${short}, ${option.flags}`;
  const [top = ""] = name.split(".");
  const check = (given: unknown) => checkSchema(verb.schema.shape[top], withField({}, name, given)[top]).problems[0];
  if (choices) return withChoices(option, choices, check, explains);
  if (read === "list") return option.argParser((text) => checked(parseList(text), check));
  if (read === "json") return option.argParser((text) => checked(jsonIn(text), check));
  if (read === "weighted") return option.argParser(parseWeighted);
  if (read === "places") return option.argParser(parsePlace);
  if (read !== undefined) return option;
  if (isNamed) return option.argParser(parseNamed);
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

/** Choices in the words of all commands, or in those of the schema, where it explains what is not among them. */
function withChoices(option: Option, choices: readonly string[], check: Check, explains: boolean): Option {
  const { parseArg: parse } = option.choices(choices);
  return option.argParser((text: string, earlier: unknown) => {
    const problem = explains ? check(text) : undefined;
    if (problem) throw new InvalidArgumentError(`${problem.message}.`);
    return parse?.call(option, text, earlier);
  });
}

function jsonIn(text: string): unknown {
  const value = parseJson(text, (why) => new InvalidArgumentError(`It ${why}.`));
  return isObject(value) ? withWritten(value) : value;
}

/** Words of a schema with its fields as flags: `energy` in backticks is --energy. */
function withFlags(verb: Verb, words: string): string {
  return words.replace(/`(\w+)`/g, (_, field: string) =>
    field in verb.schema.shape ? `--${flagOf(verb, field)}` : field,
  );
}

/** What reads the file of a flag. */
const READERS: Readonly<Partial<Record<NonNullable<FlagSpelling["read"]>, (file: string) => Promise<unknown>>>> = {
  texts: readTexts,
  prompts: readPrompts,
  tokens: readTokenFile,
};

/** SOURCE or SOURCE=WEIGHT; a path may contain '=', so only a number after the last one is a weight. */
function parseWeighted(text: string, earlier: readonly object[] = []): readonly object[] {
  const equals = text.lastIndexOf("=");
  const weight = equals > 0 && equals < text.length - 1 ? Number(text.slice(equals + 1)) : Number.NaN;
  if (text === "" || text.endsWith("=")) throw new InvalidArgumentError("It must be SOURCE or SOURCE=WEIGHT.");
  return [...earlier, Number.isFinite(weight) ? { model: text.slice(0, equals), weight } : { model: text }];
}

/** The fields that flags and arguments give. */
async function inputOf(verb: Verb, flags: Flags, args: readonly string[]): Promise<Input> {
  let input: Input = {};
  for (const { name } of verbFields(verb)) {
    const value = await fieldValue(verb, name, flags, args);
    if (value !== undefined) input = withField(input, name, value);
  }
  return input;
}

async function fieldValue(verb: Verb, field: string, flags: Flags, args: readonly string[]): Promise<unknown> {
  const { positional = [], flags: spelled = {} } = verb.terminal;
  const { each, read, file } = spelled[field] ?? {};
  const argument = positional.includes(field) ? args[positional.indexOf(field)] : undefined;
  if (argument !== undefined) return argument;
  if (each) return Object.entries(each).find(([flag]) => flags[attributeOf(flag)] === true)?.[1][0];
  const flag = flagOf(verb, field);
  // Commander sets what --no-x negates to true where it is not given.
  if (flag.startsWith("no-")) return flags[attributeOf(flag.slice("no-".length))] === false ? false : undefined;
  const value = flags[attributeOf(flag)];
  if (value instanceof Map) return Object.fromEntries(value);
  const more = file && flags[attributeOf(file.flag)];
  if (more !== undefined) return [...((value ?? []) as string[]), ...(await readPrompts(String(more)))];
  const reader = read && READERS[read];
  return reader && value !== undefined ? reader(String(value)) : value;
}

/** The checked input, and where its paths start from. */
async function locatedInput(
  verb: Verb,
  flags: Flags,
  args: readonly string[],
  { input: further, missing = {} }: Pick<Extra, "missing"> & { readonly input: Input },
): Promise<Located<Input>> {
  if (verb.file) {
    const fields = verbFields(verb).flatMap(({ name }): FieldText[] => {
      const value = flags[attributeOf(name)];
      return typeof value === "string" ? [[name, value]] : [];
    });
    if (args[0] === undefined && fields.length === 0) {
      const { kind } = verb.file;
      const flags = (verb.terminal.least ?? []).map((field) => `--${field}`);
      throw usageError(`Missing a ${kind}. Pass a ${kind} file, or ${new Intl.ListFormat("en-GB").format(flags)}.`);
    }
    return verb.file.read(args[0], fields);
  }
  return locatedFor(verb, { ...(await inputOf(verb, flags, args)), ...further }, flags, missing);
}

/** The checked input, which needs an output unless only the plan is printed. */
async function locatedFor(
  verb: Verb,
  input: Input,
  flags: Flags,
  missing: Extra["missing"] = {},
): Promise<Located<Input>> {
  const { dryRun } = flags;
  const { plan, terminal } = verb;
  for (const [field, words] of Object.entries(missing)) if (input[field] === undefined) throw usageError(words(input));
  if (!plan || terminal.writes === undefined || input.out !== undefined) return { input: checkInput(verb, input) };
  const checked = checkInput(verb, { ...input, out: "out" });
  if (dryRun) return { input: checked };
  return planMissingOut(verb, { input: checked }, flags);
}

/** Asks for --out, but says first what is wrong with the input, where its verb can be planned without. */
export async function planMissingOut(verb: Verb, located: Located<Input>, flags: Flags): Promise<never> {
  const { plansFirst, writes, flags: spelled } = verb.terminal;
  if (plansFirst) await runPlanned(verb, located, flags);
  const out = (spelled?.out?.value ?? "folder").toUpperCase();
  throw usageError(`Missing --out. Pass --out ${out} to write ${writes}, or --dry-run to print the plan.`);
}

/** Adds flags of a verb to another command, which calls it by `callByFlags`. @param fields of the verb */
export function withVerbFlags<V>(verb: V, fields: readonly string[]): (command: Command) => Command {
  const plain = verb as Verb;
  return (command) => {
    for (const field of verbFields(plain)) if (fields.includes(field.name)) command.addOption(optionOf(plain, field));
    return command;
  };
}

/** Carries out a verb as its command does, for another command. @param input fields that come from elsewhere than flags */
export async function callByFlags<V>(verb: V, input: Input, flags: object): Promise<void> {
  const plain = verb as Verb;
  const given = { ...(await inputOf(plain, flags as Flags, [])), ...input };
  await carryOut(plain, await locatedFor(plain, given, flags as Flags), flags as Flags);
}

/** Runs a verb, or prints its plan. */
export async function carryOut(
  verb: Verb,
  { input, ...places }: Located<Input>,
  flags: Flags,
  extra?: Extra,
): Promise<void> {
  const start = performance.now();
  const { terminal, options } = verb;
  if (flags.dryRun && verb.plan) return runPlan(verb, { input, ...places }, flags);
  if (terminal.pushed) await checkPushFlags(flags);
  const said = new Set<string>();
  const result = await runWithProgress(
    flags,
    ({ onNote, onProgress, clear = () => undefined, ...controls }) => {
      const note = (text: string) => {
        said.add(text.replace(/^(?:note|warning): /, ""));
        onNote?.(withFlags(verb, text));
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
      const own = {
        onNote: note,
        onProgress: update,
        onPlan,
        say: asFlag,
        ...extra?.controls?.(flags, clear, input as never),
      };
      return verb.run(input, { ...places, ...controls, ...work, ...own, hub });
    },
    terminal.waitsFor,
  );
  await printResult(verb, result, { input, flags, start, said, extra });
  if (terminal.isFailure?.(result)) process.exitCode = 1;
}

/** Prints what is about to be done, on stderr. */
function announce(verb: Verb, planned: unknown, input: Input, flags: Flags, said: Set<string>): void {
  const { notes = [], warnings = [] } = Object(planned) as Partial<Noted>;
  if (!verb.plan?.title) return;
  const title = verb.plan.title(input);
  const lines = linesOf(verb.plan.show(planned, input), process.stderr);
  info(flags, [...(title === "" ? lines : [paletteFor(process.stderr).bold(title), ...lines, ""])].join("\n"));
  for (const warning of warnings) warn(warning);
  for (const text of [...notes, ...warnings]) said.add(text);
}

async function printResult(
  verb: Verb,
  result: Noted,
  {
    input,
    flags,
    start,
    said,
    extra,
  }: { input: Input; flags: Flags; start: number; said: ReadonlySet<string>; extra?: Extra | undefined },
): Promise<void> {
  const { terminal } = verb;
  const seconds = () => (performance.now() - start) / 1000;
  for (const warning of result.warnings) if (!said.has(warning)) warn(warning);
  await extra?.finished?.(result as never, input as never);
  const held = flags.push === undefined ? undefined : terminal.heldBack?.(result, input);
  const pushed = async (): Promise<Awaited<ReturnType<typeof pushResult>>> =>
    terminal.pushed && held === undefined ? pushResult(terminal.pushed(result, input), flags) : {};
  if (held !== undefined) warn(withFlags(verb, held));
  if (held !== undefined) process.exitCode = 1;
  if (await extra?.printed?.(result as never, input as never, flags)) {
    // It is.
  } else if (flags.json) {
    const shown = terminal.json ? terminal.json(result, seconds(), input) : result;
    printJson(Array.isArray(shown) ? shown : { ...Object(shown), ...(await pushed()) });
  } else {
    const lines = linesOf(verb.show(result, input, seconds()), process.stdout);
    if (lines.length > 0) print(lines);
  }
  for (const note of result.notes) if (!said.has(note)) info(flags, `note: ${withFlags(verb, note)}`);
  for (const line of terminal.closing?.(result, input, elapsed(start)) ?? []) info(flags, withFlags(verb, line));
  if (flags.json) return;
  const { push } = await pushed();
  if (push) printPush(push);
}

function runPlanned({ plan, terminal }: Verb, { input, ...places }: Located<Input>, flags: Flags): Promise<unknown> {
  return runWithProgress(
    flags,
    async (controls) =>
      plan?.run(input, { ...places, ...controls, say: asFlag, hub: hubAccess("plan", controls) } as Controls),
    terminal.waitsFor,
  );
}

async function runPlan(verb: Verb, { input, ...places }: Located<Input>, flags: Flags): Promise<void> {
  const { plan } = verb;
  if (!plan) return;
  const planned = await runPlanned(verb, { input, ...places }, flags);
  const { notes = [], warnings = [] } = Object(planned) as Partial<Noted>;
  if (flags.json) printJson(plan.json ? plan.json(planned, input) : planned);
  else print(linesOf(plan.show(planned, input), process.stdout));
  for (const note of flags.json ? notes : []) info(flags, `note: ${note}`);
  for (const warning of warnings) warn(warning);
  for (const line of plan.closing?.(planned, input) ?? []) if (!flags.json) info(flags, withFlags(verb, line));
}

function linesOf(shown: readonly Shown[], stream: NodeJS.WriteStream): string[] {
  return shownLines(shown, { palette: paletteFor(stream), hasColours: hasColors(stream) });
}
