// Choose: whose each layer is, by board, form or text; what the plan will read and write.

import { useMemo, useRef } from "preact/hooks";
import { formatBytes, formatCount } from "../../../kit/printing/format.js";
import type { Check } from "../../protocol/index.js";
import { type Board, type Half, recipeOfBoard } from "../../recipe/board.js";
import { Button, Cautions, EmptyView, Facts, Notice } from "../components/basics.js";
import { lazy } from "../components/lazy.js";
import { inputOf, isCurrent, measured, useAnalysis } from "../explorer/analysis-store.js";
import { layerShare } from "../explorer/figures.js";
import { actionOf } from "../keys.js";
import { BoardView, type ShareOf, type Tower } from "../recipe/board-view.js";
import { Heading } from "../recipe/heading.js";
import { History } from "../recipe/history.js";
import { LiveScore } from "../recipe/live-score.js";
import { MethodChoice } from "../recipe/method-choice.js";
import { MethodForm } from "../recipe/method-form.js";
import * as recipe from "../recipe/recipe-store.js";
import { boardOfText, recipeOfText } from "../recipe/recipe-store.js";
import { Preview, previewed, Suggestions } from "../recipe/suggestions.js";
import { attempt, choices, layersOfModels } from "../store.js";

/** The editor is half of the page's script, and only this view has it. */
const LazyEditor = lazy(
  async () => {
    await recipe.whenChecked();
    return (await import("../recipe/editor.js")).RecipeEditor;
  },
  <div class="recipe-editor" aria-busy="true" />,
);

export function Recipe() {
  const towers: readonly Tower[] = choices.value.filter(({ isRecipe }) => !isRecipe);
  const shareOf = useShares();
  if (towers.every(({ own }) => own === "base")) {
    return (
      <EmptyView
        view="Recipe"
        title="No layers to choose from"
        text="Add at least one expert, then say whose each layer is."
        link={["models", "Open models"]}
      />
    );
  }
  return (
    <section class="view recipe-view">
      <Heading towers={towers} />
      {recipe.name.value === null ? (
        <>
          <p class="soft">
            Start from a swap of your experts, or from a suggestion. You can change every layer afterwards.
          </p>
          <Preview towers={towers} board={undefined} shareOf={shareOf} />
          <Suggestions towers={towers} />
        </>
      ) : recipe.isLoaded.value ? (
        <Opened towers={towers} shareOf={shareOf} />
      ) : (
        <p class="soft">Loading…</p>
      )}
    </section>
  );
}

function Opened({ towers, shareOf }: { towers: readonly Tower[]; shareOf: ShareOf }) {
  const check = recipe.check.value;
  const text = recipe.text.value;
  const plan = check?.plan ?? null;
  const layers = plan?.layers ?? layersOfModels(towers.map(({ source }) => source));
  const read = useMemo(() => recipeOfText(text), [text]);
  const made = useMemo(() => boardOfText(read, layers, plan?.defaults), [read, layers, plan]);
  const name = recipe.name.value;
  const isKnown = recipe.methods.value.some((one) => one.name === read?.method);
  // While a line is being typed, or a field is not one of the method, board, method and plan stay those of the text before.
  const latest = useRef({ name, value: read, board: made, plan });
  const before = latest.current.name === name ? latest.current : undefined;
  const isBroken = !read || !isKnown || (made === undefined && !(plan && !recipe.isChecking.value));
  const isSame = before?.board !== undefined && (!read || !isKnown || read.method === before.value?.method);
  const value = isKnown || !before ? read : before.value;
  const board = isBroken && isSame ? before.board : made;
  latest.current = { name, value, board, plan: plan ?? before?.plan ?? null };
  // Until the models are known, what a board or the fields take stays free.
  const isWaiting = !board && latest.current.plan === null && (check?.problems.length ?? 0) === 0;
  const method = recipe.methods.value.find((one) => one.name === value?.method);
  const named = board ? allTowers(towers, board) : towers;
  const onKeyDown = (event: KeyboardEvent) => {
    const action = event.target instanceof HTMLInputElement ? undefined : actionOf("Recipe", event);
    if (!action) return;
    event.preventDefault();
    if (action === "undo") recipe.undo();
    else recipe.redo();
  };
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys are those of the buttons Undo and Redo
    <div class="recipe-grid" onKeyDown={onKeyDown}>
      <div class={board === made ? "stack" : "stack dimmed"}>
        <MethodChoice method={method} towers={towers} layers={layers} isBoard={board !== undefined} />
        {previewed.value ? (
          <Preview {...{ towers, board, shareOf }} />
        ) : board ? (
          <BoardView
            board={board}
            towers={named}
            shareOf={shareOf}
            onChange={(next) => recipe.writeRecipe(recipeOfBoard(next))}
          />
        ) : latest.current.plan ? (
          <p class="soft">This method decides what all {layers} layers take from its models; its fields say how.</p>
        ) : isWaiting ? (
          <p class="board-waits soft">Opening the models…</p>
        ) : null}
        {name === null ? null : (
          <>
            <LiveScore key={name} recipe={name} />
            <History key={`history ${name}`} recipe={name} {...{ layers, defaults: plan?.defaults, towers: named }} />
          </>
        )}
        {method && value ? (
          <details open={!(board || isWaiting) || (check?.problems.length ?? 0) > 0}>
            <summary>Fields of {method.title}</summary>
            <p class="soft">{method.summary}</p>
            <MethodForm {...{ method, recipe: value, models: towers, problems: check?.problems ?? [] }} />
          </details>
        ) : null}
      </div>
      <div class="stack recipe-side">
        <LazyEditor
          text={recipe.text.value}
          revision={recipe.revision.value}
          problems={check?.problems ?? []}
          methods={recipe.methods.value}
          sources={towers.map(({ source }) => source)}
          onChange={(text) => recipe.edit(text, true)}
        />
        {read && "merge_method" in read ? (
          <Notice kind="caution" text="This is a mergekit configuration.">
            <Button
              text="Convert to a recipe"
              onClick={() => attempt(async () => recipe.edit(await recipe.recipeOfMergekit(recipe.text.peek())))}
            />
          </Notice>
        ) : (
          <Problems />
        )}
        <PlanFigures plan={latest.current.plan} isOld={plan === null} />
        <Suggestions towers={towers} />
      </div>
    </div>
  );
}

