import type { z } from "zod";
import { type SchemaField, schemaFields } from "../settings/index.js";
import { contaminationSchema } from "./contamination.js";
import { mixtureFields, setFields } from "./declaration.js";
import { filterSchema } from "./filter.js";
import { mappingSchema } from "./mapping.js";

const CLOSED = ["sets", "contamination", "map", "filter"];

/** Fields by the mapping that they are in, with its title. */
export function dataFields(): { readonly title: string; readonly fields: readonly SchemaField[] }[] {
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
  return sections.map(([title, schema]) => ({ title, fields: schemaFields(schema, { closed: CLOSED }) }));
}
