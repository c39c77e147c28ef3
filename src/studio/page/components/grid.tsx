import type { ComponentChildren } from "preact";

interface Props {
  readonly label: string;
  readonly head: readonly ComponentChildren[];
  /** How the rows are sorted by each column. */
  readonly sorts?: readonly ("ascending" | "descending" | "none" | undefined)[];
  /** Class of the table. */
  readonly name?: string;
  readonly caption?: ComponentChildren;
  readonly foot?: ComponentChildren;
  /** Rows. */
  readonly children: ComponentChildren;
}

/** A table that scrolls where it is too wide. */
export function Grid({ label, head, sorts, name = "numbers", caption, foot, children }: Props) {
  return (
    <section class="scroll" tabIndex={0} aria-label={label}>
      <table class={name}>
        {caption ? <caption>{caption}</caption> : null}
        <thead>
          <tr>
            {head.map((cell, i) => (
              <th scope="col" key={i} aria-sort={sorts?.[i]}>
                {cell}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
        {foot}
      </table>
    </section>
  );
}

/** The name of a model, in its colour. */
export function Own({ name, own = "" }: { name: string; own?: string }) {
  return (
    <span class={`own-name ${own}`}>
      <span class="mark" aria-hidden="true" />
      <bdi>{name === "" ? "(no name)" : name}</bdi>
    </span>
  );
}

interface CheckProps {
  readonly name: string;
  readonly own: string;
  readonly isChecked: boolean;
  /** Why it cannot be chosen. */
  readonly problem: string | undefined;
  readonly onChange: () => void;
}

/** A model to choose among others. */
export const ModelCheck = ({ name, own, isChecked, problem, onChange }: CheckProps) => (
  <label class={`row nowrap ${own}`}>
    <input {...{ type: "checkbox", checked: isChecked, disabled: !isChecked && problem !== undefined, onChange }} />
    <span class="mark" aria-hidden="true" />
    <span class="named">
      <bdi>{name}</bdi>
      {problem === undefined ? null : <span class="about">{problem}</span>}
    </span>
  </label>
);
