import { Field } from "./basics.tsx";

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
        <input
          {...{ ...attributes, type: "number", value: value ?? "", min, max, step, placeholder }}
          onInput={({ currentTarget }) => {
            const { validity, value: text, valueAsNumber } = currentTarget;
            if (!validity.valid) return;
            if (text !== "") onChange(valueAsNumber as T);
            else if (placeholder !== undefined) onChange(null as T);
          }}
        />
      )}
    </Field>
  );
}
