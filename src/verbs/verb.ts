// What a verb is. Its command, its function, its form and job in the studio, its step of an experiment and its page of the docs
// come from one value.
import type { z } from "zod";
import type { Shown } from "../figures/index.js";
import type { HubAccess } from "../formats/checkpoint/index.js";
import type { CallOptions, Progress } from "../kit/index.js";
import type { SayField } from "../kit/printing/index.js";
import {
  type Checked,
  checkSchema,
  checkSettings,
  type JsonSchema,
  publishedSchema,
  type SchemaField,
  schemaFields,
} from "../kit/settings/index.js";
import type { FolderOptions } from "./options.js";

/** What a person should know of a result. */
export interface Noted {
  /** What was chosen or left out by itself; usually empty. */
  readonly notes: readonly string[];
  /** What may be a mistake; usually empty. */
  readonly warnings: readonly string[];
}

/** Options that calls have where they apply. None of them changes a result. */
export interface WorkOptions {
  /** Threads to use. Default: the machine's physical cores. Results do not depend on it. */
  readonly threads?: number | undefined;
  /** Maximum bytes of all buffers together. Default: 256 MB, or 1 GB for work on whole matrices; more if one thread needs it. */
  readonly memory?: number | undefined;
  /** Replace what an earlier call wrote to `out`. A folder with other files is never replaced. Default: false. */
  readonly force?: boolean | undefined;
  /** Continue an interrupted call that wrote to `out`. Default: false. */
  readonly resume?: boolean | undefined;
}

/** Options of every call. */
export interface VerbOptions<P extends Progress = Progress> extends CallOptions<P>, FolderOptions {
  /** Called with each note as it arises; the result has those that last. Default: none. */
  readonly onNote?: ((note: string) => void) | undefined;
}

/** How a verb is carried out. */
export interface Controls<P extends Progress = Progress, Planned = unknown> extends VerbOptions<P>, WorkOptions {
  readonly hub: HubAccess;
  /** Folders that relative paths of data, and of what is written, start from. Default: `folder`. */
  readonly dataFolder?: string | undefined;
  readonly outFolder?: string | undefined;
  /** Time that chat templates write. Default: that of the call. */
  readonly started?: Date | undefined;
  /** How notes say that a field is set. Default: as in a file. */
  readonly say?: SayField | undefined;
  /** Of a verb that streams: called with each part of a text as it is made, in whole characters, and the index of its prompt. */
  readonly onPart?: ((text: string, prompt: number) => void) | undefined;
  /** Called once with what is planned, before the work; what it throws ends the call. */
  readonly onPlan?: ((planned: Planned) => void) | undefined;
}

/** The part of a verb that says what it would do. */
export interface Planning<Input, Planned> {
  /** Help of `--dry-run`. */
  readonly description: string;
  /** Where the plan is printed before the work, too: a line above it, or none if that is empty. */
  title?(input: Input): string;
  run(input: Input, controls: Controls): Promise<Planned>;
  show(planned: Planned, input: Input): readonly Shown[];
  /** What `--json` prints. Default: what `run` gives. */
  json?(planned: Planned, input: Input): unknown;
  /** Lines on stderr at the end. */
  closing?(planned: Planned, input: Input): readonly string[];
  /** Throws what keeps the plan from being carried out, after it is printed. */
  refuse?(planned: Planned, input: Input): void;
}

/** A file that has the input of a verb. Flags are called as its fields, have values as text, and override it. */
export interface InputFile<Input> {
  readonly kind: string;
  /**
   * The checked input, and where its paths start from.
   * @param fields values of fields by their paths, as text
   */
  read(file: string | undefined, fields: readonly FieldText[]): Promise<Located<Input>>;
}

/** A field's path and its value as text, such as `["optimizer.lr", "1e-5"]`: what a flag gives. */
export type FieldText = readonly [field: string, text: string];

/** An input that is checked, and where its relative paths start from. */
export interface Located<Input> extends Pick<Controls, "folder" | "dataFolder" | "outFolder"> {
  readonly input: Input;
}

