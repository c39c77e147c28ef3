// Schema of mergekit configurations, from mergekit 0.1.4's documentation and behaviour; none of its code is used.

import { z } from "zod";
import { parseHubName } from "../../formats/checkpoint/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import { checkSchema, formatPath, formatProblem, type Problem, recordOf } from "../../kit/settings/index.js";
import { refusalOf } from "./translate.js";

export type Path = readonly PropertyKey[];

/** Text that pydantic takes for true or false. */
const WORDS: Readonly<Record<string, number>> = { true: 1, yes: 1, on: 1, false: 0, no: 0, off: 0 };

// YAML 1.1, which mergekit reads, parses 1e-4 as a string; pydantic converts it, and booleans, to numbers.
const number = z.union([
  z.number(),
  z.boolean().transform(Number),
  z
    .string()
    .refine((text) => text.trim().toLowerCase() in WORDS)
    .transform((text) => WORDS[text.trim().toLowerCase()] as number),
  z
    .string()
    .regex(/^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i)
    .transform(Number),
]);

/** One number for all layers, or several that are spread over them. */
const spread = z.union([number, z.array(number).min(1)], {
  error: "must be a number, or a list of numbers (a gradient)",
});

const conditional = z.looseObject({ filter: z.string().nullish(), value: spread });

export const SETTING = "must be a number, a list of numbers (a gradient), or { filter, value }, alone or in a list";

const read = z.union([
  number,
  z.array(number).min(1),
  conditional.transform((one) => [one]),
  // A number in such a list is for all tensors that no filter before it names.
  z.array(z.union([conditional, number.transform((value) => ({ value, filter: undefined }))])).min(1),
]);

const scalar = z.union([z.string(), z.number(), z.boolean()]);
const words = z.union([scalar, z.array(scalar).min(1)]);
const worded = z.looseObject({ filter: z.string().nullish(), value: words });

/** Words that mergekit takes for a parameter, until a method reads it as a number. */
const unread = z.union([words, worded, z.array(worded).min(1)]).transform(() => "words" as const);

const setting = z.union([read, unread], { error: SETTING });

export type Spread = z.output<typeof spread>;
export type Setting = z.output<typeof read>;

/** A field that may be null, which is as if it were not there. */
export const optional = <T extends z.ZodType>(of: T) => of.nullish().transform((value) => value ?? undefined);

const parameters = optional(z.record(z.string(), setting, { error: "must be a mapping of parameters" }));

/** Parameters as written; `"words"` in place of what is not a number. */
export type Parameters = z.output<typeof parameters>;

const REFERENCE = "must be a model: a folder, a name on the hub, or one of these + a LoRA adapter";
const located = z.union([z.string().min(1), z.object({ path: z.string().min(1), revision: z.string().nullish() })]);

/** A model by its canonical name, as a source of a recipe. */
export const reference = z
  .union(
    [
      z.string().min(1),
      z.object({ model: located, lora: located.nullish(), override_architecture: z.unknown().optional() }),
    ],
    { error: REFERENCE },
  )
  .transform((written, context): string => {
    const places =
      typeof written === "string" ? written.split("+") : [written.model, ...(written.lora ? [written.lora] : [])];
    return places.map((place) => nameOf(place, (message) => context.addIssue({ code: "custom", message }))).join("+");
  });

function nameOf(place: z.output<typeof located>, problem: (message: string) => void): string {
  const [path = "", revision, ...more] =
    typeof place === "string" ? place.split("@") : [place.path, ...(place.revision ? [place.revision] : [])];
  if (path === "" || more.length > 0) problem(REFERENCE);
  if (revision === undefined || revision === "main") return path;
  const source = `${path}@${revision}`;
  if (!parseHubName(source)) problem(`${source}: only a model on the hub has revisions; remove @${revision}`);
  return source;
}

const layerRange = z
  .tuple([z.int().min(0), z.int().min(0)], { error: "must be [first, last + 1], such as [0, 16]" })
  .refine(([first, end]) => first < end, "must have at least one layer: [first, last + 1]");

export const listed = <T extends z.ZodType>(of: T, what: string) =>
  z.array(of, { error: `must be a list of ${what}` }).min(1, `must name at least one of its ${what}`);

const source = z.object(
  { model: reference, layer_range: layerRange, parameters },
  { error: "must be { model, layer_range }" },
);

const slice = z.object(
  {
    sources: listed(source, "sources"),
    base_model: optional(reference),
    parameters,
  },
  { error: "must be { sources }" },
);

const model = z.object({ model: reference, parameters }, { error: "must be { model, parameters }" });

const module = z.object(
  { models: listed(model, "models").nullish(), slices: listed(slice, "slices").nullish(), parameters },
  { error: "must have models or slices" },
);

const tokenizerSource = optional(
  z.union([z.literal("base"), z.literal("union"), reference], { error: "must be base, union, or one of the models" }),
);

const TOKEN_ROW = "must be one of the models, { kind: model_token, model, token }, or { kind: zero }";

/** Where a token's row comes from. */
const tokenRow = z.union(
  [
    z.object({ kind: z.literal("zero") }),
    z
      .object({
        kind: z.literal("model_token"),
        model: reference,
        token: z.string().nullish(),
        token_id: z.int().min(0).nullish(),
      })
      .refine(({ token, token_id: id }) => (token == null) !== (id == null), "must have either token or token_id"),
    reference.transform((model) => ({ kind: "model" as const, model })),
  ],
  { error: TOKEN_ROW },
);

