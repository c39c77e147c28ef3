// The command line that was probably meant, where values were typed without their required options.

import { basename } from "node:path";
import type { Command, Option } from "commander";
import { shellQuote } from "../../kit/printing/index.js";

/** Repeatable options that need more than one value. */
const LEAST: Readonly<Record<string, number>> = { "neurons --language": 2 };

/**
 * The command with everything that was typed, and a required option before each value that has no place.
 * @param command as it was parsed, without the options that are missing
 * @param typed the words after the command's name, in order
 * @returns undefined where a value fits none of the options that are missing
 */
export function advisedLine(command: Command, typed: readonly string[]): string | undefined {
  const operands = operandPlaces(command, typed);
  const excess = operands.slice(command.registeredArguments.length);
  const missing = command.options.filter(
    (one) => one.mandatory && command.getOptionValue(one.attributeName()) === undefined,
  );
  if (excess.length === 0 || missing.length === 0) return undefined;
  const values = excess.map((at) => typed[at] ?? "");
  const added: string[] = [];
  let read: unknown;
  for (const option of missing) {
    const given = values[0] === undefined ? undefined : accepted(option, values[0], undefined);
    if (given !== undefined) values.shift();
    read = given?.read;
    added.push(`${option.long} ${given === undefined ? placeholder(option) : shellQuote(given.word)}`);
  }
  // A repeatable option takes the rest.
  const last = missing.at(-1) as Option;
  for (const value of values) {
    const given = accepted(last, value, read);
    if (given === undefined || sizeOf(given.read) <= sizeOf(read)) return undefined;
    read = given.read;
    added.push(`${last.long} ${shellQuote(given.word)}`);
  }
  const lacking = (LEAST[`${command.name()} ${last.long}`] ?? 1) - sizeOf(read);
  for (let more = 0; more < lacking; more++) added.push(`${last.long} ${placeholder(last).replace("NAME", "OTHER")}`);
  const kept = typed.filter((_, at) => !excess.includes(at)).map(shellQuote);
  return `layergraft ${[command.name(), ...added, ...kept, ...outOf(command)].join(" ")}`;
}

/** A command with a dry run writes to --out, and asks for it only after all else is right. */
function outOf(command: Command): string[] {
  const isThere = (flag: string) => command.options.some(({ long }) => long === flag);
  const isTyped = ["out", "dryRun"].some((name) => command.getOptionValue(name) !== undefined);
  return isThere("--out") && isThere("--dry-run") && !isTyped ? ["--out FOLDER"] : [];
}

/** Which of the words are neither options nor their values. */
function operandPlaces(command: Command, typed: readonly string[]): number[] {
  const places: number[] = [];
  for (let at = 0; at < typed.length; at++) {
    const word = typed[at] ?? "";
    if (word === "--") return [...places, ...[...typed.keys()].filter((later) => later > at)];
    const option = command.options.find(({ short, long }) => word === short || word === long);
    const isValue = (next: string | undefined) => next !== undefined && !next.startsWith("-");
    if (option?.required) at++;
    if (option?.variadic || option?.optional) while (isValue(typed[at + 1])) at++;
    if (!option && !(word.startsWith("-") && word !== "-")) places.push(at);
  }
  return places;
}

/** The value as the option takes it, with a name where it needs one, and what it is read as. */
function accepted(option: Option, value: string, earlier: unknown) {
  const name = basename(value).replaceAll(/[^\w.-]+/g, "-");
  for (const word of [value, `${name}=${value}`, `NAME=${value}`]) {
    try {
      const read: unknown = option.parseArg ? option.parseArg(word, earlier as never) : word;
      return { word, read };
    } catch {
      // Not a value of this option in this form.
    }
  }
  return undefined;
}

const sizeOf = (read: unknown): number => (read instanceof Map ? read.size : Array.isArray(read) ? read.length : 1);

/** `NAME=SOURCE` for `--expert <name=source>`. */
function placeholder({ flags }: Option): string {
  return (/<([\w=]+)/.exec(flags)?.[1] ?? "value").toUpperCase();
}
