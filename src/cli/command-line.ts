// Parses the command line, runs a command, and turns an error into a message and an exit status.

import {
  type Argument,
  Command,
  CommanderError,
  type ErrorOptions,
  type Option,
  type ParseOptionsResult,
} from "commander";
import {
  CancelledError,
  isAnySystemError,
  isOutOfMemory,
  LayergraftError,
  messageOf,
  OUT_OF_MEMORY,
  ProblemsError,
  systemMessage,
  usageError,
  VERSION,
} from "../kit/index.js";
import {
  closest,
  commandLine,
  didYouMean,
  endLine,
  removedAdvice,
  shellQuote,
  shorten,
  visible,
  write,
} from "../kit/printing/index.js";
import { COMMANDS } from "./command-table.js";
import { withAdvice } from "./shared/advice.js";
import { advisedLine } from "./shared/advised-line.js";
import { asTyped } from "./shared/command-name.js";
import { paletteFor, printJson } from "./shared/output.js";
import {
  addFlagSynonyms,
  COMMAND_SYNONYMS,
  choiceOf,
  firstArgument,
  flagSentence,
  methodAsCommand,
  type Synonym,
} from "./shared/synonyms.js";

export { synonymRows } from "./shared/synonyms.js";

const FAILED = 1;
const WRONG_USAGE = 2;
/** Codes of errors in the command line itself; `memory` is a --memory that is too small. */
const USAGE_CODES = ["usage", "recipe", "memory"];
const INTERRUPTED = 130; // exit status of shells after Ctrl-C
/** Code of an error that is nobody's but ours. */
const INTERNAL = "internal";

const EXAMPLES = `
* Start with these five.

Examples:
  ${commandLine`swap --task math-expert --language swahili-expert --out merged`}
  ${commandLine`generate merged --chat --prompt "What is 7 + 5?"`}`;

/** Commander's sentences, and the ones printed in their place. */
const SENTENCES: readonly (readonly [RegExp, string])[] = [
  [/required option '(.*)' not specified/, "Missing $1."],
  [/missing required argument '(.*)'/, "Missing <$1>."],
  [/command-argument value '(.*)' is invalid for argument '(.*)'\./, "'$1' is not a valid <$2>."],
  [/too many arguments for '(.*)'\. Expected 0 .*/, "$1 takes options only, such as --out FOLDER."],
];

/** What words beside the arguments were probably meant as, by the first flag that a command has. */
const EXCESS: readonly (readonly [flag: string, what: string])[] = [
  ["--prompt", "a prompt"],
  ["--tasks", "a task"],
  ["--out", "what is written"],
];

/** The case of choices does not count, and other programs' names are taken. */
function withoutCase<T extends Pick<Option, "argChoices" | "parseArg">>(one: T): T {
  const { argChoices: choices, parseArg: parse } = one;
  if (choices && parse)
    one.parseArg = <V>(value: string, earlier: V) => parse.call(one, choiceOf(value, choices) ?? value, earlier) as V;
  return one;
}

/** Reports a misspelled flag before a missing argument that it caused. */
class ForgivingCommand extends Command {
  #typed: readonly string[] = [];
  /** How many of them are neither options nor their values. */
  #operands = 0;
  /** A required option that was not given. */
  #missing: Option | undefined;

  /** Of commander, whose types leave it out. */
  missingMandatoryOptionValue(option: Option): void {
    this.#missing = option;
    (Command.prototype as unknown as ForgivingCommand).missingMandatoryOptionValue.call(this, option);
  }

  override addOption(option: Option): this {
    return super.addOption(withoutCase(option));
  }

  override addArgument(argument: Argument): this {
    return super.addArgument(withoutCase(argument));
  }

  override createCommand(name?: string): Command {
    return new ForgivingCommand(name);
  }

  override error(message: string, options?: ErrorOptions): never {
    const plain = SENTENCES.reduce((text, [told, written]) => text.replace(told, written), message);
    const advice = this.#advice(message);
    super.error(`${/^[;:]/.test(advice) ? plain.replace(/\.$/, "") : plain}${advice}`, options);
  }

