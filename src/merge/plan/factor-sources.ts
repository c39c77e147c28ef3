// The factors of adapters as the tensors of models, for methods that merge each factor as PEFT does
// (https://huggingface.co/docs/peft, `add_weighted_adapter`).

import {
  type Checkpoint,
  type CheckpointTensor,
  factorNames,
  factorOf,
  zeroRows,
} from "../../formats/checkpoint/index.js";
import { MismatchError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { methodOf, type Recipe, sourcesOf } from "../recipe/recipe.js";

type Delta = NonNullable<CheckpointTensor["lowRank"]>;

/** Whether a recipe merges the factors of adapters and not their products: an adapter that no merge of weights equals. */
export function isOnFactors(recipe: Recipe): boolean {
  return recipe.as === "adapter" && methodOf(recipe).onFactors === true;
}

/** The changed modules, by the name of the base's tensor, each with the factors of the first model that changes it. */
export function changedModules(models: readonly Checkpoint[]): Map<string, Delta> {
  const found = new Map<string, Delta>();
  for (const { adapter } of models) {
    for (const [tensor, delta] of adapter?.deltas ?? []) {
      if (adapter && !found.has(tensor)) found.set(tensor, { ...delta, file: adapter.file });
    }
  }
  return found;
}

/**
 * The sources of a recipe with the factors A [rank, in] and B [out, rank] in the place of the tensors that they change,
 * and the tensors that an adapter saves whole. Factors that a model does not have are zero.
 * @throws MismatchError if a source is a recipe, the factors of a module differ in rank or scale, or one saves it whole
 */
export function factorSources(recipe: Recipe, sources: ReadonlyMap<string, Checkpoint>): Map<string, Checkpoint> {
  const { title } = methodOf(recipe);
  const inner = sourcesOf(recipe).find(({ source }) => typeof source !== "string");
  const fail = (problem: string) => {
    return new MismatchError(`${title} of adapters merges their factors, as PEFT does:`, [problem]);
  };
  if (inner) throw fail(`${inner.label} is a recipe; write it with as: adapter first`);
  const models = [...sources.values()];
  const changed = changedModules(models);
  const saved = new Set(models.flatMap(({ adapter }) => [...(adapter?.replacements.keys() ?? [])]));
  const both = [...changed.keys()].filter((tensor) => saved.has(tensor));
  if (both.length > 0) {
    throw fail(`${formatSome(both)} is adapted by one and saved whole by another; merge without as: adapter`);
  }
  for (const what of ["rank", "scale", "transposed"] as const) {
    const differing = [...changed].flatMap(([tensor, delta]) => {
      const other = models.find(({ adapter }) => (adapter?.deltas.get(tensor)?.[what] ?? delta[what]) !== delta[what]);
      return other ? [{ tensor, values: [delta[what], other.adapter?.deltas.get(tensor)?.[what]] }] : [];
    });
    const [first] = differing;
    if (!first) continue;
    const name = { rank: "rank", scale: "scale (lora_alpha / r)", transposed: "fan_in_fan_out" }[what];
    throw fail(
      `the factors of ${formatSome(differing.map(({ tensor }) => tensor))} differ in ${name}, ${first.values.join(" and ")}; use soup or task_arithmetic, which join factors, or merge without as: adapter and use layergraft extract`,
    );
  }
  return new Map([...sources].map(([label, model]) => [label, withFactors(model, changed, saved)]));
}

function withFactors(model: Checkpoint, changed: ReadonlyMap<string, Delta>, saved: ReadonlySet<string>): Checkpoint {
  const tensors = new Map<string, CheckpointTensor>();
  for (const [name, tensor] of model.tensors) {
    const delta = changed.get(name);
    if (!delta) {
      if (saved.has(name)) tensors.set(name, tensor);
      continue;
    }
    const { layer, part, lowRank = delta } = tensor;
    const names = factorNames({
      module: name.replace(/\.weight$/, ""),
      isEmbedding: factorOf(delta.a.name)?.isEmbedding === true,
    });
    for (const side of ["a", "b"] as const) {
      const factor = { ...lowRank[side], name: names[side], layer, part, file: lowRank.file };
      tensors.set(names[side], tensor.lowRank ? factor : zeroRows(factor));
    }
  }
  return { ...model, tensors };
}
