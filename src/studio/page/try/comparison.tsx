// Two results item by item: what was gained and lost, and the answers side by side.

import { useRef, useState } from "preact/hooks";
import { z } from "zod";
import type { Output, ResultComparison } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Field, Notice, Pager, Segments } from "../components/basics.js";
import { Select } from "../components/inputs.js";
import { Command } from "../components/progress.js";
import { attempt, useAnswer } from "../store.js";
import { Item } from "./item.js";
import type { ResultRow } from "./results.js";

type Task = ResultComparison["tasks"][number];
type Kind = "all" | "gained" | "lost";

interface Props {
  readonly pair: readonly [ResultRow, ResultRow];
  readonly task: string;
}

export function Comparison({ pair, task }: Props) {
  const [first, second] = pair;
  const names: [string, string] = [labelOf(first, second), labelOf(second, first)];
  const found = useAnswer(() => call("evaluation.compare", { first: first.name, second: second.name, names }), []);
  if (!found) return <p class="soft">Comparing…</p>;
  const compared = found.tasks.find((one) => one.task === task);
  if (compared) {
    return (
      <>
        <ComparedTask pair={pair} task={compared} />
        <Ratings {...{ pair, names }} />
      </>
    );
  }
  const reason = found.skipped.find((one) => one.task === task)?.reason ?? "one of them lacks the task";
  return <Notice kind="caution" text={`Not compared: ${reason}.`} />;
}

/** With what ran it, where both are of the same model. */
const labelOf = (one: ResultRow, other: ResultRow) =>
  one.label === other.label ? `${one.label} (${one.runner})` : one.label;

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
          <Select
            label="Metric"
            value={String(metric)}
            options={task.comparisons.map(({ title }, i) => [String(i), title])}
            onChange={(value) => setMetric(Number(value))}
          />
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

/** A page on which people choose between the answers without knowing whose they are, and what they chose. */
function Ratings({ pair: [first, second], names }: { pair: Props["pair"]; names: [string, string] }) {
  const [made, setMade] = useState<Output<"evaluation.rate">>();
  const [found, setFound] = useState<readonly string[]>([]);
  const of = { first: first.name, second: second.name };
  const tally = (file: File | undefined) =>
    attempt(async () => {
      if (!file) return;
      const saved = z.json().parse(JSON.parse(await file.text()));
      setFound((await call("evaluation.tally", { ...of, names, saved })).sentences);
    });
  return (
    <details>
      <summary>Have people choose</summary>
      <div class="stack">
        <p class="soft">
          A page shows the answers of both side by side, without names and in random order. Raters choose, and save a
          file.
        </p>
        <div class="row">
          <Button
            text="Make the page for raters"
            onClick={() => attempt(async () => setMade(await call("evaluation.rate", of)))}
          />
          {made ? (
            <a class="button" href={made.url} target="_blank" rel="noopener noreferrer">
              Open it: {made.pairs} pairs
            </a>
          ) : null}
        </div>
        {made ? <p class="path">{made.file}</p> : null}
        <Field label="Choices that a rater saved">
          {(attributes) => (
            <input
              {...{ ...attributes, type: "file", accept: ".json" }}
              onChange={({ currentTarget }) => void tally(currentTarget.files?.[0])}
            />
          )}
        </Field>
        {found.map((sentence) => (
          <p class="verdict" role="status" key={sentence}>
            {sentence}
          </p>
        ))}
        {made ? (
          <Command
            words={[
              "layergraft",
              "compare",
              ...[first, second].map(({ name }) => `evaluations/${name}`),
              "--ratings",
              "ratings.json",
            ]}
          />
        ) : null}
      </div>
    </details>
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
  const top = useRef<HTMLParagraphElement>(null);
  const pages = Math.ceil(ids.length / PAGE);
  const items = useAnswer(() => {
    const wanted = ids.slice(page * PAGE, (page + 1) * PAGE);
    const names = pair.map(({ name }) => name);
    return call("evaluation.items", { names, task, metric: metric.metric, ids: wanted });
  }, [page]);
  if (ids.length === 0) return <p class="soft">No item.</p>;
  const go = (to: number) => {
    setPage(to);
    top.current?.focus();
    top.current?.scrollIntoView({ block: "nearest" });
  };
  const [gained, lost] = [new Set(metric.gained), new Set(metric.lost)];
  return (
    <>
      <p class="small soft" ref={top} tabIndex={-1} role="status">
        Items {page * PAGE + 1} to {Math.min(ids.length, (page + 1) * PAGE)} of {ids.length}
      </p>
      <ul class="items">
        {items?.map((item) => (
          <Item
            key={item.id}
            item={item}
            rows={pair}
            change={gained.has(item.id) ? "gained" : lost.has(item.id) ? "lost" : null}
          />
        ))}
      </ul>
      <Pager page={page} pages={pages} onPage={go} />
    </>
  );
}
