import { z } from "zod";
import { isObject, RecipeError, requireLanguage } from "../../kit/index.js";
import { jsonSchemaOf, parseInWords, type SchemaField, schemaFields, writtenAs } from "../../kit/settings/index.js";
import { encodingFields } from "./encode.js";
import { type FilterDeclaration, filterSchema } from "./filter.js";
import { type MappingDeclaration, mappingSchema } from "./mapping.js";
import { FORMATS } from "./read/files.js";
import { READY_NAMES, type ReadyName, readyFields, readySet } from "./ready-sets.js";

const text = z.string().min(1);
const patterns = z.array(text).min(1);

/** Fields of a set, for documentation; `dataSchema` reads it. */
export const setFields = z.strictObject({
  use: z.enum(READY_NAMES).optional().describe("a ready declaration; fields given here override its fields"),
  language: text.optional().describe("language of a ready declaration: a name or a code"),
  name: text.optional().describe("name of the set in counts and logs; default: the ready declaration, or the source"),
  source: text.optional().describe("a file, a folder, a pattern, or a data set of the Hub"),
  config: text.optional().describe("Hub: configuration"),
  split: text.optional().describe("Hub: split; default train"),
  revision: text.optional().describe("Hub: branch, tag or commit; default main"),
  files: patterns.optional().describe("Hub or folder: patterns of files to read, instead of config and split"),
  exclude: patterns.optional().describe("Hub or folder: patterns of files to leave out"),
  format: z.enum(FORMATS).optional().describe("file format; default: from the file names"),
  header: z
    .union([z.boolean(), patterns])
    .optional()
    .describe("csv and tsv: true if the first line names the columns (default), or a list of names"),
  quotes: z.boolean().optional().describe("csv and tsv: fields may be quoted; default: true for csv"),
  allow_short: z.boolean().optional().describe("csv and tsv: lines may lack fields at their end; default false"),
  field: text.optional().describe("json: which list to read from an object with several lists"),
  map: mappingSchema.optional().describe("how a row becomes prompt and response; default: from common column names"),
  filter: z.array(filterSchema).optional().describe("conditions that rows and examples must pass, in order"),
  cap: z.int().min(1).optional().describe("most examples, drawn at random with the seed"),
  limit: z.int().min(1).optional().describe("read only this many first rows of the files"),
  weight: z.number().positive().optional().describe("weight in the mixture, relative to the other sets"),
});

/** A set needs a source, and a language where its ready declaration has several. */
function checkSet(set: z.output<typeof setFields>, context: z.RefinementCtx): void {
  const add = (path: string, message: string) => context.addIssue({ code: "custom", path: [path], message });
  if (set.use === undefined) {
    if (set.source === undefined)
      add("source", "is missing; set a file, folder or data set, or a ready declaration (use)");
    if (set.language !== undefined) add("language", "is for ready declarations (use)");
    return;
  }
  const ready = readySet(set.use);
  if (ready.language === "required" && set.language === undefined)
    add("language", `is missing; ${set.use} has several`);
  if (ready.language === "none" && set.language !== undefined)
    add("language", `does not apply to ${set.use}, which has one language`);
  if (set.language === undefined) return;
  try {
    const { source } = readyFields(set.use, requireLanguage(set.language, { field: "language" }));
    if (source === undefined && set.source === undefined) add("source", `is missing. ${ready.note ?? ""}`.trim());
  } catch (error) {
    if (!(error instanceof RecipeError)) throw error;
    add("language", error.message);
  }
}

/** A text is a source, or the name of a ready declaration. */
function asSet(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return READY_NAMES.includes(value as ReadyName) ? { use: value } : { source: value };
}

const TEXT = { type: "string", minLength: 1 };

const setSchema = writtenAs(z.preprocess(asSet, setFields.superRefine(checkSet)), () => ({
  anyOf: [TEXT, jsonSchemaOf(setFields)],
}));

/** One set of a mixture, or the name of a ready declaration. */
export type SetDeclaration = z.output<typeof setFields>;

/** Fields of a mixture, for documentation; `dataSchema` reads it. */
export const mixtureFields = z.strictObject({
  sets: z.array(setSchema).min(1).describe("the sets; without weights, all of their examples together"),
  repeat: z
    .boolean()
    .default(false)
    .describe(
      "with weights: true repeats small sets until every set is read whole; false ends the pass before any set repeats",
    ),
  deduplicate: z.boolean().default(false).describe("leave out examples that occurred before, in any set"),
  on_bad_row: z
    .enum(["fail", "skip"])
    .default("fail")
    .describe("at a row that cannot be read: stop, or count it and continue"),
  ...encodingFields,
});

const { sets: _, ...mixtureOptions } = mixtureFields.shape;

const listOfSets = z.array(setSchema).min(1);
const [optionsOfMixture, fieldsOfSet] = [z.object(mixtureOptions), z.object(setFields.shape)];
const setWithOptions = z.strictObject({ ...setFields.shape, ...mixtureOptions }).superRefine(checkSet);

