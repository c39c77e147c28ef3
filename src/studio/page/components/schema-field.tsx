// A field of a schema as an input.
import { parse, stringify } from "yaml";
import type { Field as SchemaFieldOf } from "../../protocol/index.js";
import { Field } from "./basics.js";
import { Select, Typed } from "./inputs.js";

/** A value as a person writes it into one line. */
export const lineOf = (value: unknown): string =>
  value === undefined ? "" : stringify(value, { collectionStyle: "flow", lineWidth: 0 }).trim();

/** What a person wrote into one line: text that is not YAML is a text. */
export function readLine(given: string): unknown {
  if (given === "") return undefined;
  try {
    return parse(given, { maxAliasCount: 0 }) as unknown;
  } catch {
    return given;
  }
}

/** Types of fields whose value is a name, whatever it looks like. */
const NAMES = ["source", "folder", "file", "task"];

interface SchemaFieldProps {
  readonly field: SchemaFieldOf;
  /** Sources to choose from. */
  readonly models: readonly { readonly name: string; readonly source: string }[];
  /** Undefined where it is not given. */
  readonly value: unknown;
  readonly set: (value: unknown) => void;
  /** What is wrong with the value. */
  readonly error?: string | undefined;
}

/** A field of a schema: models to choose from, choices, or a line of YAML. */
export function SchemaField({ field, models, value, set, error }: SchemaFieldProps) {
  const hint = field.description.replaceAll("`", "");
  const label = field.required ? `${field.name} (required)` : field.name;
  const preset =
    field.default === undefined ? (field.unset ?? "default").replaceAll("`", "") : `default: ${lineOf(field.default)}`;
  if (field.type === "source" && models.length > 0 && (value === undefined || typeof value === "string")) {
    const isForeign = value !== undefined && !models.some(({ source }) => source === value);
    return (
      <Select
        {...{ label, hint, error, value: value ?? "", onChange: (given) => set(given === "" ? undefined : given) }}
        options={[
          ["", field.required ? "Choose a model" : "none"],
          ...models.map(({ source, name }) => [source, name] as const),
          ...(isForeign ? [value] : []),
        ]}
      />
    );
  }
  const choices = field.type === "true or false" ? ["true", "false"] : field.choices;
  if (choices && (value === undefined || choices.includes(String(value)))) {
    const choose = (given: string) =>
      set(given === "" ? undefined : field.type === "true or false" ? given === "true" : given);
    return (
      <Select
        {...{ label, hint, error, value: String(value ?? ""), onChange: choose }}
        options={[["", preset], ...choices]}
      />
    );
  }
  const isName = NAMES.includes(field.type);
  return (
    <Field label={label} hint={hint} error={error}>
      {(attributes) => (
        <Typed
          attributes={{
            ...attributes,
            ...(field.required ? { required: true } : { placeholder: preset }),
            type: "text",
            class: "code",
          }}
          value={isName ? String(value ?? "") : lineOf(value)}
          onDone={(given) => set(isName && given !== "" ? given : readLine(given))}
        />
      )}
    </Field>
  );
}
