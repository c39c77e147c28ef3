// The shares of a heatmap as a table, for those who read or copy numbers.
import { useState } from "preact/hooks";
import type { Analysis } from "../../protocol/index.ts";
import { percentText } from "../format.ts";
import { Own } from "./detail.tsx";
import { type Steps, shareOf } from "./figures.ts";

interface Props {
  readonly data: Analysis;
  readonly names: readonly string[];
  readonly steps: Steps;
  readonly own: (expert: number) => string;
}

export function ShareTable({ data, names, steps, own }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="card" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Shares as tables</summary>
      {isOpen
        ? names.map((name, expert) => (
            <section class="scroll" tabIndex={0} aria-label={`Shares of ${name}`} key={name}>
              <table class="numbers">
                <caption>
                  <Own name={name} own={own(expert)} />
                </caption>
                <thead>
                  <tr>
                    <th scope="col">Layer</th>
                    {data.columns.map((column) => (
                      <th scope="col" key={column}>
                        {column}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {Array.from({ length: data.layers }, (_, layer) => (
                    <tr key={layer}>
                      <th scope="row">{layer}</th>
                      {data.columns.map((name, column) => (
                        <td key={name}>{percentText(shareOf(data, expert, { layer, column }, steps))}</td>
                      ))}
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          ))
        : null}
    </details>
  );
}
