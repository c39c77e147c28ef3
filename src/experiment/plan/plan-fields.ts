// The fields of plans, for documentation: from the schema itself, so that the two cannot part.
import { z } from "zod";
import { planSchema } from "./plan-schema.js";

/** A field of a plan. */
export interface PlanField {
  /** Its place: `search.by`, `experts.NAME.role`, `merges[].grid`. */
  readonly field: string;
  readonly required: boolean;
  /** As JSON; undefined where there is none. */
  readonly default?: unknown;
  readonly description: string;
}

type JsonSchema = Readonly<Record<string, unknown>>;

/** The schema of plans as JSON Schema (draft 2020-12). */
export function planJsonSchema(): JsonSchema {
  const json = z.toJSONSchema(planSchema, { io: "input", reused: "inline", unrepresentable: "any" });
  return { title: "layergraft experiment", ...json };
}

/** All fields, in the order of the schema; those of entries under `[]`, those of named entries under `NAME`. */
export function planFields(): PlanField[] {
  return fieldsOf(planJsonSchema(), "");
}

function fieldsOf(json: JsonSchema, prefix: string): PlanField[] {
  const required = new Set((json.required ?? []) as string[]);
  return Object.entries((json.properties ?? {}) as Record<string, JsonSchema>).flatMap(([name, field]) => {
    const at = `${prefix}${name}`;
    const own: PlanField = {
      field: at,
      required: required.has(name),
      ...(isPlain(field.default) ? { default: field.default } : {}),
      description: String(field.description ?? ""),
    };
    return [own, ...inner(field, at)];
  });
}

/** A default that says something: not an empty mapping that stands for the defaults within. */
function isPlain(value: unknown): boolean {
  return value !== undefined && !(typeof value === "object" && value !== null && Object.keys(value).length === 0);
}

/** Fields within a field: of a mapping, of the entries of a list, of entries that a person names. */
function inner(field: JsonSchema, at: string): PlanField[] {
  if (field.properties) return fieldsOf(field, `${at}.`);
  const named = field.additionalProperties as JsonSchema | boolean | undefined;
  if (typeof named === "object" && named.properties) return fieldsOf(named, `${at}.NAME.`);
  const items = field.items as JsonSchema | undefined;
  const variants = [items, ...((items?.anyOf ?? []) as JsonSchema[])];
  const mapping = variants.find((variant) => variant?.properties);
  return mapping ? fieldsOf(mapping, `${at}[].`) : [];
}

/** The table of all fields, as Markdown. */
export function planFieldsMarkdown(): string {
  const rows = planFields().map(({ field, required, default: value, description }) => {
    const fallback = required ? "required" : value === undefined ? "" : `\`${JSON.stringify(value)}\``;
    return `| \`${field}\` | ${fallback} | ${description.replaceAll("|", "\\|")} |`;
  });
  return ["| field | default | meaning |", "| --- | --- | --- |", ...rows].join("\n");
}
