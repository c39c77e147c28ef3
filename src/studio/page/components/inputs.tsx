// Labelled inputs: a number, a line of text, one of several.
import { useState } from "preact/hooks";
import { Field } from "./basics.js";

interface TypedProps {
  /** Of the input. */
  readonly attributes: object;
  readonly value: string | number;
  /** Called while it is typed. */
  readonly onType?: (input: HTMLInputElement) => void;
  /** Called when what was typed is left. */
  readonly onDone?: (text: string) => void;
}

/** An input that shows what is typed until it is left, even where the page is drawn again from an older value. */
export function Typed({ attributes, value, onType, onDone }: TypedProps) {
  const [draft, setDraft] = useState<string>();
  return (
    <input
      {...attributes}
      value={draft ?? value}
      onBlur={() => setDraft(undefined)}
      onInput={({ currentTarget }) => {
        setDraft(currentTarget.value);
        onType?.(currentTarget);
      }}
      onChange={({ currentTarget }) => onDone?.(currentTarget.value.trim())}
    />
  );
}

interface NumberProps<T extends number | null> {
  readonly label: string;
  readonly hint?: string;
  /** Null where nothing is entered. */
  readonly value: T;
  readonly onChange: (value: T) => void;
  readonly min: number;
  readonly max: number;
  readonly step?: number;
  /** Shown where nothing is entered, which then means something. */
  readonly placeholder?: string;
}

/** A number in a range; what is not one changes nothing. */
export function NumberField<T extends number | null>(props: NumberProps<T>) {
  const { label, hint, value, onChange, min, max, step = 1, placeholder } = props;
  return (
    <Field label={label} hint={hint}>
      {(attributes) => (
        <Typed
          attributes={{ ...attributes, type: "number", min, max, step, placeholder }}
          value={value ?? ""}
          onType={({ validity, value: text, valueAsNumber }) => {
            if (!validity.valid) return;
            if (text !== "") onChange(valueAsNumber as T);
            else if (placeholder !== undefined) onChange(null as T);
          }}
        />
      )}
    </Field>
  );
}

interface TextProps {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly error?: string | undefined;
  readonly value: string;
  readonly onChange: (value: string) => void;
  /** A path or a name that programs read. */
  readonly isCode?: boolean;
  readonly required?: boolean;
}

export function TextField({ label, hint, error, value, onChange, isCode = false, required = false }: TextProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(attributes) => (
        <Typed
          attributes={{
            ...attributes,
            type: "text",
            required,
            maxLength: 4096,
            class: isCode ? "code" : "",
            spellcheck: !isCode,
          }}
          value={value}
          onType={({ value: text }) => onChange(text)}
        />
      )}
    </Field>
  );
}

interface SelectProps<T extends string> {
  readonly label: string;
  readonly hint?: string | undefined;
  readonly error?: string | undefined;
  /** Whether its label is only heard. */
  readonly isBare?: boolean;
  readonly value: T;
  /** Values, with a text where that is another. */
  readonly options: readonly (T | readonly [value: T, text: string])[];
  readonly onChange: (value: T) => void;
}

export function Select<T extends string>(props: SelectProps<T>) {
  const { label, hint, error, isBare = false, value, options, onChange } = props;
  const select = (attributes: object) => (
    <select {...attributes} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value as T)}>
      {options.map((one) => {
        const [own, text] = typeof one === "string" ? [one, one] : one;
        return (
          <option key={own} value={own}>
            {text}
          </option>
        );
      })}
    </select>
  );
  return isBare ? select({ "aria-label": label }) : <Field {...{ label, hint, error, children: select }} />;
}