  /** What the arguments of an error in the command line were probably meant as. */
  #advice(message: string): string {
    const [, value = "", choices] =
      /(?:argument|value) '(.*)' is invalid(?: for argument '.*')?\. Allowed choices are (.*)\.$/.exec(message) ?? [];
    const removed = choices === undefined ? undefined : removedAdvice("choice", value);
    if (removed !== undefined) return ` ${value} ${removed}.`;
    if (choices !== undefined) return didYouMean(value.toLowerCase(), choices.split(", "));
    if (message.includes("required option")) {
      // Words before the first option are parsed with the program's own.
      const before = this.args.slice(0, this.args.length - this.#operands);
      const line = advisedLine(this, [...before, ...this.#typed]);
      if (line !== undefined) return ` Write: ${line}`;
      return this.#missing ? `: ${this.#missing.description}.` : "";
    }
    const isExcess = message.includes("too many arguments");
    const [first] = firstArgument(this);
    if (isExcess && first !== undefined) return ` One of them is ${first}, which a flag gives, too.`;
    const words = this.args.slice(this.registeredArguments.length);
    const [taken, what] = EXCESS.find(([flag]) => isExcess && this.options.some(({ long }) => long === flag)) ?? [];
    if (taken === undefined || (taken === "--out" && words.length > 1)) return "";
    return ` Pass ${what} with ${taken} ${shellQuote(words.join(" "))}`;
  }

  override parseOptions(args: string[]): ParseOptionsResult {
    this.#typed = args;
    const parsed = super.parseOptions(args);
    parsed.operands.unshift(...firstArgument(this));
    this.#operands = parsed.operands.length;
    const [flag = ""] = parsed.unknown;
    const isHelp = parsed.unknown.some((argument) => argument === "--help" || argument === "-h");
    if (this.commands.length > 0 || !flag.startsWith("-") || isHelp) return parsed;
    const name = flag.replace(/=.*/s, "");
    const removed = removedAdvice("option", name.replace(/^-+/, ""));
    const problem =
      removed === undefined
        ? (flagSentence(name, this) ?? `unknown option '${shorten(flag)}'${flagHint(name, this)}`)
        : `${name} ${removed}.`;
    this.error(`error: ${problem}`, { code: "commander.unknownOption" });
  }
}

/** The closest flag, ignoring dashes and underscores, by its full name or its last word, as lr of optimizer.lr. */
function flagHint(flag: string, { options }: Command): string {
  const plain = (text: string) => text.replace(/^-+/, "").replaceAll("-", "_");
  const lastOf = (text: string) => text.slice(text.lastIndexOf(".") + 1);
  const name = plain(flag);
  // Another program's word leads to the flag that it is here.
  const names = options.flatMap((option) => {
    const shown = options.find((one) => !one.hidden && one.attributeName() === option.attributeName());
    return option.long && shown?.long ? [{ long: shown.long, name: plain(option.long) }] : [];
  });
  const words = names.flatMap((option) => [option.name, lastOf(option.name)]);
  const meant = words.includes(name) ? name : closest(name, words);
  const found = names.find((option) => option.name === meant) ?? names.find((option) => lastOf(option.name) === meant);
  return found ? `; did you mean ${found.long}?` : "";
}

/** Where the command is among the arguments, by itself or after help; -1 if there is none. */
const commandPlace = (args: readonly string[]) =>
  args.findIndex((argument) => argument !== "help" && !argument.startsWith("-"));

/** The arguments with a command as it is named here, where it is in capitals or another program's word. */
function inOwnWords(args: readonly string[]): readonly string[] {
  const at = commandPlace(args);
  const small = args[at]?.toLowerCase();
  if (small !== undefined && COMMANDS.has(small)) return args.with(at, small);
  const synonym = commandSynonym(args[at]);
  return synonym && "means" in synonym ? args.with(at, synonym.means) : args;
}

const commandSynonym = (word = ""): Synonym | undefined =>
  Object.hasOwn(COMMAND_SYNONYMS, word.toLowerCase()) ? COMMAND_SYNONYMS[word.toLowerCase()] : undefined;

/** The command to run. @throws LayergraftError for an unknown command */
async function commandOf(args: readonly string[]): Promise<string | undefined> {
  const asked = args[commandPlace(args)];
  if (asked === undefined || COMMANDS.has(asked)) return asked;
  const synonym = commandSynonym(asked);
  if (synonym && "says" in synonym) throw usageError(`unknown command '${asked}'. ${synonym.says}`);
  const removed = removedAdvice("command", asked);
  if (removed !== undefined) throw usageError(`${asked} ${removed}.`);
  const { isMethod } = await import("./commands/methods-command.js");
  if (isMethod(asked.toLowerCase())) throw usageError(methodAsCommand(asked.toLowerCase()));
  const hint = didYouMean(asked, [...COMMANDS.keys()]);
  const message = `unknown command '${shorten(asked)}'${hint || ";"} see layergraft --help`;
  throw usageError(message);
}

/** The program with the given command, or with a line for each command. */
export async function buildProgram(asked: string | undefined, asJson: boolean): Promise<Command> {
  const program = new ForgivingCommand("layergraft")
    .description("Merge fine-tuned language models.")
    .usage("<command> [options]")
    .commandsGroup("Help:")
    .helpCommand("help [command]", "show the options of a command")
    .version(VERSION, "-V, --version", "print the version")
    .helpOption("-h, --help", "print this help")
    // By default, descriptions are not wrapped where fewer than 40 columns are left for them.
    .configureHelp({
      minWidthToWrap: 16,
      showGlobalOptions: false,
      sortSubcommands: false,
      optionDescription: describeOption,
    })
    .showHelpAfterError("(add --help to see the options)")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => write(process.stdout, text),
      // Under --json the error is printed as one JSON object.
      writeErr: (text) => (asJson ? undefined : write(process.stderr, asTyped(text))),
    });
  if (asked !== undefined) {
    (await COMMANDS.get(asked)?.load())?.add(program as never);
    for (const command of program.commands) addFlagSynonyms(command);
  } else {
    const subcommandTerm = (command: Command) =>
      `${command.name()}${COMMANDS.get(command.name())?.isFirst ? " *" : ""}`;
    program.configureHelp({ subcommandTerm }).addHelpText("after", EXAMPLES);
    for (const [name, { group, summary }] of COMMANDS) program.command(name).summary(summary).helpGroup(`${group}:`);
  }
  for (const command of program.commands) command.exitOverride().helpOption("-h, --help", "print this help");
  return program;
}

