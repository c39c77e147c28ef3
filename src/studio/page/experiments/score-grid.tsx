// Scores of an experiment: models by tasks, each with its interval on the axis of its task.
import type { Experiment } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, ownClass } from "../components/basics.js";
import { Grid, Own } from "../components/grid.js";
import { Interval, placesOf, type Scale, Ticks } from "../components/interval.js";
import { create } from "../recipe/recipe-store.js";
import { attempt, settings } from "../store.js";

type ScoreRow = Experiment["rows"][number];

export function ScoreGrid({ experiment }: { experiment: Experiment }) {
  const { tasks, rows, moreRows, intervals } = experiment;
  if (rows.length === 0) return null;
  const hasRecipes = rows.some(({ recipe }) => recipe !== null);
  return (
    <section class="card stack" aria-labelledby="scores">
      <h2 id="scores">Scores</h2>
      <Verdicts tasks={tasks} />
      <Grid
        label="Scores of models on tasks"
        name="score-grid"
        head={[
          "Model",
          ...tasks.map(({ title, about }) => (
            <>
              {title}
              <span class="about">{about}</span>
            </>
          )),
          ...(hasRecipes ? [<span class="visually-hidden">Recipe</span>] : []),
        ]}
        foot={
          <tfoot>
            <tr>
              <td />
              {tasks.map(({ title, axis }) => (
                <td key={title}>
                  <Ticks places={placesOf(axis)} texts={axis.ticks} />
                </td>
              ))}
              {hasRecipes ? <td /> : null}
            </tr>
          </tfoot>
        }
      >
        {rows.map((row) => (
          <tr key={`${row.label} ${row.detail}`} class={ownOf(row)}>
            <th scope="row">
              <Own name={row.label} />
              {row.detail === "" ? null : <span class="about">{row.detail}</span>}
            </th>
            {tasks.map(({ title, axis }, i) => (
              <Cell key={title} cell={row.cells[i] ?? null} axis={axis} />
            ))}
            {hasRecipes ? (
              <td class="end">{row.recipe === null ? null : <Open plan={experiment.plan} row={row} />}</td>
            ) : null}
          </tr>
        ))}
      </Grid>
      {moreRows > 0 ? <p class="soft">{moreRows} more rows are in the report.</p> : null}
      <p class="soft small">{intervals}</p>
    </section>
  );
}

/** An expert of the project has its colour in every view, others that of the report; other rows have that of their kind. */
function ownOf({ kind, label, own }: ScoreRow): string {
  if (own === null) return `kind-${kind}`;
  const at = (settings.value?.experts ?? []).findIndex(({ name }) => name === label);
  return ownClass(at < 0 ? own : at);
}

/** What the report says of each task. */
function Verdicts({ tasks }: Pick<Experiment, "tasks">) {
  const said = tasks.flatMap(({ title, sentences }) => sentences.map((sentence) => ({ title, sentence })));
  if (said.length === 0) return null;
  return (
    <ul class="verdicts">
      {said.map(({ title, sentence }) => (
        <li key={`${title} ${sentence}`}>
          {tasks.length > 1 ? <strong>{title}: </strong> : null}
          {sentence}
        </li>
      ))}
    </ul>
  );
}

function Cell({ cell, axis }: { cell: ScoreRow["cells"][number]; axis: Scale }) {
  if (cell === null) return <td class="soft">not asked</td>;
  if (cell === "waits") return <td class="soft waits">waits</td>;
  const below = [cell.low !== null && cell.interval, cell.range && `over models ${cell.range}`]
    .filter(Boolean)
    .join("; ");
  return (
    <td>
      <div class="score">
        <span class={cell.isBest ? "value best" : "value"}>
          {cell.score}
          {cell.isBest ? <span class="chip">best</span> : null}
        </span>
        <Interval score={cell} axis={axis} />
        {below === "" ? null : <span class="about">{below}</span>}
      </div>
    </td>
  );
}

/** Makes a recipe of the project of what a row was merged by. */
function Open({ plan, row }: { plan: string; row: ScoreRow }) {
  const open = () =>
    attempt(async () => {
      const { text } = await call("experiment.recipe", { plan, id: row.recipe ?? "" });
      await create(row.label, text);
    });
  return <Button text="Open recipe" class="quiet" aria-label={`Open recipe of ${row.label}`} onClick={open} />;
}
