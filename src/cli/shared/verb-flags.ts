// The flags, arguments and help of a verb.
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import type { Command } from "commander";
import { Argument, InvalidArgumentError, Option } from "commander";
import { isObject } from "../../kit/index.js";
import { withWritten } from "../../kit/numbers/index.js";
import { checkSchema, type SchemaField } from "../../kit/settings/index.js";
import { type Located, OPTION_FIELDS, type Verb, verbFields } from "../../verbs/shared/index.js";
import {
  addToList,
  parseList,
  parseNamed,
  parseSize,
  parseThreads,
  type WorkOptions as WorkFlags,
  withCommonOptions,
} from "./output.js";
import { parseJson } from "./prompt-files.js";
import { type PushFlags, withPushOptions } from "./push.js";
import { type Check, checked, fieldOption, readValue, withField } from "./recipe-flags.js";
import { adding } from "./typed.js";

export type Flags = WorkFlags & PushFlags & { readonly dryRun?: boolean } & Readonly<Record<string, unknown>>;

export type Input = Readonly<Record<string, unknown>>;

/** What a command does beside its verb. */
export interface Extra {
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

/** `--save-module` of `saveModules`; flags of a verb that takes a file are called as its fields. */
export function flagOf({ file, terminal: { flags = {} } }: Verb, field: string): string {
  if (file) return field;
  return flags[field]?.flag ?? field.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replaceAll("_", "-");
}

export function declared(program: Command, verb: Verb, extra?: Extra): Command {
  const { name, options, terminal, file, plan } = verb;
  const fields = verbFields(verb);
  const command = program.command(name).description(withFlags(verb, extra?.description ?? verb.description));
  for (const field of terminal.positional ?? []) {
    const { description = `${file?.kind} file (YAML)`, required = false } =
      fields.find((one) => one.name === field) ?? {};
    const { flag, value, help: words = description } = terminal.flags?.[field] ?? {};
    const called = value?.endsWith("...") ? value : (flag ?? value ?? field);
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
  for (const [title, names] of Object.entries(verb.terminal.groups)) {
    command.optionsGroup(`${title}:`);
    addNamed(command, verb, names, extra);
  }
}

/** Adds flags of a verb: those of fields, of options, and others by the names that groups have. */
function addNamed(command: Command, verb: Verb, names: readonly string[], extra?: Extra): void {
  const { plan, options, terminal } = verb;
  const fields = verbFields(verb);
  const top = (field: string) => field.split(".", 1)[0] ?? "";
  const named = new Set(Object.values(terminal.groups).flat());
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

/** Adds flags of a verb to another command, which calls it by `callByFlags`. @param names as in groups */
export function withVerbFlags<V>(verb: V, names: readonly string[]): (command: Command) => Command {
  return (command) => {
    addNamed(command, verb as Verb, names);
    return command;
  };
}

/** @param memory the default, as it is written */
const workOptions = (memory: string) =>
  adding<WorkFlags>((command) =>
    withCommonOptions(
      command
        .optionsGroup("General:")
        .option("--threads <n>", threadsHelp("physical cores"), parseThreads)
        .option("--memory <size>", `${OPTION_FIELDS.memory.description} (default: ${memory})`, parseSize),
    ),
  );

/** Adds threads and memory to a command that is no verb. */
export const withWorkOptions = workOptions("256MB");

const threadsHelp = (unset = "") =>
  `${OPTION_FIELDS.threads.description} (default: ${unset === "all cores" ? `${unset}, ${availableParallelism()} here` : unset})`;

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
  if (read === "places") return option.argParser(parsePlace(value ?? "id=folder"));
  if (read !== undefined) return option;
  if (isNamed) return option.argParser(parseNamed);
  if (!isRepeated) return option.argParser((text) => checked(readValue(type, text), check));
  return option.argParser((text, earlier: readonly string[] | undefined) => {
    checked([text], check);
    return addToList(text, earlier);
  });
}

/** @param value what the help has in place of it, such as `id=folder` */
const parsePlace =
  (value: string) =>
  (text: string, earlier: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> => {
    const equals = text.indexOf("=");
    if (equals < 1 || equals === text.length - 1)
      throw new InvalidArgumentError(`It must be ${value.replace("...", "").toUpperCase()}, such as task=./math.`);
    const name = text.slice(0, equals);
    if (Object.hasOwn(earlier, name)) throw new InvalidArgumentError(`${name} is given twice.`);
    return { ...earlier, [name]: text.slice(equals + 1) };
  };

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
export function withFlags(verb: Verb, words: string): string {
  return words.replace(/`(\w+)`/g, (_, field: string) =>
    field in verb.schema.shape ? `--${flagOf(verb, field)}` : field,
  );
}

/** SOURCE or SOURCE=WEIGHT; a path may contain '=', so only a number after the last one is a weight. */
function parseWeighted(text: string, earlier: readonly object[] = []): readonly object[] {
  const equals = text.lastIndexOf("=");
  const weight = equals > 0 && equals < text.length - 1 ? Number(text.slice(equals + 1)) : Number.NaN;
  if (text === "" || text.endsWith("=")) throw new InvalidArgumentError("It must be SOURCE or SOURCE=WEIGHT.");
  const isThere = (source: string) => source.split("+").every((part) => existsSync(part));
  if (equals > 0 && Number.isNaN(weight) && isThere(text.slice(0, equals)) && !isThere(text))
    throw new InvalidArgumentError(`${text.slice(equals + 1)} is not a number.`);
  return [...earlier, Number.isFinite(weight) ? { model: text.slice(0, equals), weight } : { model: text }];
}
