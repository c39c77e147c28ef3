// Opens the sources of recipes and builds operands from them. Collects measurements and notes on the way.

import { groupBy, RecipeError } from "../../core/index.js";
import type { Measurement } from "../../values/index.js";
import { childrenOf, isLeaf, type Value } from "../../values/index.js";
import {
  type Alignment,
  alignVocabularies,
  type Checkpoint,
  compareVocabularies,
  type HubAccess,
  type Labelled,
  openCheckpoint,
  requireCompatible,
} from "../../weights/index.js";
import type { NestedRecipe, SourceRecipe } from "../methods/fields.js";
import { type Operand, type OperandTensor, type PlanContext, requireSameShape } from "../methods/operand.js";
import { isListField, type MergeRecipe, methodOf, sourcesOf } from "./recipe.js";
import { pathOf } from "./relatedness.js";

/** A checked recipe. */
type AnyRecipe = MergeRecipe | NestedRecipe;

/** The place of a source in the recipe. */
interface Place {
  /** Path of its recipe within the whole recipe, such as `task.`; empty at the top. */
  readonly recipe?: string;
  /** The recipe's field that names it, such as `models`. */
  readonly field?: string;
  readonly isBase?: boolean | undefined;
}

export class OperandBuilder implements PlanContext {
  /** Opened checkpoints by label, which is their path within the recipe. */
  readonly sources = new Map<string, Checkpoint>();
  /** By id. */
  readonly measurements = new Map<string, Measurement>();
  readonly notes: string[] = [];
  readonly folder: string;
  /** Opened checkpoints by source; slices of one model open it once. */
  readonly #opened = new Map<string, Checkpoint>();
  readonly #places = new Map<string, Place>();

  readonly #hub: HubAccess | undefined;
  readonly #known: ReadonlyMap<string, Checkpoint> | undefined;

  /**
   * @param folder folder that relative paths start from
   * @param known checkpoints that are open already, by source
   */
  constructor(folder: string, hub?: HubAccess, known?: ReadonlyMap<string, Checkpoint>) {
    this.folder = folder;
    this.#hub = hub;
    this.#known = known;
  }

  note(text: string): void {
    if (!this.notes.includes(text)) this.notes.push(text);
  }

  measure(measurement: Measurement): { measured: string } {
    if (!this.measurements.has(measurement.id)) this.measurements.set(measurement.id, measurement);
    return { measured: measurement.id };
  }