/** A flag's help with its choices and default, such as `output format (choices: table, csv; default: table)`. */
function describeOption({ description, argChoices, defaultValue, defaultValueDescription, required }: Option): string {
  const fallback =
    defaultValueDescription ?? (required && defaultValue !== undefined ? String(defaultValue) : undefined);
  const facts = [
    ...(argChoices ? [`choices: ${argChoices.join(", ")}`] : []),
    ...(fallback === undefined ? [] : [`default: ${fallback}`]),
  ];
  return facts.length > 0 ? `${description} (${facts.join("; ")})` : description;
}

/** An error as `--json` prints it. */
interface ErrorReport {
  /** The kind of error; stable across versions. */
  readonly code: string;
  readonly message: string;
  /** The file or folder with the problem, if known. */
  readonly path?: string | undefined;
  /** Further facts: tensor, field, expected, actual, problems. */
  readonly details?: Readonly<Record<string, unknown>> | undefined;
}

function errorReport(error: unknown, flags: ReadonlySet<string>): ErrorReport {
  if (error instanceof CommanderError) return { code: "usage", message: error.message.replace(/^error: /, "") };
  if (error instanceof LayergraftError) {
    const { file, ...where } = error.where;
    const problems = error instanceof ProblemsError ? error.problems : [];
    const details = { ...where, ...(problems.length > 0 ? { problems } : {}) };
    const message = asTyped(withAdvice(error, flags));
    return { code: error.code, message, path: file, details: Object.keys(details).length > 0 ? details : undefined };
  }
  if (isAnySystemError(error)) {
    return { code: "system", message: systemMessage(error), path: error.path, details: { errno: error.code } };
  }
  return isOutOfMemory(error)
    ? { code: "memory", message: OUT_OF_MEMORY }
    : { code: INTERNAL, message: messageOf(error) };
}

function statusOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
  if (error instanceof CancelledError) return INTERRUPTED;
  return error instanceof LayergraftError && USAGE_CODES.includes(error.code) ? WRONG_USAGE : FAILED;
}

/** Prints an error as text; commander has already printed its own. */
function printError(error: unknown, flags: ReadonlySet<string>): void {
  if (error instanceof CommanderError) return;
  endLine(process.stdout);
  const { red, yellow } = paletteFor(process.stderr);
  const { code, message } = errorReport(error, flags);
  const title = error instanceof CancelledError ? yellow("interrupted:") : red("error:");
  // A bug of layergraft or of the system; a report of it needs the trace.
  const trace = error instanceof Error ? (error.stack ?? error.message) : String(error);
  write(
    process.stderr,
    code === INTERNAL ? `${red("unexpected error:")} ${trace}\n` : `${title} ${visible(message)}\n`,
  );
}

/**
 * Runs a command line, with results on stdout and everything else on stderr. Under `--json` an error is one JSON
 * object on one line of stdout.
 * @param typed arguments after the program's name
 * @returns the exit status, where the command did not set `process.exitCode` itself
 */
export async function runCommandLine(typed: readonly string[]): Promise<number | undefined> {
  const args = inOwnWords(typed);
  const asJson = args.includes("--json");
  const flags = new Set<string>();
  try {
    const program = await buildProgram(await commandOf(args), asJson);
    for (const { long } of program.commands.flatMap(({ options }) => options)) if (long) flags.add(long);
    await program.parseAsync(args, { from: "user" });
    return undefined;
  } catch (error) {
    const status = statusOf(error);
    if (!asJson) printError(error, flags);
    else if (status !== 0) printJson(errorReport(error, flags), 0);
    return status;
  }
}
