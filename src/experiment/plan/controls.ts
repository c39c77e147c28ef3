// Controls of layer swaps: merges that show whether any exchange of layers would do.
import { Random, RecipeError } from "../../kit/index.js";
import { checkRecipe, type SwapRecipe, swapOwners } from "../../merge/index.js";
import type { JsonValue } from "../steps/step.js";
import { configurationsOf, withFields } from "./configurations.js";
import type { ControlKind } from "./merge-schema.js";
import type { ExperimentPlan, PlannedMerge } from "./plan-schema.js";

const TITLES: Readonly<Record<ControlKind, string>> = {
  random: "random layers",
  reverse: "reverse swap",
  "into-base": "swap into the base",
  "from-base": "swap from the base",
  itself: "swap with itself",
};

/** Draws that are tried for each one that is wanted: a small model has few sets of layers. */
const TRIES = 100;

export function controlledMerges({ merges, controls }: Pick<ExperimentPlan, "merges" | "controls">): PlannedMerge[] {
  if (!controls) return [];
  const { of } = controls;
  return merges.filter(({ name, recipe }) => recipe?.method === "swap" && (of === undefined || of.includes(name)));
}

/**
 * The merges of a plan, then the controls of its swaps in their default configuration.
 * @param layers of the base; if undefined, there are no random layers
 */
export function mergesOf(plan: ExperimentPlan, layers: number | undefined): readonly PlannedMerge[] {
  const { controls } = plan;
  const added = controlledMerges(plan).flatMap((merge) =>
    (controls?.kinds ?? []).flatMap((kind) => (controls && controlOf(merge, kind, controls, layers)) ?? []),
  );
  return [...plan.merges, ...added];
}

type Controls = NonNullable<ExperimentPlan["controls"]>;

function controlOf(
  merge: PlannedMerge,
  kind: ControlKind,
  controls: Controls,
  layers?: number,
): PlannedMerge | undefined {
  const { fields = {} } = merge.all.find(({ isDefault }) => isDefault) ?? {};
  const { pairs, from, name: of } = merge;
  const made = (recipe: PlannedMerge["recipe"], configurations: PlannedMerge["configurations"]): PlannedMerge => {
    const control = { name: `${TITLES[kind]}, control of ${of}`, pairs, from, recipe, configurations, grid: {} };
    return { ...control, controlOf: of, all: configurationsOf(control) };
  };
  const recipe = merge.recipe ?? {};
  const { task = "", language = "" } = recipe;
  switch (kind) {
    case "reverse":
      return made({ ...recipe, task: language, language: task }, [fields]);
    case "into-base":
      return made({ ...recipe, task: "base" }, [fields]);
    case "from-base":
      return made({ ...recipe, language: "base" }, [fields]);
    case "itself":
      return made({ ...recipe, language: task }, [fields]);
    default: {
      const {
        preset: _p,
        bottom: _b,
        top: _t,
        bottom_transition: _s,
        top_transition: _u,
        ...rest
      } = withFields(recipe, fields);
      const drawn = layers === undefined ? [] : drawLayers(withFields(recipe, fields), layers, controls);
      return drawn.length === 0 ? undefined : made(rest, drawn);
    }
  }
}

/** Other layers, as many as a swap takes, by its fields `layers`; fewer than asked for if there are no more sets. */
function drawLayers(
  recipe: object,
  layers: number,
  { draws, seed }: Controls,
): { layers: Record<string, JsonValue> }[] {
  const owners = ownersOf(recipe, layers);
  const all = owners.map((_, layer) => layer);
  const of = (owner: string) => all.filter((layer) => owners[layer] === owner);
  const [own, averaged] = [of("language"), of("average")];
  const write = (some: readonly number[]) => some.toSorted((a, b) => a - b).join(",");
  const fieldsOf = (taken: readonly number[], mixed: readonly number[]) => ({
    ...(taken.length > 0 ? { language: write(taken) } : {}),
    ...(mixed.length > 0 ? { average: write(mixed) } : {}),
  });
  const random = Random.of(seed, "random layers");
  const seen = new Set([JSON.stringify(fieldsOf(own, averaged))]);
  const drawn: { layers: Record<string, JsonValue> }[] = [];
  for (let tries = 0; drawn.length < draws && tries < draws * TRIES; tries++) {
    const sample = random.sample(all, own.length + averaged.length);
    const fields = fieldsOf(sample.slice(0, own.length), sample.slice(own.length));
    const key = JSON.stringify(fields);
    if (seen.has(key)) continue;
    seen.add(key);
    drawn.push({ layers: fields });
  }
  return drawn;
}

function ownersOf(recipe: object, layers: number): readonly string[] {
  try {
    return swapOwners(checkRecipe(recipe) as SwapRecipe, layers);
  } catch (error) {
    // The plan's check reports it.
    if (error instanceof RecipeError) return [];
    throw error;
  }
}
