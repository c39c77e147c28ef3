// Opens the sources of recipes and builds operands from them. Collects measurements and notes on the way.

import {
  besideDecoder,
  type Checkpoint,
  type CheckpointTensor,
  type HubAccess,
  openCheckpoint,
  withCommonNames,
} from "../../formats/checkpoint/index.js";
import {
  type Alignment,
  alignVocabularies,
  areForeign,
  compareVocabularies,
  type Labelled,
  type Purpose,
  requireCompatible,
  type VocabularyChoice,
} from "../../formats/vocabulary/index.js";
import { groupBy, RecipeError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { childrenOf, isLeaf, type Leaf, type Value } from "../../tensor/expressions/index.js";
import type { Measurement } from "../../tensor/measurements/index.js";
import { remembered } from "../../tensor/streaming/index.js";
import type { Merged, NestedRecipe, SourceRecipe } from "../methods/method.js";
import {
  type Operand,
  type OperandTensor,
  type PlanContext,
  requireSameKinds,
  requireSameShape,
} from "../methods/operand.js";
import type { SourceKind } from "../methods/source-fields.js";
import { type MergeRecipe, methodOf, type Recipe, sourceFieldsOf, sourcesOf } from "../recipe/recipe.js";
import { type NeededStatistics, openStatistics } from "./needed-statistics.js";
import { pathOf } from "./relatedness.js";

export type AnyRecipe = MergeRecipe | NestedRecipe;

/** The place of a source in the recipe. */
interface RecipePlace {
  /** Path of its recipe within the whole recipe, such as `task.`; empty at the top. */
  readonly recipe?: string;
  /** Default: `model`. */
  readonly kind?: SourceKind;
  readonly isBase?: boolean | undefined;
  /** Whether its recipe stacks it, as a passthrough its slices. */
  readonly isStacked?: boolean | undefined;
  /** Whether it is, or is within, what a recipe stacks. */
  readonly isSliced?: boolean | undefined;
  /** Which statistics it has to have. */
  readonly statistics?: NeededStatistics | undefined;
}

export class OperandBuilder implements PlanContext {
  /** Opened checkpoints by label, which is their path within the recipe. */
  readonly sources = new Map<string, Checkpoint>();
  /** By id. */
  readonly measurements = new Map<string, Measurement>();
  readonly notes: string[] = [];
  /** Whether the sources are the factors of adapters. */
  isOnFactors = false;
  readonly folder: string;
  /** What becomes of tensors that some sources lack; an error by default. */
  readonly #lacking: Recipe["tensors"];
  /** Tensors beside the decoder, such as a vision tower, that only some sources have. */
  #beside: ReadonlySet<string> = new Set();
  /** Opened checkpoints by source; slices of one model open it once. */
  readonly #opened = new Map<string, Checkpoint>();
  readonly #places = new Map<string, RecipePlace>();

  readonly #hub: HubAccess | undefined;
  readonly #known: ReadonlyMap<string, Checkpoint> | undefined;

  /**
   * @param folder folder that relative paths start from
   * @param known checkpoints that are open already, by source
   */
  constructor(folder: string, hub?: HubAccess, known?: ReadonlyMap<string, Checkpoint>, lacking?: Recipe["tensors"]) {
    this.#lacking = lacking;
    this.folder = folder;
    this.#hub = hub;
    this.#known = known;
  }

  /** For another recipe over the sources that are open. */
  again(): OperandBuilder {
    const other = new OperandBuilder(this.folder, this.#hub, this.#known, this.#lacking);
    for (const [label, checkpoint] of this.sources) other.sources.set(label, checkpoint);
    for (const [label, place] of this.#places) other.#places.set(label, place);
    other.#beside = this.#beside;
    return other;
  }

  note(text: string): void {
    if (!this.notes.includes(text)) this.notes.push(text);
  }

  measure(measurement: Measurement): { measured: string } {
    if (!this.measurements.has(measurement.id)) this.measurements.set(measurement.id, measurement);
    return { measured: measurement.id };
  }

  /** Opens a checkpoint, or all checkpoints of a recipe. */
  async open(source: SourceRecipe, label: string, place: RecipePlace = {}): Promise<void> {
    if (typeof source !== "string") return this.openAll(source, `${label}.`, place);
    this.#places.set(label, place);
    const options = { base: this.folder, hub: this.#hub };
    const known = this.#known?.get(source) ?? this.#opened.get(source);
    const checkpoint = place.statistics
      ? await openStatistics(source, place.statistics, options, known)
      : (known ?? (await openCheckpoint(source, options)));
    this.#opened.set(source, checkpoint);
    this.sources.set(label, checkpoint);
  }

  /**
   * @param vocabulary the vocabulary that all are brought to
   * @param layersOnly whether they may differ outside the layers
   * @throws MismatchError if the checkpoints opened so far do not fit together
   */
  async requireCompatible(
    vocabulary?: string | VocabularyChoice,
    purpose: Purpose = "merged",
    layersOnly = false,
  ): Promise<Alignment | undefined> {
    const common = withCommonNames(this.#sourcesBut("tokenizer"));
    for (const [label, checkpoint] of common.checkpoints) this.sources.set(label, checkpoint);
    for (const note of common.notes) this.note(note);
    const models = this.#sourcesBut("statistics");
    const alignment = vocabulary === undefined ? undefined : await alignVocabularies(models, vocabulary);
    for (const [label, checkpoint] of alignment?.checkpoints ?? []) this.sources.set(label, checkpoint);
    for (const note of alignment?.notes ?? []) this.note(note);
    const labelled = [...this.merged].map(([label, checkpoint]): Labelled => {
      const isSliced = this.#places.get(label)?.isSliced === true;
      return { label, checkpoint: layersOnly ? withinLayers(checkpoint) : checkpoint, isSliced };
    });
    const isFree = alignment !== undefined || layersOnly;
    const beside = this.#lacking === undefined && !layersOnly ? besideDecoder(labelled) : undefined;
    if (beside) {
      this.note(beside.note);
      this.#beside = beside.names;
    }
    const mayLack = (tensor: string) => this.#lacking !== undefined || this.#beside.has(tensor);
    const isKnown = isFree || areForeign(labelled, purpose, mayLack);
    const differences = isKnown ? { problems: [], notes: [] } : await compareVocabularies(labelled, purpose);
    const families = requireCompatible(labelled, differences.problems, purpose, mayLack);
    for (const note of [...families, ...differences.notes]) this.note(note);
    const owned = labelled.flatMap(({ label, checkpoint }) => checkpoint.notes.map((note) => ({ note, label })));
    for (const [note, same] of groupBy(owned, ({ note }) => note)) {
      this.note(`${formatSome(same.map(({ label }) => label))}: ${note}`);
    }
    return alignment;
  }

  /** The sources that are merged: all but those that only give a tokenizer or statistics. */
  get merged(): Map<string, Checkpoint> {
    return this.#sourcesBut("tokenizer", "statistics");
  }

  #sourcesBut(...kinds: readonly SourceKind[]): Map<string, Checkpoint> {
    return new Map([...this.sources].filter(([label]) => !kinds.includes(this.#kindOf(label))));
  }

  #kindOf(label: string): SourceKind {
    return this.#places.get(label)?.kind ?? "model";
  }

  /** Opens every checkpoint of a recipe and of the recipes inside it; labels are paths within the recipe. */
  async openAll(recipe: AnyRecipe, prefix: string, within: RecipePlace = {}): Promise<void> {
    const direct = sourcesOf(recipe);
    const isStacked = methodOf(recipe).stacks === true;
    for (const { label: name, source, path, kind, statistics: asked } of direct) {
      const isBase = within.isBase || path[0] === "base";
      const isSliced = within.isSliced || isStacked;
      const label = `${prefix}${name}`;
      const model = direct.find((other) => other.label === asked?.of)?.source;
      const statistics = asked && {
        field: label,
        kind: asked.kind,
        model: typeof model === "string" ? model : undefined,
      };
      await this.open(source, label, { recipe: prefix, kind, isBase, isStacked, isSliced, statistics });
    }
    for (const note of await replaceSource(recipe, this.sources, prefix)) this.note(note);
  }

  /** Whether a source is only a base for changes and not merged itself. */
  isBase(label: string): boolean {
    return this.#places.get(label)?.isBase === true;
  }

  /** Groups of labels in one recipe that are the same model. Slices do not count. */
  duplicates(): string[][] {
    const models = [...this.sources].filter(([label]) => {
      return !this.#places.get(label)?.isStacked && this.#kindOf(label) !== "statistics";
    });
    const groups = groupBy(models, ([label, source]) => `${this.#places.get(label)?.recipe} ${pathOf(source)}`);
    return [...groups.values()].flatMap((group) => (group.length > 1 ? [group.map(([label]) => label)] : []));
  }

  merge(recipe: AnyRecipe, prefix: string): Operand {
    const direct = sourcesOf(recipe);
    const stacks = methodOf(recipe).stacks === true;
    const opened = new Map(direct.map(({ label: name, source }) => [name, this.operand(source, `${prefix}${name}`)]));
    const operands = new Map<string, Operand>();
    const donors = new Map<string, Operand>();
    for (const { label: name, kind } of direct) {
      if (kind === "statistics") continue;
      const measured = direct.find(({ statistics }) => statistics?.of === name);
      const statistics = measured && opened.get(measured.label);
      if (statistics) this.#noteOtherModel(statistics, this.sources.get(`${prefix}${name}`)?.name);
      (kind === "tokenizer" ? donors : operands).set(name, {
        ...(opened.get(name) as Operand),
        ...(statistics ? { statistics: statistics.tensors } : {}),
      });
    }
    const [lead] = operands.values();
    if (!lead) throw new Error("a recipe needs at least one source");
    for (const [field, { config }] of [...operands, ...donors]) {
      if (config)
        throw RecipeError.at({ field }, "a mixture of experts cannot be a source. Write it to a folder first.");
    }
    const merged = [...operands.values()];
    requireSameKinds(merged, stacks);
    const groups = stacks ? [operands] : this.#groups(operands);
    const made = groups.map((group) => withPath(prefix, () => this.#mergeGroup(recipe, group, donors)));
    const tensors = new Map(made.flatMap((group) => [...group.tensors]));
    const { layerOrder, config } = made[0] as Merged;
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
    // Only the deepest source's configuration has an entry for each of the layers, where it lists them.
    const [deepest = lead] = merged.sort((a, b) => b.lead.checkpoint.layers - a.lead.checkpoint.layers);
    // Of these, the one with a vision tower or the like describes it.
    const besideIn = ({ tensors: own }: Operand) => [...this.#beside].filter((name) => own.has(name)).length;
    const { lead: source } = [...operands.values()]
      .filter((one) => one.lead.checkpoint.layers === deepest.lead.checkpoint.layers)
      .reduce((most, one) => (besideIn(one) > besideIn(most) ? one : most), deepest);
    return {
      label: prefix.replace(/\.$/, ""),
      layers,
      tensors,
      layerOrder,
      lead: source,
      tokenizerFrom: deepest.tokenizerFrom,
      ...(config ? { config } : {}),
    };
  }

  /** @param model name of the model that statistics are given for; undefined for a recipe */
  #noteOtherModel({ lead: { checkpoint } }: Operand, model: string | undefined): void {
    const measured = checkpoint.files[0]?.metadata.model ?? model;
    if (model === undefined || measured === model) return;
    this.note(
      `${checkpoint.name} was measured on ${measured}, but is given for ${model}. Check that they are the same model.`,
    );
  }

  /** Groups of tensors by the sources that have them, those of all first; each as these sources, with these tensors alone. */
  #groups(operands: ReadonlyMap<string, Operand>): ReadonlyMap<string, Operand>[] {
    const fields = [...operands.keys()];
    const names = new Set([...operands.values()].flatMap(({ tensors }) => [...tensors.keys()]));
    const byOwners = groupBy([...names], (name) =>
      fields.filter((field) => operands.get(field)?.tensors.has(name)).join("\n"),
    );
    const all = fields.join("\n");
    const some = [...byOwners.keys()].filter((key) => key !== all);
    const isBeside = some.every((key) => byOwners.get(key)?.every((name) => this.#beside.has(name)));
    if (some.length === 0 || !(this.#lacking || isBeside)) return [operands];
    const others = this.#lacking === "intersection" ? [] : some;
    return [all, ...others].map((key) => {
      const own = new Set(byOwners.get(key));
      const part = (operand: Operand): Operand => {
        return { ...operand, tensors: new Map([...operand.tensors].filter(([name]) => own.has(name))), isPart: true };
      };
      return new Map(key.split("\n").map((field) => [field, part(operands.get(field) as Operand)]));
    });
  }

  /** Merges the sources that are there; a tensor that only one has is copied. */
  #mergeGroup(recipe: AnyRecipe, operands: ReadonlyMap<string, Operand>, donors: ReadonlyMap<string, Operand>): Merged {
    // Slices are stacked; all other sources are combined layer by layer.
    const method = methodOf(recipe);
    if (!(method.stacks || method.layersOnly)) requireSameShape([...operands.values()]);
    const fields = sourcesOf(recipe).filter(({ kind }) => kind === "model");
    const [lead] = operands.values() as Iterable<Operand>;
    if (!lead) throw new Error("a recipe needs at least one source");
    if (operands.size === 1 && fields.length > 1)
      return { tensors: new Map(lead.tensors), layerOrder: lead.layerOrder };
    const isThere = (field: string, i?: number) =>
      fields.every(({ label, path }) => path[0] !== field || path[1] !== i || operands.has(label));
    // What a list can do without is left out of it; a field of one source is needed.
    const lists = sourceFieldsOf(recipe).flatMap((declared) => {
      const entries = (recipe as Record<string, unknown>)[declared.field];
      if (!("entry" in declared && Array.isArray(entries))) return [];
      const { field, atLeast } = declared;
      return [{ field, atLeast, entries: entries.filter((_, i) => isThere(field, i)) }];
    });
    const isLacking =
      lists.some(({ atLeast, entries }) => entries.length < atLeast) ||
      fields.some(({ path: [field, index] }) => index === undefined && !isThere(field));
    if (isLacking) {
      const [tensor = ""] = lead.tensors.keys();
      if (this.#beside.has(tensor)) return this.#copied(operands);
      throw RecipeError.at(
        { tensor },
        `${recipe.method} cannot merge ${tensor}, which only ${[...operands.keys()].join(", ")} have. Leave out such tensors with tensors: intersection.`,
      );
    }
    const own = { ...recipe, ...Object.fromEntries(lists.map(({ field, entries }) => [field, entries])) };
    const get = (field: string): Operand => (operands.get(field) ?? donors.get(field)) as Operand;
    const models = fields.flatMap(({ label, path: [field, index, inner = "model"] }) =>
      index !== undefined && inner === "model" && isThere(field, index) ? [get(label)] : [],
    );
    const made = method.tensors(own, { get, models, base: operands.get("base") }, this);
    return { layerOrder: lead.layerOrder, ...(made instanceof Map ? { tensors: made } : made) };
  }

  /** The tensors of the first source that is not the base. */
  #copied(operands: ReadonlyMap<string, Operand>): Merged {
    const [first] = [...operands].filter(([field]) => field !== "base").map(([, operand]) => operand);
    const from = first ?? (operands.get("base") as Operand);
    return { tensors: new Map(from.tensors), layerOrder: from.layerOrder };
  }

  operand(source: SourceRecipe, label: string): Operand {
    if (typeof source !== "string") return this.merge(source, `${label}.`);
    const checkpoint = this.sources.get(label) as Checkpoint;
    const lead = { id: label, checkpoint };
    const tensors = tensorsOf(checkpoint)(label);
    return { label, layers: checkpoint.layers, tensors, lead, tokenizerFrom: label };
  }
}

/**
 * Gives a source the form that the method of a recipe takes it in, such as with another tokenizer.
 * @param sources by label; changed in place
 * @param prefix of the recipe's labels
 * @returns notes
 */
export async function replaceSource(recipe: AnyRecipe, sources: Map<string, Checkpoint>, prefix: string) {
  const get = (field: string) => sources.get(`${prefix}${field}`) as Checkpoint;
  const replaced = await methodOf(recipe).replace?.(recipe, get);
  if (!replaced) return [];
  const label = `${prefix}${replaced.field}`;
  sources.set(label, replaced.checkpoint);
  return replaced.notes.map((note) => `${label}: ${note}`);
}

/** A checkpoint with the tensors of its layers alone. */
function withinLayers(checkpoint: Checkpoint): Checkpoint {
  const tensors = new Map([...checkpoint.tensors].filter(([, { layer }]) => layer !== null));
  return { ...checkpoint, tensors, tied: true };
}

const MAX_LAYERS = 10_000;
const MAX_LEAVES = 10_000;

/** Number of leaves of a value, duplicates included. Shared values are counted once. */
const countLeaves = (value: Value): number => (isLeaf(value) ? 1 : countInner(value));
const countInner = remembered((value: Exclude<Value, Leaf>): number =>
  childrenOf(value).reduce((sum, inner) => sum + countLeaves(inner), 0),
);

/** The tensors of a checkpoint as a source with a label, which many recipes may have. */
const tensorsOf = remembered(({ tensors }: Checkpoint) => {
  const known = new Map<string, ReadonlyMap<string, OperandTensor>>();
  return (label: string): ReadonlyMap<string, OperandTensor> => {
    const found = known.get(label) ?? new Map([...tensors].map(([, tensor]) => [tensor.name, asSource(tensor, label)]));
    known.set(label, found);
    return found;
  };
});

function asSource({ name, dtype, shape, layer, part, transposed }: CheckpointTensor, label: string): OperandTensor {
  const value = { source: label, tensor: name };
  return { dtype, shape, layer, part, origin: [label], value, ...(transposed ? { transposed } : {}) };
}

/** Runs `make` and adds the path of a nested recipe to its errors. */
function withPath<T>(prefix: string, make: () => T): T {
  try {
    return make();
  } catch (error) {
    const hasPath = error instanceof RecipeError && error.where.field?.startsWith(prefix) === true;
    if (!(error instanceof RecipeError) || hasPath || prefix === "") throw error;
    const path = prefix.replace(/\.$/, "");
    const field = error.where.field === undefined ? path : `${prefix}${error.where.field}`;
    throw RecipeError.at({ ...error.where, field }, `${path}: ${error.message}`);
  }
}
