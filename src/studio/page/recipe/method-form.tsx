// A method's fields as a form, made from its schema.
import { parse, stringify } from "yaml";
import type { Method, Field as RecipeField } from "../../protocol/index.js";
import type { RecipeValue } from "../../recipe/board.js";
import { Field, ownClass } from "../components/basics.js";
import { ModelCheck } from "../components/grid.js";
import { Select, Typed } from "../components/inputs.js";
import { misfitOf } from "../store.js";
import type { Tower } from "./board-view.js";
import { setFields } from "./recipe-store.js";

interface Props {
  readonly method: Method;
  readonly recipe: RecipeValue;
  readonly models: readonly Tower[];
}

export function MethodForm({ method, recipe, models }: Props) {
  return (
    <div class="method-form">
      {method.fields.map((field) => (
        <FieldInput key={`${method.name} ${field.name}`} {...{ field, method, models }} value={recipe[field.name]} />
      ))}
    </div>
  );
}

interface InputProps {
  readonly field: RecipeField;
  readonly method: Method;
  readonly models: readonly Tower[];
  readonly value: unknown;
}

/** A value as a person writes it into one line. */
const lineOf = (value: unknown): string =>
  value === undefined ? "" : stringify(value, { collectionStyle: "flow", lineWidth: 0 }).trim();

/** What a person wrote into one line: text that is not YAML is a text. */
function readLine(given: string): unknown {
  if (given === "") return undefined;
  try {
    return parse(given, { maxAliasCount: 0 }) as unknown;
  } catch {
    return given;
  }
}

function FieldInput({ field, method, models, value }: InputProps) {
  const set = (given: unknown) => setFields({ [field.name]: given });
  const hint = field.description.replaceAll("`", "");
  const label = field.required ? `${field.name} (required)` : field.name;
  const preset = field.default === undefined ? "default" : `default: ${lineOf(field.default)}`;
  if (field.name === "models") return <ModelList {...{ method, models, value, set }} />;
  if (field.type === "source" && (value === undefined || typeof value === "string")) {
    const isForeign = value !== undefined && !models.some(({ source }) => source === value);
    return (
      <Select
        {...{ label, hint, value: value ?? "", onChange: (given) => set(given === "" ? undefined : given) }}
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
      <Select {...{ label, hint, value: String(value ?? ""), onChange: choose }} options={[["", preset], ...choices]} />
    );
  }
  return (
    <Field label={label} hint={hint}>
      {(attributes) => (
        <Typed
          attributes={{ ...attributes, type: "text", class: "code", placeholder: preset }}
          value={lineOf(value)}
          onDone={(given) => set(readLine(given))}
        />
      )}
    </Field>
  );
}

interface ListProps {
  readonly method: Method;
  readonly models: readonly Tower[];
  readonly value: unknown;
  readonly set: (value: unknown) => void;
}

/** Which models, with the fields of each. */
function ModelList({ method, models, value, set }: ListProps) {
  const entries = (Array.isArray(value) ? (value as unknown[]) : []).map((entry) =>
    typeof entry === "string" ? { model: entry } : (Object(entry) as Record<string, unknown>),
  );
  const write = (next: readonly Record<string, unknown>[]) =>
    set(next.map(({ model, ...more }) => (Object.keys(more).length === 0 ? model : { model, ...more })));
  return (
    <fieldset class="model-list">
      <legend class="label">models (required)</legend>
      {models.map(({ source, name, own }) => {
        const entry = entries.find(({ model }) => model === source);
        const others = entries.filter((one) => one !== entry);
        return (
          <div key={source} class="row">
            <ModelCheck
              {...{ name, own: ownClass(own), isChecked: entry !== undefined, problem: misfitOf(source) }}
              onChange={() => write(entry ? others : [...entries, { model: source }])}
            />
            {entry
              ? method.entryFields.map((field) => (
                  <Typed
                    key={field.name}
                    attributes={{
                      ...{ type: "text", class: "code", "aria-label": `${field.name} of ${name}` },
                      ...{ title: field.description, placeholder: field.name },
                    }}
                    value={lineOf(entry[field.name])}
                    onDone={(given) => {
                      const { [field.name]: _, ...rest } = entry;
                      const changed = given === "" ? rest : { ...rest, [field.name]: readLine(given) };
                      write(entries.map((one) => (one === entry ? changed : one)));
                    }}
                  />
                ))
              : null}
          </div>
        );
      })}
    </fieldset>
  );
}
