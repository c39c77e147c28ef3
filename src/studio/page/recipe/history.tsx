// Versions of the open recipe that were scored: each can be opened again, and two of them compared.

import { useState } from "preact/hooks";
import { askSame, type Evaluation, recipeSource } from "../../protocol/index.js";
import { differenceInWords } from "../../recipe/board.js";
import { call } from "../client.js";
import { Button } from "../components/basics.js";
import { Versions } from "../components/different.js";
import { timeText } from "../format.js";
import { useAnswer } from "../store.js";
import type { Tower } from "./board-view.js";
import { scored } from "./live-score.js";
import * as store from "./recipe-store.js";
import { boardOfText, type Defaults, recipeOfText } from "./recipe-store.js";
import { Thumbnail } from "./thumbnail.js";

const MAX_VERSIONS = 24;

interface Props {
  readonly recipe: string;
  readonly layers: number;
  readonly defaults: Defaults;
  readonly towers: readonly Tower[];
}

/** A text of the recipe, with its results, the latest first. */
interface Version {
  readonly text: string;
  readonly results: readonly Evaluation[];
}

export function History({ recipe, layers, defaults, towers }: Props) {
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const all = useAnswer(() => call("evaluation.list", {}), [recipe, scored.value]) ?? [];
  const own = all.filter(({ source, recipe: text }) => source === recipeSource(recipe) && text !== null);
  const versions = [...new Set(own.map(({ recipe: text }) => text ?? ""))].map((text) => ({
    text,
    results: own.filter((one) => one.recipe === text),
  }));
  if (versions.length < 2) return null;
  const boardOf = (text: string) => boardOfText(recipeOfText(text), layers, defaults);
  const toggle = (text: string) =>
    setChosen(chosen.includes(text) ? chosen.filter((one) => one !== text) : [text, ...chosen].slice(0, 2));
  const pair = versions.filter(({ text }) => chosen.includes(text));
  return (
    <details class="card">
      <summary>History: {versions.length} scored versions</summary>
      <ul class="versions-list">
        {versions.slice(0, MAX_VERSIONS).map(({ text, results }) => {
          const board = boardOf(text);
          const time = timeText(results[0]?.ended ?? 0);
          return (
            <li key={text}>
              {board ? (
                <Thumbnail {...{ board, towers }} />
              ) : (
                <span class="about">{recipeOfText(text)?.method?.toString()}</span>
              )}
              <span>
                {results
                  .flatMap(({ tasks }) => tasks.map(({ title, items, score }) => `${title} ${score} (${items} items)`))
                  .join(", ")}
                <span class="about">{time}</span>
              </span>
              <span class="row">
                <label class="row">
                  <input
                    {...{ type: "checkbox", checked: chosen.includes(text), onChange: () => toggle(text) }}
                    aria-label={`Compare the version of ${time}`}
                  />
                  Compare
                </label>
                {text === store.text.value ? (
                  <span class="soft">open</span>
                ) : (
                  <Button text="Restore" class="quiet" onClick={() => store.edit(text)} />
                )}
              </span>
            </li>
          );
        })}
      </ul>
      {pair[0] && pair[1] ? <Compared key={chosen.join()} later={pair[0]} earlier={pair[1]} boardOf={boardOf} /> : null}
    </details>
  );
}

interface ComparedProps {
  readonly later: Version;
  readonly earlier: Version;
  readonly boardOf: (text: string) => ReturnType<typeof boardOfText>;
}

const NAMES: [string, string] = ["the earlier version", "the later one"];

/** Two versions: layers that differ, and scores on the same items. */
function Compared({ later, earlier, boardOf }: ComparedProps) {
  const [before, after] = [boardOf(earlier.text), boardOf(later.text)];
  const difference = differenceInWords(before, after);
  const pairs = earlier.results.flatMap((first) =>
    first.tasks.flatMap((task) => {
      const isSame = (other: typeof task) => askSame(other, task);
      const second = later.results.find(({ runner, tasks }) => runner === first.runner && tasks.some(isSame));
      return second ? [{ first, second, task }] : [];
    }),
  );
  const verdicts = useAnswer(
    () =>
      Promise.all(
        pairs.map(async ({ first, second, task }) => {
          const { tasks } = await call("evaluation.compare", { first: first.name, second: second.name, names: NAMES });
          return tasks.find((one) => one.task === task.task)?.comparisons[0]?.verdict ?? "";
        }),
      ),
    [],
  );
  return (
    <section class="stack" aria-label="Two versions compared">
      {difference === "" ? null : <p>{difference}</p>}
      {pairs.length === 0 ? <p class="soft">They were not scored on the same items.</p> : null}
      {verdicts?.map((verdict, i) => (
        <p class="verdict" key={i}>
          {pairs[i]?.task.title}: {verdict}
        </p>
      ))}
      <Versions first={["Earlier", earlier.text]} second={["Later", later.text]} />
    </section>
  );
}
