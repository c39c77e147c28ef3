// Which fields of a method are sources: each is marked where it is declared, and found in the schema.
import { z } from "zod";

/** What `layergraft measure` writes; merges weigh by all but activations. */
export const STATISTICS = ["fisher", "gram", "inputs", "activations"] as const;
export type StatisticsKind = (typeof STATISTICS)[number];

/** What a source gives: a model that is merged, statistics of one, or only a tokenizer. */
export type SourceKind = "model" | "statistics" | "tokenizer";

/** What a field says of its source. */
export interface SourceMark {
  readonly source: SourceKind;
  /** Of statistics: their kind, and the field beside it whose model they are of. */
  readonly statistics?: { readonly kind: StatisticsKind; readonly of: string };
}

/** A field whose value is a source. */
export interface SourceField extends SourceMark {
  readonly field: string;
}

/** A field whose value is a list of sources, bare or as mappings. */
export interface SourceList {
  readonly field: string;
  /** Entries that the method cannot do without. */
  readonly atLeast: number;
  /** Sources of an entry; that of a bare one is `model`. */
  readonly entry: readonly SourceField[];
}

export type SourceFields = readonly (SourceField | SourceList)[];

// JSON Schema shows what is in zod's own registry.
const MARKS = z.registry<SourceMark>();

/** Marks a schema, and what is refined or described from it, as that of a source. */
export function markSource<T extends z.ZodType>(schema: T, mark: SourceMark): T {
  MARKS.add(schema, mark);
  return schema;
}

const known = new WeakMap<z.ZodObject, SourceFields>();

/** The sources of a method in the order of its fields, the base last: sources that make up the result come first. */
export function sourceFieldsIn(schema: z.ZodObject): SourceFields {
  const found = known.get(schema) ?? baseLast(fieldsIn(schema.shape));
  known.set(schema, found);
  return found;
}

function fieldsIn(shape: Shape): SourceFields {
  return Object.entries(shape).flatMap(([field, type]): SourceFields => {
    const mark = markOf(type);
    if (mark) return [{ field, ...mark }];
    const inner = unwrapped(type)._zod.def;
    if (inner.type !== "array") return [];
    const { element, checks } = inner as z.core.$ZodArrayDef;
    const entry = variantsOf(element).flatMap(entryOf);
    return entry.length > 0 ? [{ field, atLeast: leastOf(checks), entry: unique(entry) }] : [];
  });
}

/** The least length that a list is checked for. */
function leastOf(checks: z.core.$ZodArrayDef["checks"] = []): number {
  const lengths = checks.map(({ _zod: { def } }) => {
    const { check, minimum, length } = def as {
      readonly check: string;
      readonly minimum?: number;
      readonly length?: number;
    };
    return (check === "min_length" ? minimum : check === "length_equals" ? length : undefined) ?? 0;
  });
  return Math.max(0, ...lengths);
}

type Shape = z.core.$ZodShape;

function entryOf(type: z.core.$ZodType): readonly SourceField[] {
  const mark = markOf(type);
  if (mark) return [{ field: "model", ...mark }];
  const { def } = unwrapped(type)._zod;
  if (def.type !== "object") return [];
  return Object.entries((def as z.core.$ZodObjectDef).shape).flatMap(([field, inner]) => {
    const own = markOf(inner);
    return own ? [{ field, ...own }] : [];
  });
}

/** The mark of a schema, or of the one that it is made of. */
function markOf(type: z.core.$ZodType): SourceMark | undefined {
  const inner = innerOf(type);
  return MARKS.get(type as z.ZodType) ?? (inner && markOf(inner));
}

function unwrapped(type: z.core.$ZodType): z.core.$ZodType {
  const inner = innerOf(type);
  return inner ? unwrapped(inner) : type;
}

/** What an optional field, one with a default, or one that is transformed is made of. */
function innerOf({ _zod: { def } }: z.core.$ZodType): z.core.$ZodType | undefined {
  const { innerType, in: before } = def as { readonly innerType?: z.core.$ZodType; readonly in?: z.core.$ZodType };
  return innerType ?? before;
}

function variantsOf(type: z.core.$ZodType): readonly z.core.$ZodType[] {
  const inner = unwrapped(type);
  return inner._zod.def.type === "union" ? (inner._zod.def as z.core.$ZodUnionDef).options : [inner];
}

/** The first of each name. */
function unique<Field extends { readonly field: string }>(fields: readonly Field[]): Field[] {
  return fields.filter(({ field }, i) => fields.findIndex((other) => other.field === field) === i);
}

/** The fields that any of some methods has. */
export function joinFields(all: readonly SourceFields[]): SourceFields {
  const fields = all.flat();
  const lists = (field: string) => fields.flatMap((one) => (one.field === field && "entry" in one ? one.entry : []));
  return baseLast(unique(fields).map((one) => ("entry" in one ? { ...one, entry: unique(lists(one.field)) } : one)));
}

function baseLast(fields: SourceFields): SourceFields {
  const isBase = ({ field }: { readonly field: string }) => field === "base";
  return [...fields.filter((one) => !isBase(one)), ...fields.filter(isBase)];
}
