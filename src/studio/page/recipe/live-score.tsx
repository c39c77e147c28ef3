// The score of the open recipe on a few items, again whenever a change settles; and the versions that were scored.
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Evaluation } from "../../protocol/index.ts";
import { call, StudioError } from "../client.ts";
import { ownClass } from "../components/basics.tsx";
import { NumberField } from "../components/inputs.tsx";
import { Interval } from "../components/interval.tsx";
import { firstTask, NewTask, OTHER, TaskChoice, TaskName, taskOf, useTasks } from "../components/task-fields.tsx";
import { change, inBackground, settings } from "../store.ts";
import { boardOfText, type Defaults, recipeOfText } from "./board-of-text.ts";
import type { Tower } from "./board-view.tsx";
import * as store from "./recipe-store.ts";

/** Items by default: enough to see large differences, few enough to be fast. */
const ITEMS = 50;
const MAX_VERSIONS = 24;

interface Props {
  readonly recipe: string;
  readonly defaults: Defaults;
  readonly towers: readonly Tower[];
}

/** A version with its score, and what changed against the one before it. */
interface Scored {
  readonly result: Evaluation;
  readonly flips: string;
}
/** The latest score by recipe, which another view does not forget. */
const scored = signal<ReadonlyMap<string, Scored>>(new Map());

export function LiveScore({ recipe, defaults, towers }: Props) {
  const live = settings.value?.live ?? null;
  const [state, setState] = useState<"settled" | "scoring" | string>("settled");
  const check = store.check.value;
  const now = scored.value.get(recipe);
  useEffect(() => {
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
        <button type="button" class="quiet" onClick={() => change(() => ({ live: null }))}>
          Stop or change
        </button>
      </div>
      <div class="row own-merge" role="status" aria-busy={state === "scoring"}>
        {score ? (
          <>
            <strong class="value">{score.score}</strong>
            <span class="soft numeric">{score.interval}</span>
            <Interval score={score} axis={{ low: 0, high: 1 }} />
          </>
        ) : null}
        <span class="soft">
          {state === "scoring" ? "scoring…" : state === "settled" ? (now?.flips ?? "") : null}
          {state === "settled" && !check?.plan ? " This version does not work, so it has no score." : null}
        </span>
      </div>
      {state === "scoring" || state === "settled" ? null : <p class="notice problem">{state}</p>}
      <p class="small soft">
        {score ? `${score.title}: ${score.metric}, ` : ""}the first {score?.items ?? live.limit} items, 95% interval.
        With so few items, evaluate under Try before you decide.
      </p>
      <History {...{ recipe, defaults, towers, shown: now?.result.name }} />
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
  const [picked, setPicked] = useState<string | null>(null);
  const [typed, setTyped] = useState("");
  const [limit, setLimit] = useState(ITEMS);
  useTasks();
  const choice = picked ?? firstTask();
  const task = taskOf(choice, typed);
  return (
    <section class="card stack" aria-label="Live score">
      <h2>Live score</h2>
      <p class="soft">Scores each version of this recipe on the same few items while you choose layers.</p>
      <div class="task-fields">
        <TaskChoice value={choice} onChange={setPicked} />
        <NumberField {...{ label: "Items", value: limit, min: 20, max: 100 }} onChange={setLimit} />
      </div>
      {choice === OTHER ? <TaskName value={typed} onChange={setTyped} /> : null}
      <div class="row">
        <button
          type="button"
          disabled={task === null}
          onClick={() => task && change(() => ({ live: { task, limit } }))}
        >
          Score every version
        </button>
        <NewTask onChange={setPicked} />
      </div>
    </section>
  );
}

/** Versions of the recipe that were scored on any items, the latest first. */
function History({ recipe, defaults, towers, shown }: Props & { readonly shown: string | undefined }) {
  const [all, setAll] = useState<readonly Evaluation[]>([]);
  useEffect(() => {
    void inBackground(async () => {
      const found = await call("evaluation.list", {});
      setAll(found.filter(({ source, recipe: text }) => source === `recipes/${recipe}.yaml` && text !== null));
    });
  }, [shown]);
  const versions = [...new Map(all.map((one) => [one.recipe ?? "", one])).values()];
  if (versions.length < 2) return null;
  return (
    <details>
      <summary>{versions.length} scored versions</summary>
      <ul class="versions-list">
        {versions.slice(0, MAX_VERSIONS).map((one) => (
          <li key={one.name}>
            <Thumbnail text={one.recipe ?? ""} {...{ defaults, towers }} />
            <span>
              {all
                .filter((other) => other.recipe === one.recipe)
                .flatMap(({ tasks }) => tasks.map(({ title, items, score }) => `${title} ${score} (${items} items)`))
                .join(", ")}
              <span class="about">{new Date(one.ended).toLocaleString()}</span>
            </span>
            {one.recipe === store.text.value ? (
              <span class="soft">open</span>
            ) : (
              <button type="button" class="quiet" onClick={() => store.edit(one.recipe ?? "")}>
                Restore
              </button>
            )}
          </li>
        ))}
      </ul>
    </details>
  );
}

interface ThumbnailProps {
  readonly text: string;
  readonly defaults: Defaults;
  readonly towers: readonly Tower[];
}

/** Whose each layer is, from the input at the left; nothing where the board cannot say it. */
export function Thumbnail({ text, defaults, towers }: ThumbnailProps) {
  const layers = store.check.value?.plan?.layers ?? 0;
  const board = boardOfText(recipeOfText(text), layers, defaults);
  if (!board) return <span class="about">{recipeOfText(text)?.method?.toString()}</span>;
  const ownOf = (source: string) => ownClass(towers.find((tower) => tower.source === source)?.own ?? "base");
  return (
    <svg class="thumbnail" viewBox={`0 0 ${layers} 2`} preserveAspectRatio="none" aria-hidden="true">
      {board.rows.flatMap(({ attention, mlp }, layer) =>
        [mlp, attention].flatMap((owners, half) =>
          owners.map((source, i) => (
            <rect
              key={`${layer} ${half} ${source}`}
              class={ownOf(source)}
              {...{ x: layer + i / owners.length, y: half, width: 1 / owners.length, height: 1 }}
            />
          )),
        ),
      )}
    </svg>
  );
}
