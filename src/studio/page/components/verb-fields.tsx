// Fields of a verb in a form: those that its schema shows at once, and the others folded away by group.

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { JobInput, VerbReference } from "../../protocol/index.js";
import { call } from "../client.js";
import { inBackground } from "../store.js";
import { lineOf, SchemaField } from "./schema-field.js";

/** Values of fields by name. */
export type Values = JobInput<"verb">["input"];

/** Every verb; empty until the server has said them. */
const verbs = signal<readonly VerbReference[]>([]);

/** Every verb, read once. */
export function useVerbs(): readonly VerbReference[] {
  useEffect(() => {
    if (verbs.peek().length > 0) return;
    void inBackground(async () => {
      verbs.value = (await call("verbs", {})).verbs;
    });
  }, []);
  return verbs.value;
}

/** Values with another one; undefined takes it away. */
export function withValue(values: Values, name: string, value: unknown): Values {
  const { [name]: _, ...others } = values;
  return value === undefined ? others : { ...others, [name]: value as Values[string] };
}

interface FieldsProps {
  /** Name of the verb. */
  readonly verb: string;
  /** Fields whose values the form makes in its own way. */
  readonly made?: readonly string[];
  readonly values: Values;
  readonly set: (values: Values) => void;
  /** Sources to choose from. */
  readonly models?: readonly { readonly name: string; readonly source: string }[];
  /** Which choices of a field are offered, where those are not all. */
  readonly choices?: Readonly<Record<string, readonly string[]>>;
}

/** The fields of a verb: all but those that the form makes itself. */
export function VerbFields({ verb, made = [], values, set, models = [], choices = {} }: FieldsProps) {
  const { groups = [] } = useVerbs().find(({ name }) => name === verb) ?? {};
  return (
    <>
      {groups.map(({ title, fields: all }) => {
        const fields = all.filter(({ name }) => !made.includes(name));
        if (fields.length === 0) return null;
        const inputs = fields.map((field) => (
          <SchemaField
            key={field.name}
            field={{ ...field, ...(choices[field.name] ? { choices: choices[field.name] } : {}) }}
            {...{ models, value: values[field.name] }}
            set={(value) => set(withValue(values, field.name, value))}
          />
        ));
        const given = fields.flatMap(({ name }) => (name in values ? `${name}: ${lineOf(values[name])}` : []));
        return title === "" ? (
          <div key={title} class="method-form">
            {inputs}
          </div>
        ) : (
          <details key={title}>
            <summary>
              {title} <span class="small soft">{given.join(", ")}</span>
            </summary>
            <div class="method-form">{inputs}</div>
          </details>
        );
      })}
    </>
  );
}
