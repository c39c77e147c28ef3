// What flags and arguments give a verb.
import { usageError } from "../../kit/index.js";
import {
  checkInput,
  type FieldText,
  type FlagSpelling,
  type Located,
  type Verb,
  verbFields,
} from "../../verbs/shared/index.js";
import { readPrompts, readTexts, readTokenFile } from "./prompt-files.js";
import { attributeOf, withField } from "./recipe-flags.js";
import { type Extra, type Flags, flagOf, type Input } from "./verb-flags.js";
import { planMissingOut } from "./verb-run.js";

/** What reads the file of a flag. */
const READERS: Readonly<Partial<Record<NonNullable<FlagSpelling["read"]>, (file: string) => Promise<unknown>>>> = {
  ...{ texts: readTexts, prompts: readPrompts, tokens: readTokenFile },
};

/** The fields that flags and arguments give. */
export async function inputOf(verb: Verb, flags: Flags, args: readonly string[]): Promise<Input> {
  let input: Input = {};
  for (const { name } of verbFields(verb)) {
    const value = await fieldValue(verb, name, flags, args);
    if (value !== undefined) input = withField(input, name, value);
  }
  return input;
}

async function fieldValue(verb: Verb, field: string, flags: Flags, args: readonly string[]): Promise<unknown> {
  const { positional = [], flags: spelled = {} } = verb.terminal;
  const { each, read, file, value: shown } = spelled[field] ?? {};
  const place = positional.indexOf(field);
  if (place >= 0 && place < args.length) return shown?.endsWith("...") ? args.slice(place) : args[place];
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
export async function locatedInput(
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
export async function locatedFor(
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
