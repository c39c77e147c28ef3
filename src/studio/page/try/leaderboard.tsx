// All that was asked the same, in one table: models, recipes with their versions, and merges of experiments.

import { useState } from "preact/hooks";
import { scoreAxis } from "../../../figures/scores.js";
import { Button } from "../components/basics.js";
import { Grid, Own } from "../components/grid.js";
import { Interval, placesOf, Ticks } from "../components/interval.js";
import { timeText } from "../format.js";
import type { ResultRow } from "./results.js";
import { isOrder, type Order, sortRows } from "./sort-rows.js";

/** Rows that are shown at first. */
const MAX_ROWS = 12;

export function Leaderboard({ label, rows }: { label: string; rows: readonly ResultRow[] }) {
  const [{ order, isTurned }, setOrder] = useState<{ order: Order; isTurned: boolean }>({
    order: "Score",
    isTurned: false,
  });
  const [isWhole, setWhole] = useState(false);
  const ends = rows.flatMap(({ score: { value, low, high } }) => [value, low, high].filter((one) => one !== null));
  const { low, high, ticks } = scoreAxis(
    ends.map((mean) => ({ mean })),
    "share",
  );
  const { metric = "", unit = "" } = rows[0]?.score ?? {};
  const axis = { low, high, ticks: ticks.map((tick) => `${(100 * tick).toFixed(1).replace(/\.0$/, "")}${unit}`) };
  const sorted = sortRows(rows, order, isTurned);
  const shown = isWhole ? sorted : sorted.slice(0, MAX_ROWS);
  const head = ["Model", "Score", "95% interval", `${metric}, with interval`, "Run by", "Finished"].map((text) => {
    if (!isOrder(text)) return { cell: text };
    const isSorted = order === text;
    const cell = (
      <Button
        class="quiet sort"
        text={
          <>
            {text}
            <span aria-hidden="true">{isSorted ? (isTurned ? "↑" : "↓") : ""}</span>
          </>
        }
        onClick={() => setOrder({ order: text, isTurned: isSorted && !isTurned })}
      />
    );
    return { cell, sort: isSorted ? ((order === "Model") === isTurned ? "descending" : "ascending") : "none" } as const;
  });
  return (
    <>
      <Grid
        label={label}
        name="numbers scores"
        head={head.map(({ cell }) => cell)}
        sorts={head.map(({ sort }) => sort)}
        foot={
          <tfoot>
            <tr>
              <td />
              <td />
              <td />
              <td>
                <Ticks places={placesOf(axis)} texts={axis.ticks} />
              </td>
              <td />
              <td />
            </tr>
          </tfoot>
        }
      >
        {shown.map((row) => (
          <tr key={row.name}>
            <th scope="row">
              <Own name={row.label} own={row.accent} />
              {row.about === "" ? null : (
                <span class="about">
                  <bdi>{row.about}</bdi>
                </span>
              )}
            </th>
            <td>
              <strong>{row.score.score}</strong>
            </td>
            <td>{row.score.interval}</td>
            <td class={row.accent}>
              <Interval score={row.score} axis={axis} />
            </td>
            <td class="text">{row.runner}</td>
            <td class="text">
              <time dateTime={new Date(row.ended).toISOString()}>{timeText(row.ended)}</time>
            </td>
          </tr>
        ))}
      </Grid>
      {shown.length < rows.length ? (
        <div>
          <Button text={`Show all ${rows.length} results`} onClick={() => setWhole(true)} />
        </div>
      ) : null}
    </>
  );
}