export interface Verb<
  Schema extends z.ZodObject = z.ZodObject,
  Result extends Noted = Noted,
  P extends Progress = Progress,
  Planned = unknown,
> {
  readonly name: string;
  /** Its function in the library. Default: the name. */
  readonly function?: string;
  readonly description: string;
  /** What it takes. Each field has a description, and its default or what holds without it (`unset`). */
  readonly schema: Schema;
  /** Fields whose parts are no fields of their own in flags, forms and tables. Default: all. */
  readonly closed?: readonly string[];
  /** Optional fields that a form shows at once; the others are folded away by group. Default: those of the first group, or of none. */
  readonly shown?: readonly string[];
  /** Checks an input. Default: by the schema. */
  check?(input: unknown): z.output<Schema>;
  /** Whether an input is passed on as it was given, as another schema fills in its defaults. */
  readonly asGiven?: true;
  readonly file?: InputFile<z.output<Schema>>;
  /** How models on the hub are read: their headers alone, as streams of their weights, or as files. */
  readonly fetch: HubAccess["fetch"];
  /** Whether it calls `onPart` while it works. Default: false. */
  readonly streams?: boolean;
  /** Which of `WorkOptions` it has, with their help; of threads and memory, the default in words. */
  readonly options: { readonly [K in keyof WorkOptions]?: string };
  run(input: z.output<Schema>, controls: Controls<P, Planned>): Promise<Result>;
  /** @param seconds how long it took */
  show(result: Result, input: z.output<Schema>, seconds: number): readonly Shown[];
  readonly plan?: Planning<z.output<Schema>, Planned>;
  readonly terminal: Terminal<z.output<Schema>, Result, P>;
}

/** What a command that is no verb takes: it holds a conversation, or runs until it is stopped. */
export interface Takes<Schema extends z.ZodObject = z.ZodObject>
  extends Pick<Verb<Schema>, "name" | "description" | "schema" | "options"> {
  readonly terminal: Pick<Verb["terminal"], "positional" | "groups" | "flags">;
}

/** What the command line needs of a verb. Its words, and those of help and notes, have fields in backticks, for their flags. */
export interface Terminal<Input = unknown, Result = unknown, P = Progress> {
  /** The flags by the title of their group in the help and in forms: fields, names of `WorkOptions`, `dryRun` and `push`; `*`: all others. */
  readonly groups: Readonly<Record<string, readonly string[]>>;
  /** Where a flag or an argument differs from its field. */
  readonly flags?: Readonly<Record<string, FlagSpelling>>;
  /** Fields that are arguments, in order. */
  readonly positional?: readonly string[];
  /** Fields that do in place of a file. */
  readonly least?: readonly string[];
  /** What is written to `out`, which is then required: `the adapter`. */
  readonly writes?: string;
  /** Whether a missing `out` is asked for only when the plan is made: what is wrong with the input is said first. */
  readonly plansFirst?: boolean;
  /** What an interrupt waits for: `this step`. */
  readonly waitsFor?: string;
  /** What else a progress says. */
  detail?(progress: P): string;
  /** What `--json` prints. Default: the result. */
  json?(result: Result, seconds: number, input: Input): unknown;
  /** Lines on stderr at the end. @param time how long it took, in words */
  closing?(result: Result, input: Input, time: string): readonly string[];
  /** The folder that `--push` pushes. */
  pushed?(result: Result, input: Input): string;
  /** Why a result is not pushed; undefined where it may be. */
  heldBack?(result: Result, input: Input): string | undefined;
  /** Whether a result that is there is a failure: the exit status is 1. */
  isFailure?(result: Result): boolean;
}

