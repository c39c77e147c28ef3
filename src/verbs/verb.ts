// What a verb is. Its command, its function, its form and job in the studio, its step of an experiment and its page of the docs
// come from one value.
import type { z } from "zod";
import type { Shown } from "../figures/index.js";
import type { HubAccess } from "../formats/checkpoint/index.js";
import type { CallOptions, Progress } from "../kit/index.js";
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
  /** Called once with what is planned, before the work; what it throws ends the call. */
  readonly onPlan?: ((planned: Planned) => void) | undefined;
}

/** The part of a verb that says what it would do. */
export interface Planning<Input, Planned> {
  /** Help of `--dry-run`. */
  readonly description: string;
  run(input: Input, controls: Controls): Promise<Planned>;
  show(planned: Planned, input: Input): readonly Shown[];
  /** What `--json` prints. Default: what `run` gives. */
  json?(planned: Planned, input: Input): unknown;
}

export interface Verb<
  Schema extends z.ZodObject = z.ZodObject,
  Result extends Noted = Noted,
  P extends Progress = Progress,
  Planned = unknown,
> {
  readonly name: string;
  readonly description: string;
  /** What it takes. Each field has a description, and its default or what holds without it (`unset`). */
  readonly schema: Schema;
  /** How models on the hub are read: as streams of their weights, or as files. */
  readonly fetch: "stream" | "files";
  /** Which of `WorkOptions` it has, with their help; of threads and memory, the default in words. */
  readonly options: { readonly [K in keyof WorkOptions]?: string };
  run(input: z.output<Schema>, controls: Controls<P, Planned>): Promise<Result>;
  show(result: Result, input: z.output<Schema>): readonly Shown[];
  readonly plan?: Planning<z.output<Schema>, Planned>;
  readonly terminal: Terminal<z.output<Schema>, Result, P>;
}

/** What only the command line needs of a verb. */
export interface Terminal<Input = unknown, Result = unknown, P = Progress> {
  /** The flags by the title of their group in the help: fields, names of `WorkOptions`, `dryRun` and `push`. */
  readonly groups: Readonly<Record<string, readonly string[]>>;
  /** Where a flag differs from its field. */
  readonly flags?: Readonly<Record<string, FlagSpelling>>;
  /** Fields that are arguments, in order. */
  readonly positional?: readonly string[];
  /** What is written to `out`, which is then required: `the adapter`. */
  readonly writes?: string;
  /** What an interrupt waits for: `this step`. */
  readonly waitsFor?: string;
  /** What else a progress says. */
  detail?(progress: P): string;
  /** What `--json` prints. Default: the result. */
  json?(result: Result, seconds: number): unknown;
  /** Whether the command fails by its result. Default: it does not. */
  isFailed?(result: Result): boolean;
  /** Lines on stderr at the end. @param time how long it took, in words */
  closing?(result: Result, input: Input, time: string): readonly string[];
  /** The folder that `--push` pushes. */
  pushed?(result: Result, input: Input): string;
}

export interface FlagSpelling {
  /** Default: the field with dashes. */
  readonly flag?: string;
  /** What is in the help in place of a value. Default: by the field's type. */
  readonly value?: string;
  /** How the text of a flag is read: a file with one text per line, or ID=PLACE, repeatable. Default: as the field's type says. */
  readonly read?: "texts" | "places";
  /** Default: the field's description. */
  readonly help?: string;
}

/** Names of the options that do not belong into an input. */
const OPTIONS = ["signal", "onProgress", "onNote", "folder", "hub", "threads", "memory", "force", "resume"];

/** A verb's input, checked. @throws RecipeError with every problem */
export function checkInput<Schema extends z.ZodObject>(
  { name, schema }: Pick<Verb<Schema>, "name" | "schema">,
  input: unknown,
): z.output<Schema> {
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
  return checkSettings(input, { kind: `input of ${name}`, check });
}

/** Carries out a verb. @throws RecipeError if the input is not valid, with every problem; and what the verb throws */
export async function callVerb<Schema extends z.ZodObject, Result extends Noted, P extends Progress, Planned>(
  verb: Pick<Verb<Schema, Result, P, Planned>, "name" | "schema" | "fetch" | "run">,
  input: unknown,
  options: VerbOptions<P> & WorkOptions & Pick<Controls<P, Planned>, "onPlan"> = {},
): Promise<Result> {
  return verb.run(checkInput(verb, input), withHub(verb, options));
}

/** Options with an access to the hub. */
export function withHub<O extends VerbOptions<never> & WorkOptions>({ fetch }: Pick<Verb, "fetch">, options: O) {
  return { ...options, hub: options.hub ?? { fetch, signal: options.signal } };
}

/** A verb as a function of the library. */
export const verbFunction =
  <Schema extends z.ZodObject, Result extends Noted, P extends Progress>(verb: Verb<Schema, Result, P>) =>
  (input: z.input<Schema>, options: VerbOptions<P> & WorkOptions = {}): Promise<Result> =>
    callVerb(verb, input, options);

/** The fields that a verb takes, for flags, forms and tables; parts of fields are left out. */
export function verbFields({ schema }: Pick<Verb, "schema">): SchemaField[] {
  return schemaFields(schema, { closed: Object.keys(schema.shape) });
}

/** What a verb takes, as JSON Schema (draft 2020-12). */
export const verbJsonSchema = ({ name, schema }: Pick<Verb, "name" | "schema">): JsonSchema =>
  publishedSchema(`layergraft ${name}`, schema);