  /** Opens a checkpoint, or all checkpoints of a recipe. */
  async open(source: SourceRecipe, label: string, place: Place = {}): Promise<void> {
    if (typeof source !== "string") return this.openAll(source, `${label}.`, place.isBase);
    this.#places.set(label, place);
    const checkpoint =
      this.#known?.get(source) ??
      this.#opened.get(source) ??
      (await openCheckpoint(source, { base: this.folder, hub: this.#hub }));
    this.#opened.set(source, checkpoint);
    this.sources.set(label, checkpoint);
  }

  /**
   * @param vocabulary `union`, or the label of the source whose vocabulary the others are brought to
   * @throws MismatchError if the checkpoints opened so far do not fit together
   */
  async requireCompatible(vocabulary?: string, purpose = "merged"): Promise<Alignment | undefined> {
    const alignment = vocabulary === undefined ? undefined : await alignVocabularies(this.sources, vocabulary);
    for (const [label, checkpoint] of alignment?.checkpoints ?? []) this.sources.set(label, checkpoint);
    for (const note of alignment?.notes ?? []) this.note(note);
    const labelled = [...this.sources].map(([label, checkpoint]): Labelled => ({ label, checkpoint }));
    const differences = alignment ? { problems: [], notes: [] } : await compareVocabularies(labelled);
    requireCompatible(labelled, differences.problems, purpose);
    for (const note of differences.notes) this.note(note);
    for (const { label, checkpoint } of labelled) for (const note of checkpoint.notes) this.note(`${label}: ${note}`);
    return alignment;
  }

  /** Opens every checkpoint of a recipe and of the recipes inside it; labels are paths within the recipe. */
  async openAll(recipe: AnyRecipe, prefix: string, isWithinBase = false): Promise<void> {
    for (const [name, source, [field]] of sourcesOf(recipe)) {
      const isBase = isWithinBase || field === "base";
      await this.open(source, `${prefix}${name}`, { recipe: prefix, field: String(field), isBase });
    }
  }

  /** Whether a source is only a base for changes and not merged itself. */
  isBase(label: string): boolean {
    return this.#places.get(label)?.isBase === true;
  }

  /** Groups of labels in one recipe that are the same model. Slices do not count. */
  duplicates(): string[][] {
    const models = [...this.sources].filter(([label]) => this.#places.get(label)?.field !== "slices");
    const groups = groupBy(models, ([label, source]) => `${this.#places.get(label)?.recipe} ${pathOf(source)}`);
    return [...groups.values()].flatMap((group) => (group.length > 1 ? [group.map(([label]) => label)] : []));
  }

  merge(recipe: AnyRecipe, prefix: string): Operand {
    const direct = sourcesOf(recipe);
    const operands = new Map(direct.map(([name, source]) => [name, this.operand(source, `${prefix}${name}`)] as const));
    const [lead] = operands.values();
    if (!lead) throw new Error("a recipe needs at least one source");
    const method = methodOf(recipe);
    // Slices are stacked; all other sources are combined layer by layer.
    if (!("slices" in recipe)) requireSameShape([...operands.values()]);
    const get = (field: string): Operand => operands.get(field) as Operand;
    const models = direct.flatMap(([name, , [field]]) => (isListField(field) ? [get(name)] : []));
    const made = withPath(prefix, () => method.tensors(recipe, { get, models, base: operands.get("base") }, this));
    const { tensors, layerOrder } = made instanceof Map ? { tensors: made, layerOrder: lead.layerOrder } : made;
    const layers = layerOrder?.length ?? lead.layers;
    if (layers > MAX_LAYERS)
      throw new RecipeError(`${prefix || "the recipe"} makes ${layers} layers, more than any model has`);
    for (const [name, { value }] of tensors) {
      if (countLeaves(value) > MAX_LEAVES) {
        throw RecipeError.at(
          { tensor: name },
          `${prefix || "the recipe"} makes ${name} of more than ${MAX_LEAVES} tensors, as recipes within recipes multiply; write one part to a folder first`,
        );
      }
    }
    return { label: prefix.replace(/\.$/, ""), layers, tensors, layerOrder, lead: lead.lead };
  }

  operand(source: SourceRecipe, label: string): Operand {
    if (typeof source !== "string") return this.merge(source, `${label}.`);
    const checkpoint = this.sources.get(label) as Checkpoint;
    const tensors = [...checkpoint.tensors.values()].map(
      ({ name, dtype, shape, layer, part, transposed }): [string, OperandTensor] => [
        name,
        {
          dtype,
          shape,
          layer,
          part,
          origin: [label],
          value: { source: label, tensor: name },
          ...(transposed ? { transposed } : {}),
        },
      ],
    );
    return { label, layers: checkpoint.layers, tensors: new Map(tensors), lead: { id: label, checkpoint } };
  }
}

const MAX_LAYERS = 10_000;
const MAX_LEAVES = 10_000;

/** Leaf counts by value, to count shared values only once. */
const COUNTED = new WeakMap<object, number>();

/** Number of leaves of a value, duplicates included. */
function countLeaves(value: Value): number {
  const known = COUNTED.get(value);
  if (known !== undefined) return known;
  const count = isLeaf(value) ? 1 : childrenOf(value).reduce((sum, inner) => sum + countLeaves(inner), 0);
  COUNTED.set(value, count);
  return count;
}

/** Runs `make` and adds the path of a nested recipe to its errors. */
function withPath<T>(prefix: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    const hasPath = error instanceof RecipeError && error.where.field?.startsWith(prefix) === true;
    if (!(error instanceof RecipeError) || hasPath) throw error;
    const path = prefix.replace(/\.$/, "");
    const field = error.where.field === undefined ? path : `${prefix}${error.where.field}`;
    throw RecipeError.at({ ...error.where, field }, `${path}: ${error.message}`);
  }
}
