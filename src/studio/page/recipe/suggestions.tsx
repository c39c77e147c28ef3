// Recipes to start from, grouped by the evidence behind them; each is shown on the board before it is used.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { stringify } from "yaml";
import type { Suggestion } from "../../protocol/index.js";
import { type Board, describeBoard, differenceOf } from "../../recipe/board.js";
import { Button } from "../components/basics.js";
import { settings } from "../store.js";
import { BoardView, type ShareOf, type Tower } from "./board-view.js";
import { JobOutcome } from "./outcome.js";
import { create, recipeOfText, text } from "./recipe-store.js";
import { Roles } from "./roles.js";
import { type Suggested, useSuggested } from "./suggested.js";
import { Thumbnail } from "./thumbnail.js";

const EVIDENCE: Readonly<Record<Suggestion["evidence"], string>> = {
  changes: "From where these experts changed",
  texts: "From how alike they represent texts",
  published: "From papers, scaled to these layers",
};

/** What the board shows in place of the recipe; null: nothing. */
export const previewed = signal<Suggested | null>(null);
const back = () => {
  previewed.value = null;
};

export function Suggestions({ towers }: { towers: readonly Tower[] }) {
  const { base = null, experts = [], live = null } = settings.value ?? {};
  const [chosen, setRoles] = useState<readonly [number, number] | null>(null);
  const opened = recipeOfText(text.value);
  const [ofTask, ofLanguage] = [opened?.task, opened?.language].map((source) =>
    experts.findIndex((one) => one.source === source),
  ) as [number, number];
  const [first, second] = chosen ?? (ofTask < 0 || ofLanguage < 0 ? [0, 1] : [ofTask, ofLanguage]);
  const [task, language] = [experts[first], experts[second]];
  const { job, isDone, found, scoredOn, ask: suggest } = useSuggested(task, language);
  useEffect(() => back, []);
  if (base === null || !task || !language) return null;
  const ask = () => suggest(live ?? undefined);
  const shown = isDone ? (found ?? []) : [];
  const ofEvidence = (kind: string) => shown.filter(({ evidence }) => evidence === kind);
  const lists: Readonly<Record<string, readonly Suggested[]>> = scoredOn
    ? { "The best first": shown }
    : Object.fromEntries(Object.entries(EVIDENCE).map(([kind, title]) => [title, ofEvidence(kind)]));
  return (
    <div class="card stack">
      <h2>Suggestions</h2>
      <Roles experts={experts} roles={[first, second]} onChange={setRoles} />
      {job ? <JobOutcome job={job} /> : null}
      {(isDone && found?.length !== 0) || job?.state === "running" ? null : (
        <>
          <p class="soft">
            Measures where both changed, and proposes merges to try.
            {live ? " Each is scored on the items of the live score." : ""}
          </p>
          <div class="row">
            <Button text="Suggest recipes" onClick={ask} />
          </div>
        </>
      )}
      {isDone && shown.length > 0 ? (
        <div class="row">
          {scoredOn && (live === null || (scoredOn.task === live.task && scoredOn.limit === live.limit)) ? (
            <p class="small soft">
              Scores on the first {scoredOn.limit} items of {scoredOn.task}. The best of {shown.length} is chosen by
              them, so its score is optimistic.
            </p>
          ) : live === null ? (
            <p class="small soft">Score every version, under Live score, to have these scored on the same items.</p>
          ) : (
            <Button text="Score them on the live score's items" onClick={ask} />
          )}
        </div>
      ) : null}
      {Object.entries(lists).map(([title, listed]) =>
        listed.length === 0 ? null : (
          <section class="stack tight" key={title} aria-label={title}>
            <h3>{title}</h3>
            <ul class="versions-list">
              {listed.map((one) => (
                <li key={one.name}>
                  <Thumbnail board={one.owners} towers={towers} />
                  <span>
                    {one.score ? <strong class="numeric">{one.score.score} </strong> : null}
                    {one.title}
                    <span class="about">
                      {one.score ? `95% interval ${one.score.interval}; ` : ""}
                      {one.problem ?? one.reason}
                    </span>
                  </span>
                  <Button
                    text="Preview"
                    class="quiet"
                    aria-pressed={previewed.value?.name === one.name}
                    aria-label={`Preview ${one.title}`}
                    onClick={() => (previewed.value = one)}
                  />
                </li>
              ))}
            </ul>
          </section>
        ),
      )}
    </div>
  );
}

interface PreviewProps {
  readonly towers: readonly Tower[];
  /** Of the open recipe. */
  readonly board: Board | undefined;
  readonly shareOf: ShareOf;
}

/** A suggestion on the board, which is used or put back. */
export function Preview({ towers, board, shareOf }: PreviewProps) {
  const shown = previewed.value;
  if (!shown) return null;
  const { name, title, reference, owners, recipe } = shown;
  const nameOf = (source: string) => towers.find((tower) => tower.source === source)?.name ?? source;
  const differing = board && differenceOf(board, owners);
  const use = () => {
    back();
    void create(name, stringify(recipe));
  };
  return (
    <section class="stack" aria-label={`Preview of ${title}`}>
      <div class="notice">
        <div class="stack tight">
          <strong>Preview of {title}</strong>
          <span>{describeBoard(owners, nameOf)}</span>
          {board === undefined ? null : (
            <span>
              {differing === ""
                ? "The layers are those of the open recipe."
                : `Differs from the open recipe in ${differing}.`}
            </span>
          )}
          <span class="about">{reference}</span>
        </div>
        <div class="row">
          <Button text="Use" class="primary" onClick={use} />
          <Button text="Back" onClick={back} />
        </div>
      </div>
      <BoardView board={owners} onChange={undefined} {...{ towers, shareOf }} />
    </section>
  );
}
