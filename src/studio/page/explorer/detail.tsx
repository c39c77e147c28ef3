// One matrix in numbers: each expert's change, how experts relate, and its rows.

import { useEffect, useMemo, useState } from "preact/hooks";
import { Button, Notice } from "../components/basics.js";
import { Grid, Own } from "../components/grid.js";
import { decimalText, percentText, sizeText } from "../format.js";
import { cellOf, type HeatmapCell, histogram, jaccard, shareOf, type View } from "./figures.js";

/** Reads the most changed rows of a matrix. */
export type ReadRows = (layer: number, column: string) => Promise<readonly ChangedRow[]>;
interface ChangedRow {
  readonly index: number;
  readonly changes: readonly (number | null)[];
}

interface Props extends View {
  readonly place: HeatmapCell;
  readonly readRows?: ReadRows | undefined;
}

interface SheetProps extends Props {
  /** Whether it is shown where it would cover the figures. */
  readonly isOpen: boolean;
  readonly onClose: () => void;
}

export function Detail({ data, names, place, steps, own, readRows, isOpen, onClose }: SheetProps) {
  const column = data.columns[place.column] ?? "";
  const present = names.map((name, expert) => ({ name, expert, cell: cellOf(data, expert, place) }));
  const rows = Math.max(...present.map(({ cell }) => cell?.rows ?? 0));
  return (
    <section class={`card detail ${isOpen ? "open" : ""}`} aria-label={`Layer ${place.layer}, ${column}`}>
      <header>
        <div class="row apart">
          <h2>
            Layer {place.layer}, {column}
          </h2>
          <Button text="Close" class="quiet" onClick={onClose} />
        </div>
        <p class="small soft">
          {rows === 0 ? "The model has no such matrix." : `${rows.toLocaleString("en-US")} rows`}
        </p>
      </header>
      {rows === 0 ? null : (
        <>
          <Grid label="Experts" head={["Expert", "Changed", "Mean", "Relative", "Untouched"]}>
            {present.map(({ name, expert, cell }) => (
              <tr key={name}>
                <th scope="row">
                  <Own name={name} own={own(expert)} />
                </th>
                <td>{percentText(shareOf(data, expert, place, steps))}</td>
                <td>{sizeText(cell?.mean ?? null)}</td>
                <td>{sizeText(cell?.relative ?? null)}</td>
                <td>{percentText(cell?.zero ?? null)}</td>
              </tr>
            ))}
          </Grid>
          {data.pairs.length === 0 ? null : (
            <Grid label="Pairs of experts" head={["Pair", "Overlap", "Conflict", "Cosine"]}>
              {data.pairs.map(({ experts: [a, b], cells }) => {
                const cell = cells[place.layer]?.[place.column];
                return (
                  <tr key={`${a} ${b}`}>
                    <th scope="row">
                      {names[a]} and {names[b]}
                    </th>
                    <td>{percentText(jaccard(data, [a, b], place, steps))}</td>
                    <td>{percentText(cell?.conflict ?? null)}</td>
                    <td>{decimalText(cell?.cosine ?? null)}</td>
                  </tr>
                );
              })}
            </Grid>
          )}
          <Rows {...{ data, names, place, steps, own, readRows }} />
        </>
      )}
    </section>
  );
}

const BINS = 40;
/** Milliseconds that the cursor must rest before rows are read. */
const REST = 150;

function Rows({ data, names, place, steps, own, readRows }: Props) {
  const column = data.columns[place.column] ?? "";
  const [found, setFound] = useState<readonly ChangedRow[] | string>();
  useEffect(() => {
    if (!readRows) return;
    let isLatest = true;
    const timer = setTimeout(() => {
      readRows(place.layer, column).then(
        (rows) => isLatest && setFound(rows),
        (error: Error) => isLatest && setFound(error.message),
      );
    }, REST);
    return () => {
      isLatest = false;
      clearTimeout(timer);
    };
  }, [place.layer, column, readRows]);
  const largest = Math.max(...names.map((_, expert) => cellOf(data, expert, place)?.maximum ?? 0));
  // The threshold moves many times a second, and the table stays.
  const table = useMemo(
    () => (found?.length && typeof found === "object" ? <TopRows {...{ found, names, own, largest }} /> : null),
    [found, names, own, largest],
  );
  return (
    <>
      <div class="stack tight">
        <h3>Rows by their change</h3>
        {names.map((name, expert) => {
          const cell = cellOf(data, expert, place);
          return cell ? <Bars key={name} {...{ name, cell, step: steps[expert] ?? 0, own: own(expert) }} /> : null;
        })}
      </div>
      {typeof found === "string" ? <Notice kind="problem" text={found} /> : null}
      {table}
    </>
  );
}

interface BarsProps {
  readonly name: string;
  readonly cell: NonNullable<ReturnType<typeof cellOf>>;
  readonly step: number;
  readonly own: string;
}

/** How many rows changed by how much, and where the threshold is. */
function Bars({ name, cell, step, own }: BarsProps) {
  const bars = useMemo(() => {
    const counts = histogram(cell.above, cell.rows, BINS);
    const most = Math.max(1, ...counts);
    const width = 100 / counts.length;
    return counts.map((count, bin) => (
      <rect
        key={bin}
        x={width * bin}
        width={0.82 * width}
        y={23 - (21 * count) / most}
        height={count > 0 ? Math.max(1, (21 * count) / most) : 0}
      />
    ));
  }, [cell]);
  const x = (100 * step) / cell.above.length;
  const label = `Rows of ${name} by their change; ${cell.above[step]} of ${cell.rows} are above the threshold`;
  return (
    <div>
      <span class="about" aria-hidden="true">
        <bdi>{name}</bdi>
      </span>
      <svg class={`bars ${own}`} viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={label}>
        {bars}
        <line class="at" x1={x} x2={x} y1="0" y2="24" />
        <line class="ground" x1="0" x2="100" y1="23.5" y2="23.5" />
      </svg>
    </div>
  );
}

interface TopRowsProps {
  readonly found: readonly ChangedRow[];
  readonly names: readonly string[];
  readonly own: (expert: number) => string;
  /** Largest change of a row in any expert. */
  readonly largest: number;
}

function TopRows({ found, names, own, largest }: TopRowsProps) {
  return (
    <div class="stack tight">
      <h3>Most changed rows</h3>
      <Grid label="Most changed rows" head={["Row", ...names]} name="numbers top-rows">
        {found.map(({ index, changes }) => (
          <tr key={index}>
            <th scope="row">{index}</th>
            {names.map((name, expert) => (
              <td key={name} class={`meter ${own(expert)}`}>
                <i style={{ width: `${(100 * (changes[expert] ?? 0)) / largest}%` }} />
                {sizeText(changes[expert] ?? null)}
              </td>
            ))}
          </tr>
        ))}
      </Grid>
    </div>
  );
}
