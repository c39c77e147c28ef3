// Scores over two fields of a recipe: a grid that fills as configurations are scored.

import { parseDocument } from "yaml";
import { LAYER_COUNTS } from "../../../merge/layer-owner.js";
import type { Experiment } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button } from "../components/basics.js";
import { Grid } from "../components/grid.js";
import { create } from "../recipe/recipe-store.js";
import { attempt, project } from "../store.js";

type Map = Experiment["maps"][number];

export function ScoreMap({ map }: { map: Map }) {
  const { title, merge, about, fields, rows, columns, cells } = map;
  const recipe = project.value?.recipes.find((name) => name === merge);
  /** Opens the project's recipe with the values of a cell, as another one. */
  const open = (row: string, column: string) =>
    attempt(async () => {
      const { text } = await call("recipe.read", { name: recipe ?? "" });
      const document = parseDocument(text);
      for (const [field, value] of [[fields[0], row] as const, [fields[1], column] as const]) {
        const key = field.replaceAll(" ", "_");
        if (field !== "") document.set(key, Number(value));
        if (LAYER_COUNTS.includes(key)) document.delete("layers");
      }
      const called = `${recipe} ${fields.map((field, i) => (field === "" ? "" : `${field} ${[row, column][i]}`)).join(" ")}`;
      await create(called.trim(), document.toString());
    });
  return (
    <section class="card stack" aria-label={`Map of ${title}`}>
      <div class="stack tight">
        <h2>{title}</h2>
        <p class="soft">{about} Outlined: the best, and all that cannot be told from it on these items.</p>
      </div>
      <Grid
        label={`Scores of ${title}`}
        name="score-map"
        head={[fields[0] === "" ? fields[1] : `${fields[0]} down, ${fields[1]} across`, ...columns]}
      >
        {rows.map((row, r) => (
          <tr key={row}>
            <th scope="row">{fields[0] === "" ? "" : row}</th>
            {columns.map((column, c) => {
              const cell = cells[r]?.[c] ?? null;
              if (cell === null) return <td key={column} class="waits" aria-label="waits" />;
              return (
                <td key={column} class={cell.isBest ? "best" : ""}>
                  <Button
                    text={cell.score}
                    title={`${cell.score}, ${cell.about}`}
                    aria-label={`${fields[0]} ${row}, ${fields[1]} ${column}: ${cell.score}, ${cell.about}`}
                    disabled={recipe === undefined}
                    style={{ "--shade": `${Math.round(100 * cell.shade)}%` }}
                    onClick={() => void open(row, column)}
                  />
                </td>
              );
            })}
          </tr>
        ))}
      </Grid>
    </section>
  );
}
