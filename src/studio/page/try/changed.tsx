// What tells the recipes of two results apart.
import { presetLayers } from "../../../merge/layer-owner.js";
import { differenceInWords } from "../../recipe/board.js";
import { Versions } from "../components/different.js";
import { boardOfText, recipeOfText } from "../recipe/recipe-store.js";
import { choices, layersOfModels } from "../store.js";
import type { ResultRow } from "./results.js";

/** Layers that differ in words, and both recipes side by side; nothing where one of them is not a recipe. */
export function Changed({ pair: [first, second] }: { pair: readonly [ResultRow, ResultRow] }) {
  if (first.recipe === null || second.recipe === null) return null;
  if (first.recipe === second.recipe) return <p class="soft">Both are of the same recipe.</p>;
  const layers = layersOfModels(choices.value.flatMap(({ source, isRecipe }) => (isRecipe ? [] : [source])));
  const boardOf = (text: string) =>
    boardOfText(recipeOfText(text), layers, layers > 1 ? presetLayers(layers) : undefined);
  const difference = differenceInWords(boardOf(first.recipe), boardOf(second.recipe));
  return (
    <details class="changed">
      <summary>What changed between them {difference === "" ? null : <span class="soft">{difference}</span>}</summary>
      <Versions first={[first.label, first.recipe]} second={[second.label, second.recipe]} />
    </details>
  );
}