const tokenizer = z.object({
  source: tokenizerSource,
  tokens: z
    .record(z.string(), z.object({ source: tokenRow, force: z.boolean().nullish() }))
    .nullish()
    .transform((tokens) => tokens ?? {}),
  pad_to_multiple_of: z.int().min(1).max(1_000_000).nullish(),
});

const DTYPES = ["bfloat16", "float16", "float32"] as const;
export const dtype = optional(
  z
    .string()
    .transform((name) => name.replace(/^torch\./, ""))
    .pipe(
      z.enum(DTYPES, {
        error: ({ input }) =>
          `is not supported; it must be one of ${DTYPES.join(", ")}${didYouMean(String(input), DTYPES)}`,
      }),
    ),
);

export const configuration = z.object({
  name: z.string().nullish(),
  merge_method: z.string({ error: "must be the name of a method" }),
  models: listed(model, "models").nullish(),
  slices: listed(slice, "slices").nullish(),
  modules: recordOf(module).nullish(),
  base_model: optional(reference),
  parameters,
  dtype,
  out_dtype: dtype,
  tokenizer_source: tokenizerSource,
  tokenizer: tokenizer.nullish(),
  chat_template: z.string().nullish(),
});

export type Configuration = z.output<typeof configuration>;
export type ModelEntry = z.output<typeof model>;
export type SliceEntry = z.output<typeof slice>;

export function isMergekit(value: unknown): value is { merge_method: unknown } {
  return typeof value === "object" && value !== null && "merge_method" in value && !("method" in value);
}

/** What mergekit silently passes over: refused, or noted where `isLenient`. */
export class Strictness {
  /** By message: what several models share is reported once. */
  readonly #problems = new Map<string, Problem>();
  readonly #notes = new Set<string>();
  readonly #isLenient: boolean;

  constructor(isLenient: boolean) {
    this.#isLenient = isLenient;
  }

  get problems(): readonly Problem[] {
    return [...this.#problems.values()];
  }

  get notes(): readonly string[] {
    return [...this.#notes];
  }

  /** @param wrong what is wrong at the path @param done what is done with it */
  report(path: Path, wrong: string, done = "ignored"): void {
    if (this.#isLenient) {
      this.#notes.add(`${formatPath(path)} is ${done}, as in mergekit: ${wrong}`);
      return;
    }
    const problem = { path, message: `${wrong}${wrong.endsWith("?") ? "" : ";"} in mergekit it is ${done}` };
    this.#problems.set(formatProblem(problem), problem);
  }
}

/** Checks a document: problems, what is not supported, and fields that mergekit ignores. */
export function readConfiguration(
  value: object,
  strictness: Strictness,
): { config?: Configuration; problems: Problem[]; notes: string[] } {
  const checked = checkSchema(configuration, value);
  const unknown = unknownProblems(value, configuration, strictness);
  const problems = [...checked.problems, ...refusals(value)];
  const overridden = /"override_architecture":"/.test(JSON.stringify(value)) ? [OVERRIDDEN] : [];
  const notes = [...overridden, ...unknown];
  return checked.value ? { config: checked.value, problems, notes } : { problems, notes };
}

/** Unknown fields: reported where they look misspelled. @returns notes on others, which mergekit ignores */
export function unknownProblems(value: object, schema: z.core.$ZodType, strictness: Strictness): string[] {
  const notes: string[] = [];
  for (const { path, field, known } of unknownFields(value, schema)) {
    const hint = didYouMean(field, known);
    if (hint !== "") strictness.report([...path, field], `unknown field${hint}`);
    else notes.push(`${formatPath([...path, field])} is ignored: mergekit does not use it`);
  }
  return notes;
}

/** An unknown method, reported along with other problems. */
function refusals({ merge_method: method }: { readonly merge_method?: unknown }): Problem[] {
  const refusal = typeof method === "string" ? refusalOf(method) : undefined;
  return refusal === undefined ? [] : [{ path: ["merge_method"], message: refusal }];
}

const OVERRIDDEN =
  "override_architecture is not needed: models whose tensors have the same names and shapes are merged, and config.json stays as it is";

interface UnknownField {
  readonly path: Path;
  readonly field: string;
  readonly known: readonly string[];
}

function* unknownFields(value: unknown, schema: z.core.$ZodType, path: Path = []): Generator<UnknownField> {
  if (schema instanceof z.ZodPipe) yield* unknownFields(value, schema.in, path);
  else if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    yield* unknownFields(value, schema.unwrap(), path);
  } else if (schema instanceof z.ZodArray && Array.isArray(value)) {
    for (const [i, entry] of value.entries()) yield* unknownFields(entry, schema.element, [...path, i]);
  } else if (typeof value !== "object" || value === null || Array.isArray(value)) return;
  else if (schema instanceof z.ZodRecord) {
    for (const [key, entry] of Object.entries(value)) yield* unknownFields(entry, schema.valueType, [...path, key]);
  } else if (schema instanceof z.ZodObject) {
    const known = Object.keys(schema.shape);
    for (const [field, inner] of Object.entries(value)) {
      if (Object.hasOwn(schema.shape, field)) yield* unknownFields(inner, schema.shape[field], [...path, field]);
      else yield { path, field, known };
    }
  }
}
