// The score of the open recipe on a few items, again whenever a change settles.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Evaluation } from "../../protocol/index.js";
import { call, StudioError } from "../client.js";
import { Button, Notice } from "../components/basics.js";
import { NumberField } from "../components/inputs.js";
import { Interval } from "../components/interval.js";
import { NewTask, useTask } from "../components/task-fields.js";
import { change, settings } from "../store.js";
import * as store from "./recipe-store.js";

/** Items by default: enough to see large differences, few enough to be fast. */
const ITEMS = 50;
/** A version with its score, and what changed against the one before it. */
interface Scored {
  readonly result: Evaluation;
  readonly flips: string;
}
/** The latest score by recipe, which another view does not forget. */
export const scored = signal<ReadonlyMap<string, Scored>>(new Map());

export function LiveScore({ recipe }: { recipe: string }) {
  const live = settings.value?.live ?? null;
  const [state, setState] = useState<"settled" | "scoring" | string>("settled");
  const check = store.check.value;
  const now = scored.value.get(recipe);
  useEffect(() => {
    setState("settled");
    // Of a version that does not work, or is not on the disk, there is no score.
    if (live === null || !check?.plan || store.unsaved.peek() !== null) return;
    let isLatest = true;
    setState("scoring");
    const score = async () => {
      const result = await call("recipe.score", { name: recipe, ...live });
      const before = scored.peek().get(recipe)?.result;
      if (!isLatest || before?.name === result.name) return;
      const show = (flips: string) => (scored.value = new Map([...scored.peek(), [recipe, { result, flips }]]));
      // The next change is compared with this one, even if it comes before the flips.
      show("");
      setState("settled");
      if (!before) return;
      const flips = await flipsOf(before, result);
      if (isLatest) show(flips);
    };
    score().then(
      () => isLatest && setState("settled"),
      (error: Error) => {
        const isOlder = error instanceof StudioError && error.code === "cancelled";
        if (isLatest && !isOlder) setState(error.message);
      },
    );
    return () => {
      isLatest = false;
    };
  }, [check, live?.task, live?.limit]);
  if (live === null) return <Choose />;
  const score = now?.result.tasks[0];
  return (
    <section class="card stack live" aria-label="Live score">
      <div class="row apart">
        <h2>Live score</h2>
        <Button text="Stop or change" class="quiet" onClick={() => change(() => ({ live: null }))} />
      </div>
      <div class="row own-merge" role="status" aria-busy={state === "scoring"}>
        {score ? (
          <>
            <strong class="value">{score.score}</strong>
            <span class="soft numeric">{score.interval}</span>
            <Interval score={score} axis={{ low: 0, high: 1, ticks: ["0", "50", "100"] }} />
          </>
        ) : null}
        <span class="soft">
          {state === "scoring" ? "scoring…" : state === "settled" ? (now?.flips ?? "") : null}
          {state === "settled" && check && !check.plan && !store.isChecking.value
            ? " This version does not work, so it has no score."
            : null}
        </span>
      </div>
      {state === "scoring" || state === "settled" ? null : <Notice kind="problem" text={state} />}
      <p class="small soft">
        {score ? `${score.title}: ${score.metric}, ` : ""}the first {score?.items ?? live.limit} items, 95% interval.
        With so few items, evaluate under Try before you decide.
      </p>
    </section>
  );
}

/** What a version got right that the one before did not, and the other way round. */
async function flipsOf(before: Evaluation, after: Evaluation): Promise<string> {
  const names: [string, string] = ["the last version", "this one"];
  const { tasks } = await call("evaluation.compare", { first: before.name, second: after.name, names });
  const [one] = tasks[0]?.comparisons ?? [];
  if (!one?.hasFlips) return one?.verdict ?? "";
  return one.gained.length + one.lost.length === 0
    ? "the same answers as the last version"
    : `${one.gained.length} gained, ${one.lost.length} lost against the last version`;
}

function Choose() {
  const { task, pick, choice, name } = useTask();
  const [limit, setLimit] = useState(ITEMS);
  return (
    <section class="card stack" aria-label="Live score">
      <h2>Live score</h2>
      <p class="soft">Scores each version of this recipe on the same few items while you choose layers.</p>
      <div class="task-fields">
        {choice}
        <NumberField {...{ label: "Items", value: limit, min: 20, max: 100 }} onChange={setLimit} />
      </div>
      {name}
      <div class="row">
        <Button
          text="Score every version"
          disabled={task === null}
          onClick={() => task && change(() => ({ live: { task, limit } }))}
        />
        <NewTask onChange={pick} />
      </div>
    </section>
  );
}
