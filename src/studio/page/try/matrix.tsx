// All items by all models: where they disagree, by group, and each answer.

import { useEffect, useState } from "preact/hooks";
import type { ComparedItem } from "../../protocol/index.js";
import { call } from "../client.js";
import { Dialog, Either, Pager } from "../components/basics.js";
import { Grid, Own } from "../components/grid.js";
import { Select } from "../components/inputs.js";
import { inBackground, useAnswer } from "../store.js";
import { Item, Verdict } from "./item.js";
import type { ResultRow } from "./results.js";

const PAGE = 30;

/** How far models disagree on an item: the variance of what their answers are worth, times their number. */
function disagreement(values: readonly (number | null)[]): number {
  const known = values.map((value) => value ?? 0);
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  return known.reduce((sum, value) => sum + (value - mean) ** 2, 0);
}

export function ItemsByModels({ rows, task }: { rows: readonly ResultRow[]; task: string }) {
  const [isSorted, setSorted] = useState(true);
  const [group, setGroup] = useState("");
  const [page, setPage] = useState(0);
  const [open, setOpen] = useState<ComparedItem | null>(null);
  const names = rows.map(({ name }) => name);
  const found = useAnswer(() => call("evaluation.matrix", { names, task }), [names.join("/"), task]);
  useEffect(() => setPage(0), [isSorted, group]);
  if (!found) return <p class="soft">Reading the answers…</p>;
  const groups = [...new Set(found.items.flatMap((item) => item.group ?? []))];
  const inGroup = found.items.filter((item) => group === "" || item.group === group);
  const items = isSorted ? inGroup.toSorted((a, b) => disagreement(b.values) - disagreement(a.values)) : inGroup;
  const show = (id: string) =>
    inBackground(async () => {
      const [item] = await call("evaluation.items", { names, task, metric: found.metric, ids: [id] });
      setOpen(item ?? null);
    });
  return (
    <section class="stack" aria-label="Items by models">
      <div class="row">
        <Either
          label="Order of items"
          texts={["In order", "Most disagreement first"]}
          value={isSorted}
          onChange={setSorted}
        />
        {groups.length > 1 ? (
          <Select label="Group" value={group} options={[["", "all"], ...groups]} onChange={setGroup} />
        ) : null}
      </div>
      <Grid
        label="What each answer is worth"
        head={["Item", ...rows.map(({ name, label, accent }) => <Own key={name} name={label} own={accent} />)]}
      >
        {items.slice(page * PAGE, (page + 1) * PAGE).map(({ id, values }) => (
          <tr key={id}>
            <th scope="row">{id}</th>
            {rows.map(({ name, label }, i) => (
              <td key={name}>
                <button type="button" class="quiet" onClick={() => show(id)}>
                  <span class="visually-hidden">
                    {label} on item {id}:{" "}
                  </span>
                  {values[i] == null ? "none" : <Verdict value={values[i]} />}
                </button>
              </td>
            ))}
          </tr>
        ))}
      </Grid>
      <Pager page={page} pages={Math.ceil(items.length / PAGE)} onPage={setPage} />
      {open ? (
        <Dialog title={`Item ${open.id}`} onClose={() => setOpen(null)}>
          <ul class="items">
            <Item item={open} rows={rows} />
          </ul>
        </Dialog>
      ) : null}
    </section>
  );
}
