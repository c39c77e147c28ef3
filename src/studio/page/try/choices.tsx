// What Try runs, in prompts and evaluations alike: models, and what runs them.

import { computed, signal } from "@preact/signals";
import { GGUF_TYPES, type Runner, recipeSource } from "../../protocol/index.js";
import { ownClass } from "../components/basics.js";
import { ModelCheck } from "../components/grid.js";
import { Select } from "../components/inputs.js";
import { known } from "../components/task-fields.js";
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

export const runner = signal<Runner>({ backend: "engine" });

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

/** `engine`, `llama, q8_0`. */
export const runnerText = (one: Runner) => (one.backend === "engine" ? one.backend : `llama, ${one.type}`);

export function RunnerFields() {
  const now = runner.value;
  const missing = known.value?.llama ?? null;
  const onBackend = (backend: Runner["backend"]) => {
    runner.value = backend === "llama" ? { backend: "llama", type: "q8_0" } : { backend: "engine" };
  };
  return (
    <>
      <Select
        {...{ label: "Backend", hint: missing ?? undefined, value: now.backend, onChange: onBackend }}
        options={missing === null ? ["engine", ["llama", "llama (llama.cpp)"]] : ["engine"]}
      />
      {now.backend === "engine" ? null : (
        <Select
          label="Type"
          options={GGUF_TYPES}
          value={now.type}
          onChange={(type) => (runner.value = { backend: "llama", type })}
        />
      )}
    </>
  );
}
