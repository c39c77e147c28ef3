// The shares of a heatmap as a table, for those who read or copy numbers.
import { useState } from "preact/hooks";
import { Grid, Own } from "../components/grid.tsx";
import { percentText } from "../format.ts";
import { shareOf, type View } from "./figures.ts";

export function ShareTable({ data, names, steps, own }: View) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="card" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Shares as tables</summary>
      {isOpen
        ? names.map((name, expert) => (
            <Grid
              key={name}
              label={`Shares of ${name}`}
              head={["Layer", ...data.columns]}
              caption={<Own name={name} own={own(expert)} />}
            >
              {Array.from({ length: data.layers }, (_, layer) => (
                <tr key={layer}>
                  <th scope="row">{layer}</th>
                  {data.columns.map((name, column) => (
                    <td key={name}>{percentText(shareOf(data, expert, { layer, column }, steps))}</td>
                  ))}
                </tr>
              ))}
            </Grid>
          ))
        : null}
    </details>
  );
}
