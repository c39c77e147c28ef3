// All fields of `data`, for documentation: read off the schemas.
import { z } from "zod";
import { contaminationSchema } from "./contamination.js";
import { mixtureFields, setFields } from "./declaration.js";
import { filterSchema } from "./filter.js";
import { mappingSchema } from "./mapping.js";

export interface DataField {
  readonly field: string;
  readonly required: boolean;
  /** As JSON; undefined where there is none. */
  readonly default?: unknown;
  readonly description: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Fields by the mapping that they stand in, with its name in words. */
export function dataFields(): { readonly title: string; readonly fields: readonly DataField[] }[] {
  const [pair, conversation, translation] = mappingSchema.options;
  const [column, characters, tokens] = filterSchema.options;
  const sections: [string, z.ZodType][] = [
    ["`data`, where it is more than a set or a list of sets", mixtureFields],
    ["A set", setFields],
    ["`map` of prompts and responses", pair],
    ["`map` of conversations", conversation],
    ["`map` of translations", translation],
    ["A filter of a column", column],
    ["A filter of characters", characters],
    ["A filter of tokens", tokens],
    ["`contamination`", contaminationSchema],
  ];
  return sections.map(([title, schema]) => {
    const json = z.toJSONSchema(schema, { io: "input", reused: "inline", unrepresentable: "any" });
    return { title, fields: fieldsOf(json as Json, "") };
  });
}

/** Fields with those of mappings within, except of what has a section of its own. */
function fieldsOf(json: Json, prefix: string): DataField[] {
  const required = new Set((json.required ?? []) as string[]);
  return Object.entries((json.properties ?? {}) as Record<string, Json>).flatMap(([name, field]) => {
    if (field.properties !== undefined && name !== "contamination") return fieldsOf(field, `${prefix}${name}.`);
    return {
      ...{ field: `${prefix}${name}`, required: required.has(name) },
      ...(field.default === undefined ? {} : { default: field.default }),
      description: String(field.description ?? ""),
    };
  });
}
