// Two results item by item: what was gained and lost, and the answers side by side.
import { useEffect, useRef, useState } from "preact/hooks";
import type { ComparedItem, ResultComparison } from "../../protocol/index.ts";
import { call } from "../client.ts";
import { Field, Icon, Segments } from "../components/basics.tsx";
import { Different } from "../components/different.tsx";
import { inBackground } from "../store.ts";
import type { Row } from "./results.tsx";

type Task = ResultComparison["tasks"][number];
type Kind = "all" | "gained" | "lost";

interface Props {
  readonly pair: readonly [Row, Row];
  readonly task: string;
}

export function Comparison({ pair, task }: Props) {
  const [found, setFound] = useState<ResultComparison | null>(null);
  const [first, second] = pair;
  useEffect(() => {
    void inBackground(async () => {
      const names: [string, string] = [labelOf(first, second), labelOf(second, first)];
      setFound(await call("evaluation.compare", { first: first.name, second: second.name, names }));
    });
  }, []);
  if (!found) return <p class="soft">Comparing…</p>;
  const compared = found.tasks.find((one) => one.task === task);
  if (compared) return <ComparedTask pair={pair} task={compared} />;
  const reason = found.skipped.find((one) => one.task === task)?.reason ?? "one of them lacks the task";
  return <p class="notice caution">Not compared: {reason}.</p>;
}

/** With what ran it, where both are of the same model. */
const labelOf = (one: Row, other: Row) => (one.label === other.label ? `${one.label} (${one.runner})` : one.label);

function ComparedTask({ pair, task }: { pair: Props["pair"]; task: Task }) {
  const [metric, setMetric] = useState(0);
  const one = task.comparisons[metric] ?? task.comparisons[0];
  const [kind, setKind] = useState<Kind>(one?.gained.length ? "gained" : one?.lost.length ? "lost" : "all");
  if (!one) return null;
  const ids = kind === "all" || !one.hasFlips ? task.ids : one[kind];
  return (
    <section class="stack comparison" aria-label={`${pair[0].label} and ${pair[1].label}, item by item`}>
      <p class="verdict" role="status">
        {one.verdict}
      </p>
      <div class="row">
        {task.comparisons.length > 1 ? (
          <Field label="Metric">
            {(attributes) => (
              <select
                {...attributes}
                value={metric}
                onChange={({ currentTarget }) => setMetric(Number(currentTarget.value))}
              >
                {task.comparisons.map(({ title }, i) => (
                  <option key={title} value={i}>
                    {title}
                  </option>
                ))}
              </select>
            )}
          </Field>
        ) : null}
        {one.hasFlips ? (
          <Segments
            label="Items to show"
            options={[
              ["all", `All ${task.ids.length}`],
              ["gained", `Gained ${one.gained.length}`],
              ["lost", `Lost ${one.lost.length}`],
            ]}
            value={kind}
            onChange={setKind}
          />
        ) : null}
      </div>
      <Items
        // Another list begins at its first page.
        key={`${metric} ${kind}`}
        pair={pair}
        task={task.task}
        metric={one}
        ids={ids}
      />
    </section>
  );
}

/** Items of a page: 10,000 items are 500 pages, and never more than these are in the document. */
const PAGE = 20;

interface ItemsProps {
  readonly pair: Props["pair"];
  readonly task: string;
  readonly metric: Task["comparisons"][number];
  readonly ids: readonly string[];
}

function Items({ pair, task, metric, ids }: ItemsProps) {
  const [page, setPage] = useState(0);
  const [items, setItems] = useState<readonly ComparedItem[]>([]);
  const top = useRef<HTMLParagraphElement>(null);
  const pages = Math.ceil(ids.length / PAGE);
  useEffect(() => {
    let isCurrent = true;
    void inBackground(async () => {
      const wanted = ids.slice(page * PAGE, (page + 1) * PAGE);
      const [first, second] = pair.map(({ name }) => name) as [string, string];
      const found = await call("evaluation.items", { first, second, task, metric: metric.metric, ids: wanted });
      if (isCurrent) setItems(found);
    });
    return () => {
      isCurrent = false;
    };
  }, [page]);
  if (ids.length === 0) return <p class="soft">No item.</p>;
  const go = (to: number) => {
    setPage(to);
    top.current?.focus();
    top.current?.scrollIntoView({ block: "nearest" });
  };
  const pager = (
    <nav class="row pager" aria-label="Pages of items">
      <button type="button" disabled={page === 0} onClick={() => go(page - 1)}>
        Previous
      </button>
      <span class="small soft numeric">
        Page {page + 1} of {pages}
      </span>
      <button type="button" disabled={page + 1 >= pages} onClick={() => go(page + 1)}>
        Next
      </button>
    </nav>
  );
  const [gained, lost] = [new Set(metric.gained), new Set(metric.lost)];
  return (
    <>
      <p class="small soft" ref={top} tabIndex={-1} role="status">
        Items {page * PAGE + 1} to {Math.min(ids.length, (page + 1) * PAGE)} of {ids.length}
      </p>
      <ul class="items">
        {items.map((item) => (
          <Item
            key={item.id}
            item={item}
            pair={pair}
            change={gained.has(item.id) ? "gained" : lost.has(item.id) ? "lost" : null}
          />
        ))}
      </ul>
      {pages > 1 ? pager : null}
    </>
  );
}

interface ItemProps {
  readonly item: ComparedItem;
  readonly pair: Props["pair"];
  readonly change: "gained" | "lost" | null;
}

function Item({ item: { id, prompt, beginning, gold, answers }, pair, change }: ItemProps) {
  const [before] = answers;
  return (
    <li class={`item ${change ?? ""}`}>
      <h3 class="row">
        Item {id}
        {change === null ? null : <span class={`chip ${change}`}>{change === "gained" ? "Gained" : "Lost"}</span>}
      </h3>
      <dl>
        <div class="question">
          <dt>Prompt</dt>
          <dd>
            {beginning === "" ? null : (
              <details>
                <summary>Beginning that items share</summary>
                {beginning}
              </details>
            )}
            {prompt}
          </dd>
        </div>
        <div>
          <dt>Expected</dt>
          <dd>{gold}</dd>
        </div>
        {answers.map((answer, side) => (
          <div key={pair[side]?.name} class={`given ${pair[side]?.accent}`}>
            <dt class="row">
              <span class="mark" aria-hidden="true" />
              {pair[side]?.label}
              <Verdict value={answer.value} />
            </dt>
            <dd>
              {answer.fault !== null ? (
                <span class="problem">{answer.fault}</span>
              ) : side === 1 && before ? (
                <Different from={before.text} to={answer.text} />
              ) : (
                answer.text
              )}
            </dd>
          </div>
        ))}
      </dl>
    </li>
  );
}

/** Right, wrong, or a number between. */
function Verdict({ value }: { value: number | null }) {
  if (value === null) return null;
  if (value !== 0 && value !== 1) return <span class="worth">{Math.round(100 * value)}%</span>;
  return (
    <span class={`worth ${value === 1 ? "right" : ""}`}>
      <Icon name={value === 1 ? "check" : "close"} />
      {value === 1 ? "right" : "wrong"}
    </span>
  );
}
