// The form that a verb has in a page.
import { own, usageError } from "../kit/index.js";
import type { SchemaField } from "../kit/settings/index.js";
import { type Verb, verbFields } from "./verb.js";

/** Fields of a form that are shown together, in the order of the schema. */
export interface FieldGroup {
  /** Empty for fields that are shown at once; the others are folded away under it. */
  readonly title: string;
  readonly fields: readonly SchemaField[];
}

type Formed = Pick<Verb, "schema" | "shown"> & { readonly terminal: Pick<Verb["terminal"], "groups"> };

const OTHERS = "More";

/** The form of a verb, by the groups of its flags: all fields but those that run code. */
export function formGroups({ schema, shown, terminal }: Formed): FieldGroup[] {
  const fields = verbFields({ schema });
  const groups = Object.entries(terminal.groups).flatMap(([title, names]) => {
    const isOf = ({ name }: SchemaField) => names.includes(name);
    return fields.some(isOf) || names.includes("*") ? [{ title, names }] : [];
  });
  const titleOf = ({ name, required }: SchemaField): string => {
    const group = groups.find(({ names }) => names.includes(name)) ?? groups.find(({ names }) => names.includes("*"));
    const isShown = shown ? shown.includes(name) : group === undefined || group === groups[0];
    return required || isShown ? "" : (group?.title ?? OTHERS);
  };
  const titles = new Set(["", ...groups.map(({ title }) => title), OTHERS]);
  return [...titles].flatMap((title) => {
    const found = fields.filter((field) => field.runsCode !== true && titleOf(field) === title);
    return found.length > 0 ? [{ title, fields: found }] : [];
  });
}

/** @throws LayergraftError code `usage` if a field of an input runs code, which a page does not */
export function refuseCode(
  { name, schema }: Pick<Verb, "name" | "schema">,
  input: Readonly<Record<string, unknown>>,
): void {
  for (const { name: field, runsCode } of verbFields({ schema })) {
    const value: unknown = own(input, field);
    if (runsCode === undefined || value === undefined || value === false) continue;
    if (runsCode !== true && !new RegExp(runsCode).test(String(value))) continue;
    throw usageError(`${field} runs code, which a page cannot show. Run layergraft ${name} in a terminal.`);
  }
}