export interface FlagSpelling {
  /** Default: the field with dashes. */
  readonly flag?: string;
  /** One letter. Default: `o` for `out`. */
  readonly short?: string;
  /** What is in the help in place of a value; `...` at its end takes several. Default: by the field's type. */
  readonly value?: string;
  /**
   * How the text of a flag is read: a file with one text per line, with prompts or with token ids, words with commas, JSON, ID=PLACE or SOURCE=WEIGHT, both repeatable.
   * Default: as the field's type says.
   */
  readonly read?: "texts" | "prompts" | "tokens" | "list" | "json" | "places" | "weighted";
  /** A further flag, with a file of more values. */
  readonly file?: { readonly flag: string; readonly read: "prompts"; readonly help: string };
  /** Whether the schema explains a value that is not among its choices. Default: false. */
  readonly explains?: boolean;
  /** A flag for each choice, with its help. */
  readonly each?: Readonly<Record<string, readonly [choice: string, help: string]>>;
  /** Default: the field's description. */
  readonly help?: string;
}

/** What options are in flags, and for programs in other languages; a verb's own words follow the description. */
export const OPTION_FIELDS: Readonly<Record<keyof WorkOptions | "folder", Pick<SchemaField, "type" | "description">>> =
  {
    threads: { type: "whole number", description: "threads to use" },
    memory: { type: "whole number", description: "memory limit for buffers" },
    force: { type: "true or false", description: "" },
    resume: { type: "true or false", description: "" },
    folder: { type: "folder", description: "folder that relative paths start from" },
  };

/** Names of the options that do not belong into an input. */
const OPTIONS = ["signal", "onProgress", "onNote", "hub", ...Object.keys(OPTION_FIELDS)];

type Checkable<Schema extends z.ZodObject> = Pick<Verb<Schema>, "name" | "schema" | "check" | "asGiven"> &
  Partial<Pick<Verb<Schema>, "function">>;

/** A verb's input, checked. @throws RecipeError with every problem */
export function checkInput<Schema extends z.ZodObject>(
  { name, function: called = name, schema, check: own, asGiven }: Checkable<Schema>,
  input: unknown,
): z.output<Schema> {
  if (own) return own(input);
  const check = (value: unknown): Checked<z.output<Schema>> => {
    const { problems, ...checked } = checkSchema(schema, value);
    return {
      ...checked,
      problems: problems.map((problem) =>
        problem.unknown !== undefined && problem.path.length === 0 && OPTIONS.includes(problem.unknown)
          ? { ...problem, message: `${problem.unknown} is an option. Pass it in the second argument.` }
          : problem,
      ),
    };
  };
  const checked = checkSettings(input, { kind: `input of ${called}`, check });
  return asGiven ? (input as z.output<Schema>) : checked;
}

/** Carries out a verb. @throws RecipeError if the input is not valid, with every problem; and what the verb throws */
export async function callVerb<Schema extends z.ZodObject, Result extends Noted, P extends Progress, Planned>(
  verb: Verb<Schema, Result, P, Planned>,
  input: unknown,
  options: Omit<Controls<P, Planned>, "hub"> & VerbOptions<P> = {},
): Promise<Result> {
  if (verb.file === undefined || typeof input !== "string")
    return verb.run(checkInput(verb, input), withHub(verb, options));
  const { input: read, ...places } = await verb.file.read(input, []);
  return verb.run(read, withHub(verb, { ...options, ...places }));
}

/** Options with an access to the hub. */
export function withHub<O extends VerbOptions<never> & WorkOptions>({ fetch }: Pick<Verb, "fetch">, options: O) {
  return { ...options, hub: options.hub ?? { fetch, signal: options.signal } };
}

/** By their verb, as reading a schema of training data takes 30 ms. */
const fieldsOf = new WeakMap<object, readonly SchemaField[]>();

/** The fields that a verb takes, for flags, forms and tables, in the order of the schema. */
export function verbFields(verb: Pick<Verb, "schema" | "closed">): readonly SchemaField[] {
  const known = fieldsOf.get(verb);
  if (known) return known;
  const { schema, closed = Object.keys(schema.shape) } = verb;
  const fields = schemaFields(schema, { closed });
  const found = fields.filter(({ name }) => !fields.some((other) => other.name.startsWith(`${name}.`)));
  fieldsOf.set(verb, found);
  return found;
}

/** What a verb takes, as JSON Schema (draft 2020-12). */
export const verbJsonSchema = ({ name, schema }: Pick<Verb, "name" | "schema">): JsonSchema =>
  publishedSchema(`layergraft ${name}`, schema);
