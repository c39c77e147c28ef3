// A method's fields as a form, made from its schema.
import { OUTPUT_FIELDS } from "../../../merge/recipe/output-fields.js";
import type { Check, Method, Field as RecipeField } from "../../protocol/index.js";
import type { RecipeValue } from "../../recipe/board.js";
import { Button, Notice, ownClass } from "../components/basics.js";
import { ModelCheck } from "../components/grid.js";
import { Typed } from "../components/inputs.js";
import { lineOf, readLine, SchemaField } from "../components/schema-field.js";
import { misfitOf } from "../store.js";
import type { Tower } from "./board-view.js";
import { setFields } from "./recipe-store.js";

interface Props {
  readonly method: Method;
  readonly recipe: RecipeValue;
  readonly models: readonly Tower[];
  readonly problems: Check["problems"];
}

export function MethodForm({ method, recipe, models, problems }: Props) {
  const errorOf = (name: string) => problems.find(({ field }) => field === name)?.message;
  const own = ["method", ...OUTPUT_FIELDS, ...method.fields.map(({ name }) => name)];
  const foreign = Object.keys(recipe).filter((name) => !own.includes(name) && errorOf(name) !== undefined);
  return (
    <div class="method-form">
      {foreign.map((name) => (
        <Notice key={name} kind="problem" text={errorOf(name)}>
          <Button text={`Remove ${name}`} onClick={() => setFields({ [name]: undefined })} />
        </Notice>
      ))}
      {method.fields.map((field) => (
        <FieldInput
          key={`${method.name} ${field.name}`}
          {...{ field, method, models, error: errorOf(field.name) }}
          value={recipe[field.name]}
        />
      ))}
    </div>
  );
}

interface InputProps {
  readonly field: RecipeField;
  readonly method: Method;
  readonly models: readonly Tower[];
  readonly value: unknown;
  readonly error: string | undefined;
}

function FieldInput({ field, method, models, value, error }: InputProps) {
  const set = (given: unknown) => setFields({ [field.name]: given });
  return field.name === "models" ? (
    <ModelList {...{ method, models, value, set }} />
  ) : (
    <SchemaField {...{ field, models, value, set, error }} />
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
                      type: "text",
                      class: "code",
                      "aria-label": `${field.name} of ${name}`,
                      title: field.description,
                      placeholder: field.name,
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
