// A way to leave: what it makes, its form, and the command that does the same.

import type { ComponentChildren } from "preact";
import { TextField } from "./inputs.tsx";
import { Command } from "./progress.tsx";

interface WayProps {
  readonly title: string;
  readonly text: string;
  readonly command: readonly string[];
  readonly children: ComponentChildren;
}

export function Way({ title, text, command, children }: WayProps) {
  return (
    <article class="card way" aria-label={title}>
      <h2>{title}</h2>
      <p class="soft">{text}</p>
      {children}
      <details>
        <summary>Command</summary>
        <Command words={command} />
      </details>
    </article>
  );
}

export const pathField = (label: string, value: string, onChange: (value: string) => void, hint: string) => (
  <TextField {...{ label, value, onChange, hint, isCode: true, required: true }} />
);
