// The fields of a schema as data: for documentation, flags, hints on misspelt names, and JSON Schema for editors.

import { z } from "zod";

/** Fields as code writes them: what a schema reads, and lists may be constants. */
export type AsWritten<T> = [z.core.util.JSONType] extends [T]
  ? T
  : T extends object
    ? { readonly [Field in keyof T]: AsWritten<T[Field]> }
    : T;

export type JsonSchema = Readonly<Record<string, unknown>>;

/** A field of a file that people write. */
export interface SchemaField {
  /** Its path: `search.by`, `experts.NAME.role`, `merges[].grid`. */
  readonly name: string;
  /** Its type in words. */
  readonly type: string;
  /** The valid values of an enumeration. */
  readonly choices?: readonly string[];
  readonly required: boolean;
  /** Undefined where there is none. */
  readonly default?: unknown;
  /** What holds where the field is not given, in words: `meta({ unset })`. */
  readonly unset?: string;
  /**
   * Whether it lets code run that came with a model, a file or an answer, `meta({ runsCode: true })`; or a pattern of the texts that do.
   * Pages do not take it: a form cannot show what would run.
   */
  readonly runsCode?: true | string;
  readonly description: string;
}

/** Sets the JSON Schema of a schema that has none, or that also accepts shorter forms. */
export function writtenAs<T extends z.ZodType>(schema: T, json: () => JsonSchema): T {
  // Another schema may have it in several places.
  let made: JsonSchema | undefined;
  const writtenAs = () => {
    made ??= json();
    return structuredClone(made);
  };
  return schema.meta({ writtenAs });
}

/** JSON Schema (draft 2020-12) of the input. */
export function jsonSchemaOf(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: "input",
    reused: "inline",
    unrepresentable: "any",
    override: ({ jsonSchema }) => {
      const { writtenAs: written, description } = jsonSchema;
      if (typeof written !== "function") return;
      for (const key of Object.keys(jsonSchema)) delete jsonSchema[key];
      const { $schema: _, ...shown } = written() as JsonSchema;
      Object.assign(jsonSchema, shown, description === undefined ? {} : { description });
    },
  });
}

/**
 * All fields in the order of the schema; those of list entries under `[]`, those of named entries under `NAME`.
 * @param options.closed fields whose inner fields are left out
 */
export function schemaFields(schema: z.ZodType, { closed = [] }: { closed?: readonly string[] } = {}): SchemaField[] {
  const fields = fieldsWithin(jsonSchemaOf(schema), "", new Set(closed));
  return [...new Map(fields.toReversed().map((field) => [field.name, field])).values()].toReversed();
}

function fieldsWithin(json: JsonSchema, prefix: string, closed: ReadonlySet<string>): SchemaField[] {
  const required = new Set((json.required ?? []) as string[]);
  const own = Object.entries(propertiesOf(json)).flatMap(([key, field]): SchemaField[] => {
    const name = prefix === "" ? key : `${prefix}.${key}`;
    const shown: SchemaField = {
      name,
      type: typeOf(field),
      ...(Array.isArray(field.enum) ? { choices: field.enum.map(String) } : {}),
      required: required.has(key),
      ...(isShown(field.default) ? { default: field.default } : {}),
      ...(typeof field.unset === "string" ? { unset: field.unset } : {}),
      ...(field.runsCode === undefined ? {} : { runsCode: field.runsCode as true | string }),
      description: String(field.description ?? ""),
    };
    return [shown, ...(closed.has(name) ? [] : fieldsWithin(field, name, closed))];
  });
  const { additionalProperties: named, items } = json;
  const variants = variantsOf(json);
  // A field of one form of a value is not required, as another form may be written.
  const isForm = variants.some(({ type }) => type !== "object");
  return [
    ...own,
    ...(isSchema(named) ? fieldsWithin(named, `${prefix}.NAME`, closed) : []),
    ...(isSchema(items) ? fieldsWithin(items, `${prefix}[]`, closed) : []),
    ...variants.flatMap((variant) =>
      fieldsWithin(variant, prefix, closed).map((field) => (isForm ? { ...field, required: false } : field)),
    ),
  ];
}

/** Whether to show a default; an empty mapping only means the defaults of its fields. */
function isShown(value: unknown): boolean {
  return value !== undefined && !(typeof value === "object" && value !== null && Object.keys(value).length === 0);
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === "object" && value !== null;
}

function propertiesOf(json: JsonSchema): Readonly<Record<string, JsonSchema>> {
  return (json.properties ?? {}) as Readonly<Record<string, JsonSchema>>;
}

function variantsOf(json: JsonSchema): readonly JsonSchema[] {
  return (json.anyOf ?? json.oneOf ?? []) as readonly JsonSchema[];
}

const TYPES: Readonly<Record<string, string>> = {
  integer: "whole number",
  number: "number",
  string: "text",
  boolean: "true or false",
};

/** The type of a field in words; a schema's title where it has one. */
function typeOf(json: JsonSchema): string {
  const { title, const: constant, enum: values, type, items, prefixItems } = json;
  if (typeof title === "string") return title;
  if (constant !== undefined) return `\`${constant}\``;
  if (Array.isArray(values)) return [...new Set(values.map((value) => `\`${value}\``))].join(", ");
  const variants = variantsOf(json);
  if (variants.length > 0) return [...new Set(variants.map(typeOf))].join(", or ");
  if (Array.isArray(prefixItems)) return "list of two";
  if (type === "array") return isSchema(items) ? `list of ${pluralOf(items)}` : "list";
  if (type === "object") return "mapping";
  return [type]
    .flat()
    .map((one) => TYPES[String(one)] ?? String(one))
    .join(", or ");
}

function pluralOf(items: JsonSchema): string {
  const variants = variantsOf(items);
  if (variants.length > 0 && items.title === undefined) return [...new Set(variants.map(pluralOf))].join(", or ");
  const word = typeOf(items);
  if (word.startsWith("list of ")) return word.replace("list", "lists");
  return ["text", "number", "whole number", "mapping", "list"].includes(word) ? `${word}s` : word;
}