/** The field `data` of a run: a mapping with `sets`, a list of sets, or a set with options of the mapping beside its own. */
const anyData = z.unknown().transform((value, context): z.output<typeof mixtureFields> => {
  const inWords = <T extends z.ZodType>(schema: T, written: unknown): z.output<T> | undefined => {
    const parsed = parseInWords(schema, written);
    if (parsed.success) return parsed.data;
    context.issues.push(...(parsed.error.issues as never[]));
    return undefined;
  };
  if (Array.isArray(value)) {
    const sets = inWords(listOfSets, value);
    return sets ? mixtureFields.parse({ sets }) : z.NEVER;
  }
  const written = asSet(value);
  if (!isObject(written) || "sets" in written || !("use" in written || "source" in written)) {
    return inWords(mixtureFields, written) ?? z.NEVER;
  }
  const set = inWords(setWithOptions, written);
  // Each takes its own fields.
  return set ? { ...optionsOfMixture.parse(set), sets: [fieldsOfSet.parse(set)] } : z.NEVER;
});

export const dataSchema = writtenAs(anyData, () => ({
  title: "set, list of sets, or mapping",
  anyOf: [TEXT, ...[setWithOptions, listOfSets, mixtureFields].map((schema) => jsonSchemaOf(schema))],
}));

export type DataDeclaration = z.output<typeof dataSchema>;
/** A set as written: its fields, a path, a data set of the Hub, or the name of a ready declaration. */
export type SetInput = z.input<typeof setFields> | string;
/** What `dataSchema` reads. */
export type DataInput =
  | (Omit<z.input<typeof mixtureFields>, "sets"> & { readonly sets: readonly SetInput[] })
  | readonly SetInput[]
  | (z.input<typeof setFields> & Omit<z.input<typeof mixtureFields>, "sets">)
  | string;

/** A set with everything filled in. */
export interface SetPlan extends SetDeclaration {
  readonly name: string;
  readonly source: string;
  /** Undefined if it follows from the columns. */
  readonly map: MappingDeclaration | undefined;
  readonly filter: FilterDeclaration[];
}

/** Fields of a ready declaration that do not apply to another source. */
const OF_SOURCE = ["config", "split", "files", "exclude"] as const;

/**
 * Fills in a ready declaration. A filter of a column replaces the ready one of that column; others are added.
 * @throws RecipeError for an unknown language, or a missing source
 */
export function planSet(declaration: SetDeclaration): SetPlan {
  const { use, language } = declaration;
  if (use === undefined) {
    const { source, map, name = source, filter = [] } = declaration;
    if (source === undefined || name === undefined) throw new RecipeError("a set of data needs a source");
    return { ...declaration, name, source, map, filter };
  }
  const ready = readyFields(use, language === undefined ? undefined : requireLanguage(language, { field: "language" }));
  const fields: Record<string, unknown> = { ...ready };
  if (declaration.source !== undefined) for (const field of OF_SOURCE) delete fields[field];
  // Patterns of files replace a configuration and a split.
  if (declaration.config !== undefined || declaration.split !== undefined) delete fields.files;
  const own = declaration.filter ?? [];
  const columns = new Set(own.flatMap((filter) => ("column" in filter ? [filter.column] : [])));
  const kept = (ready.filter ?? []).filter((filter) => !("column" in filter && columns.has(filter.column)));
  const given = Object.fromEntries(Object.entries(declaration).filter(([, value]) => value !== undefined));
  const source = declaration.source ?? ready.source;
  if (source === undefined)
    throw RecipeError.at({ field: "source" }, `${use} needs a source. ${readySet(use).note ?? ""}`.trim());
  return {
    ...(fields as SetDeclaration),
    ...given,
    name: declaration.name ?? (language === undefined ? use : `${use} ${language}`),
    source,
    map: declaration.map ?? ready.map,
    filter: [...kept, ...own],
  };
}

const CLOSED = ["sets", "map", "filter"];

/** Fields by the mapping that they are in, with its title. */
export function dataFields(): { readonly title: string; readonly fields: readonly SchemaField[] }[] {
  const [pair, text, conversation, translation] = mappingSchema.options;
  const [column, characters, tokens, without] = filterSchema.options;
  const sections: [string, z.ZodType][] = [
    ["`data`, where it is more than a set or a list of sets", mixtureFields],
    ["A set", setFields],
    ["`map` of prompts and responses", pair],
    ["`map` of plain texts", text],
    ["`map` of conversations", conversation],
    ["`map` of translations", translation],
    ["A filter of a column", column],
    ["A filter of characters", characters],
    ["A filter of tokens", tokens],
    ["A filter of words", without],
  ];
  return sections.map(([title, schema]) => ({ title, fields: schemaFields(schema, { closed: CLOSED }) }));
}