type Plan = NonNullable<Check["plan"]>;

const ATTENTION = /^(q|k|v|qkv|o)$/;

/** Shares of changed rows, each expert's at its own threshold, where they were measured of the models as they are. */
function useShares() {
  const job = measured.value.find(isCurrent);
  const data = useAnalysis(job?.id);
  const steps = data?.marks[0]?.steps ?? [];
  const places = new Map(inputOf(job)?.experts.map(({ source, name }) => [source, data?.experts.indexOf(name) ?? -1]));
  return (source: string, layer: number, half: Half | undefined) => {
    const expert = places.get(source) ?? -1;
    const isWanted = (column: string) => half === undefined || ATTENTION.test(column) === (half === "attention");
    return data && expert >= 0 ? layerShare(data, expert, layer, steps, isWanted) : null;
  };
}

/** The project's models, and those that only the recipe names. */
function allTowers(towers: readonly Tower[], board: Board): readonly Tower[] {
  const used = new Set([...board.rows.flatMap(({ attention, mlp }) => [...attention, ...mlp]), ...board.outside]);
  const foreign = [...used].filter((source) => !towers.some((tower) => tower.source === source));
  return [...towers, ...foreign.map((source, i) => ({ source, name: source, own: towers.length + i }))];
}

function Problems() {
  const problems = recipe.check.value?.problems ?? [];
  if (problems.length === 0) return null;
  return (
    <ul class="problems" aria-live="polite">
      {problems.map(recipe.problemText).map((text) => (
        <li key={text} class="problem">
          {text}
        </li>
      ))}
    </ul>
  );
}

/** @param isOld whether it is of the last version that could be planned */
function PlanFigures({ plan, isOld }: { plan: Plan | null; isOld: boolean }) {
  if (!plan) return null;
  const facts: [string, string][] = [
    ["Result", `${formatCount(plan.parameters)} parameters, ${formatBytes(plan.bytesToWrite)}`],
    [
      "Reads",
      formatBytes(plan.bytesToRead) + (plan.bytesToFetch > 0 ? `, ${formatBytes(plan.bytesToFetch)} from the hub` : ""),
    ],
    ["Copied", `${plan.copied} of ${plan.tensors} tensors, bit for bit`],
    ["Memory", `at most ${formatBytes(plan.memory)} of buffers`],
  ];
  return (
    <div class={`card stack ${isOld ? "dimmed" : ""}`}>
      <h2>Plan</h2>
      {isOld ? <p class="soft">Of the last version without problems.</p> : null}
      <Facts facts={facts} />
      <Cautions texts={isOld ? [] : plan.notes} />
    </div>
  );
}
