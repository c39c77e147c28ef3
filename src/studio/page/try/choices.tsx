// The models that Try runs, in prompts and evaluations alike.

import { computed, signal } from "@preact/signals";
import { recipeSource } from "../../protocol/index.js";
import { ownClass } from "../components/basics.js";
import { ModelCheck } from "../components/grid.js";
import { type Choice, cardOf, choices, settings } from "../store.js";

/** Choices against the default, which is the models and the open recipe. */
const changed = signal<ReadonlySet<string>>(new Set());
const isDefault = ({ source, isRecipe }: Choice) => !isRecipe || source === recipeSource(settings.value?.recipe ?? "");
const isChosen = (one: Choice) => problemOf(one) === undefined && isDefault(one) !== changed.value.has(one.name);
/** Why a model cannot be run. */
function problemOf({ source }: Choice): string | undefined {
  const card = cardOf(source);
  return typeof card === "string" ? card : undefined;
}
export const chosen = computed(() => choices.value.filter(isChosen));

function toggle({ name }: Choice): void {
  const next = new Set(changed.value);
  if (!next.delete(name)) next.add(name);
  changed.value = next;
}

export function ModelList() {
  return (
    <fieldset class="model-list">
      <legend class="label">Models</legend>
      {choices.value.map((one) => (
        <ModelCheck
          key={one.name}
          {...{ name: one.name, own: ownClass(one.own), isChecked: isChosen(one), problem: problemOf(one) }}
          onChange={() => toggle(one)}
        />
      ))}
    </fieldset>
  );
}
