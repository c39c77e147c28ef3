// A new swap: its experts, and layers from the paper's default or from where these experts changed, side by side.
import { useState } from "preact/hooks";
import { stringify } from "yaml";
import { PAPER_DEPTH, presetLayers, profileLayers } from "../../../merge/layer-owner.js";
import type { Analysis, Score } from "../../protocol/index.js";
import { boardOfRecipe, describeBoard, type RecipeValue, rangesOf } from "../../recipe/board.js";
import { Button, Dialog } from "../components/basics.js";
import { Interval } from "../components/interval.js";
import { useTask } from "../components/task-fields.js";
import { inputOf, isCurrent, measured, useAnalysis } from "../explorer/analysis-store.js";
import { layersOfModels, settings } from "../store.js";
import type { Tower } from "./board-view.js";
import { JobOutcome } from "./outcome.js";
import { Roles } from "./roles.js";
import { useSuggested } from "./suggested.js";
import { Thumbnail } from "./thumbnail.js";

/** Enough to see large differences, few enough to take seconds. */
const ITEMS = 50;

interface Props {
  readonly experts: readonly Tower[];
  readonly onMake: (text: string) => void;
  readonly onClose: () => void;
}

export function NewRecipe({ experts, onMake, onClose }: Props) {
  const [roles, setRoles] = useState<readonly [number, number]>([0, 1]);
  const [picked, pick] = useState<string | null>(null);
  const asked = useTask(settings.value?.live?.task);
  const [task, language] = roles.map((at) => experts[at]) as [Tower, Tower];
  const job = measured.value.find(isCurrent);
  const data = useAnalysis(job?.id);
  const places = [task, language].map(
    ({ source }) => data?.experts.indexOf(inputOf(job)?.experts.find((one) => one.source === source)?.name ?? "") ?? -1,
  );
  const found = data && !places.includes(-1) ? changedMore(data, places[1] ?? 0, places[0] ?? 0) : undefined;
  const layers = data?.layers ?? layersOfModels(experts.map(({ source }) => source));
  const swap = { method: "swap", task: task.source, language: language.source };
  const counts = presetLayers(Math.max(2, layers));
  const ways = [
    ...(found && found.length > 0
      ? [
          {
            name: "Where these experts changed",
            suggestion: "profile",
            why: `The layers in which ${language.name} has more of its change than ${task.name} has of its own.`,
            recipe: { ...swap, layers: { language: rangesOf(found) } },
          },
        ]
      : []),
    {
      name: "The paper's default",
      suggestion: "paper-default",
      why: `${layers === PAPER_DEPTH ? "5 layers at the input and 2 at the output" : `5 layers at the input and 2 at the output of ${PAPER_DEPTH}, in proportion`}, whatever these experts changed.`,
      recipe: swap,
    },
  ];
  const chosen = ways.length === 1 ? ways[0] : ways.find(({ name }) => name === picked);
  const { job: scoring, found: suggested = [], scoredOn, ask } = useSuggested(task, language);
  const make = () => {
    if (!chosen) return;
    onMake(stringify(chosen.recipe));
    onClose();
  };
  return (
    <Dialog
      title="New recipe"
      onClose={onClose}
      footer={<Button text="Make the recipe" class="primary" disabled={!chosen} onClick={make} />}
    >
      <div class="stack">
        <p class="soft">The language expert gives some layers, the task expert the others.</p>
        <Roles experts={experts} roles={roles} onChange={setRoles} />
        <fieldset class="starts" aria-label="Which layers">
          {ways.map((way) => (
            <Way
              key={way.name}
              {...{ ...way, towers: experts, layers, counts, isChosen: way === chosen }}
              score={suggested.find((one) => one.name === way.suggestion)?.score}
              onChoose={() => pick(way.name)}
            />
          ))}
        </fieldset>
        {ways.length > 1 ? (
          <>
            <p class="soft small">
              {scoredOn && suggested.length > 0
                ? `Scores on the first ${scoredOn.limit} items of ${scoredOn.task}. Where the intervals overlap, they may differ by chance.`
                : "None is chosen for you: where experts changed does not say which layers score higher. On the example, the paper's default scores higher. Score them, with all suggestions, on your task; or choose one and change it later."}
            </p>
            {scoring?.state === "running" ? <JobOutcome job={scoring} /> : null}
            {scoredOn || scoring?.state === "running" ? null : (
              <div class="score-ways">
                {asked.choice}
                <Button
                  text={`Score them on ${ITEMS} items`}
                  disabled={asked.task === null}
                  onClick={() => asked.task && ask({ task: asked.task, limit: ITEMS })}
                />
              </div>
            )}
          </>
        ) : (
          <p class="soft small">
            <a href="#/changes">Measure the changes</a> to start from where these experts changed.
          </p>
        )}
      </div>
    </Dialog>
  );
}

interface WayProps {
  readonly name: string;
  readonly why: string;
  readonly recipe: RecipeValue;
  readonly towers: readonly Tower[];
  readonly layers: number;
  readonly counts: { readonly bottom: number; readonly top: number };
  readonly isChosen: boolean;
  readonly score: Score | undefined;
  readonly onChoose: () => void;
}

function Way({ name, why, recipe, towers, layers, counts, isChosen, score, onChoose }: WayProps) {
  const board = boardOfRecipe(recipe, layers, counts);
  const nameOf = (source: string) => towers.find((tower) => tower.source === source)?.name ?? source;
  return (
    <label class={`card row ${isChosen ? "chosen" : ""}`}>
      <input type="radio" name="layers" checked={isChosen} onChange={onChoose} />
      {board ? <Thumbnail {...{ board, towers }} /> : null}
      <span>
        {name}
        <span class="about">{why}</span>
        {board && layers > 0 ? <span class="about">{describeBoard(board, nameOf)}</span> : null}
        {score ? (
          <span class="own-merge scored">
            <strong class="numeric">{score.score}</strong> <span class="soft numeric">{score.interval}</span>
            <Interval score={score} axis={{ low: 0, high: 1, ticks: ["0", "50", "100"] }} />
          </span>
        ) : null}
      </span>
    </label>
  );
}

/** Layers in which an expert has more of its change than another has of its own: the rule of the suggestion `profile`. */
function changedMore(data: Analysis, of: number, over: number): number[] {
  const [own = [], other = []] = [of, over].map((expert) =>
    (data.cells[expert] ?? []).map((cells) => Math.hypot(...cells.map((cell) => cell?.relative ?? 0))),
  );
  return profileLayers(own, other);
}
