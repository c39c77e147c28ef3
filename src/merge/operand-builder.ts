// Opens the sources of recipes and makes operands of them: checkpoints as they are, recipes by their methods, the nested
// ones first. Collects on the way what the methods ask to be measured, and what a person should know.
import { type Checkpoint, openCheckpoint } from "../checkpoint/checkpoint.js";
import { type Labelled, requireCompatible } from "../checkpoint/compatibility.js";
import { RecipeError } from "../core/errors.js";
import { planSoupTensors } from "./methods/soup.js";
import { planSwapTensors } from "./methods/swap.js";
import type { Operand, OperandTensor, PlanContext } from "./operand.js";
import type { Measurement } from "./plan.js";
import type { MergeRecipe, SourceRecipe } from "./recipe.js";

/** The direct sources of a recipe by their label; `base` where it is given. */
function directSources(recipe: MergeRecipe): [label: string, source: SourceRecipe][] {
  const named: [string, SourceRecipe][] =
    recipe.method === "swap"
      ? [
          ["task", recipe.task],
          ["language", recipe.language],
        ]
      : recipe.models.map((model, i) => [`models[${i}]`, typeof model === "string" ? model : model.model]);
  return recipe.base === undefined ? named : [...named, ["base", recipe.base]];
}

export class OperandBuilder implements PlanContext {
  /** Opened checkpoints by label, which is their path within the recipe. */
  readonly sources = new Map<string, Checkpoint>();
  /** By id, in the order in which they must be made. */
  readonly measurements = new Map<string, Measurement>();
  readonly notes: string[] = [];
  readonly folder: string;

  /** @param folder folder that relative paths start from */
  constructor(folder: string) {
    this.folder = folder;
  }

  note(text: string): void {
    if (!this.notes.includes(text)) this.notes.push(text);
  }

  inverseMagnitude(expert: Operand, base: Operand): { inverse: string } {
    const id = `magnitude of ${expert.label} against ${base.label}`;
    if (!this.measurements.has(id)) {
      const tensors = [...expert.tensors].map(([tensor, { shape, value }]) => {
        const from = base.tensors.get(tensor)?.value;
        if (!from || !("source" in from))
          throw new RecipeError("the base must be a checkpoint, not a recipe", [], { field: "base" });
        return { tensor, shape, value, base: from };
      });
      this.measurements.set(id, { id, kind: "magnitude", expert: expert.label, tensors });
    }
    return { inverse: id };
  }

  /** Opens a source, a checkpoint or all those of a recipe. */
  async open(source: SourceRecipe, label: string, folder = this.folder): Promise<void> {
    if (typeof source !== "string") return this.openAll(source, `${label}.`, folder);
    this.sources.set(label, await openCheckpoint(source, { base: folder }));
  }

  /** @throws {MismatchError} if the checkpoints opened so far do not fit together */
  requireCompatible(): void {
    const labelled = [...this.sources].map(([label, checkpoint]): Labelled => ({ label, checkpoint }));
    requireCompatible(labelled);
    for (const { label, checkpoint } of labelled) for (const note of checkpoint.notes) this.note(`${label}: ${note}`);
  }

  /** Opens every checkpoint of a recipe and of the recipes inside it; labels are paths within the recipe. */
  async openAll(recipe: MergeRecipe, prefix: string, folder = this.folder): Promise<void> {
    for (const [name, source] of directSources(recipe)) await this.open(source, `${prefix}${name}`, folder);
  }

  /** The operand that a recipe makes. */
  merge(recipe: MergeRecipe, prefix: string): Operand {
    const operands = new Map(
      directSources(recipe).map(([name, source]) => [name, this.operand(source, `${prefix}${name}`)] as const),
    );
    const get = (name: string) => operands.get(name) as Operand;
    const base = operands.get("base");
    const lead = recipe.method === "swap" ? get("task") : get("models[0]");
    const tensors =
      recipe.method === "swap"
        ? planSwapTensors(recipe, { task: get("task"), language: get("language"), ...(base ? { base } : {}) }, this)
        : planSoupTensors(
            recipe,
            { models: recipe.models.map((_, i) => get(`models[${i}]`)), ...(base ? { base } : {}) },
            this,
          );
    return { label: prefix.replace(/\.$/, ""), layers: lead.layers, tensors, lead: lead.lead };
  }

  operand(source: SourceRecipe, label: string): Operand {
    if (typeof source !== "string") return this.merge(source, `${label}.`);
    const checkpoint = this.sources.get(label) as Checkpoint;
    const tensors = [...checkpoint.tensors.values()].map(
      ({ name, dtype, shape, layer, part }): [string, OperandTensor] => [
        name,
        { dtype, shape, layer, part, origin: [label], value: { source: label, tensor: name } },
      ],
    );
    return { label, layers: checkpoint.layers, tensors: new Map(tensors), lead: { id: label, checkpoint } };
  }
}
