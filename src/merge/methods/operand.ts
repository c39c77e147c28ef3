// Operands of merge methods: models whose tensors are values, from checkpoints or other merges.

import { type Checkpoint, layerKinds } from "../../formats/checkpoint/index.js";
import {
  type DType,
  elementCount,
  formatShape,
  isFloatDType,
  RecipeError,
  type Shape,
  sameShape,
} from "../../kit/index.js";
import type { Value, Weight, WeightedValue } from "../../tensor/expressions/index.js";
import type { Measurement } from "../../tensor/measurements/index.js";
import type { Step } from "../model-plan.js";

export interface OperandTensor extends Omit<Step, "tensor"> {
  /** Stored [in, out]. */
  readonly transposed?: true;
}

export interface Operand {
  /** Name within the recipe, such as `task`. */
  readonly label: string;
  /** Number of transformer layers. */
  readonly layers: number;
  readonly tensors: ReadonlyMap<string, OperandTensor>;
  /** Statistics of it by tensor, where the recipe names them. */
  readonly statistics?: ReadonlyMap<string, OperandTensor>;
  /** Whether only some of the tensors are here, so that a rule of the recipe may match none. */
  readonly isPart?: true;
  /** Layer of the lead at each position, if layers were repeated or left out. */
  readonly layerOrder?: readonly number[] | undefined;
  /** Fields that replace those of the lead's config.json. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** Checkpoint of the tokenizer: its own, or its first source's. */
  readonly tokenizerFrom: string;
  /** Checkpoint of the configuration: its own, or that of the source that describes all tensors. */
  readonly lead: { readonly id: string; readonly checkpoint: Checkpoint };
}

/** Planner functions for methods. */
export interface PlanContext {
  /** Whether the tensors are factors of adapters, whose product has the weights of both. Default false. */
  readonly isOnFactors?: boolean;
  /** Adds a measurement to the plan, once. */
  measure(measurement: Measurement): { readonly measured: string };
  /** Adds a note to the plan, once. */
  note(text: string): void;
}

/**
 * Number of layers of a model.
 * @throws RecipeError if it has no single stack of them
 */
export function layersOf({ label, layers, lead }: Operand): number {
  const { name, withoutLayers } = lead.checkpoint;
  if (layers > 0 || withoutLayers === undefined) return layers;
  throw RecipeError.at(
    { field: label },
    `${label} (${name}) has no layers to choose: ${withoutLayers}. Use a method and rules that name none, such as soup, ties or { parts: decoder, value: 0.5 }.`,
  );
}

/** Averages a tensor over operands; a tensor that cannot be averaged is copied from the first. */
export function average(
  name: string,
  terms: readonly { operand: Operand; weight: Weight }[],
  context: PlanContext,
): OperandTensor {
  const used = terms.filter((term) => term.weight !== 0);
  const tensors = used.map(({ operand }) => tensorOf(operand, name));
  const [first] = tensors;
  if (!first || used[0] === undefined) throw new RangeError("an average needs at least one weight that is not zero");
  if (used.length === 1) return { ...first, origin: [used[0].operand.label] };
  if (!hasArithmetic(first.dtype)) return copyWithNote(name, used[0].operand, context);
  return {
    ...first,
    origin: used.map(({ operand }) => operand.label),
    value: { blend: used.map(({ weight }, i) => ({ weight, value: (tensors[i] as OperandTensor).value })) },
  };
}

/** The average of a tensor over operands that count alike. */
export function mean(name: string, operands: readonly Operand[], context: PlanContext): OperandTensor {
  const terms = operands.map((operand) => ({ operand, weight: 1 }));
  return average(name, terms, context);
}

export function copyTensor(name: string, operand: Operand): OperandTensor {
  return { ...tensorOf(operand, name), origin: [operand.label] };
}

/** Copies a tensor that has no arithmetic, and adds a note. */
function copyWithNote(name: string, operand: Operand, context: PlanContext): OperandTensor {
  context.note(`integer tensors are not averaged but taken from ${operand.label}`);
  return copyTensor(name, operand);
}

export function tensorOf(operand: Operand, name: string): OperandTensor {
  const tensor = operand.tensors.get(name);
  if (!tensor) throw new Error(`${operand.label} has no tensor ${name}, though the checkpoints were found compatible`);
  return tensor;
}

/**
 * Statistics of a tensor, of each model; undefined if none has any.
 * @param shape that they must have
 * @throws RecipeError if only some models have them, or in another shape
 */
export function statisticsOf(name: string, models: readonly Operand[], shape: Shape): OperandTensor[] | undefined {
  const found = models.map(({ statistics }) => statistics?.get(name));
  if (found.every((one) => one === undefined)) return undefined;
  return found.map((one, i) => {
    if (one && sameShape(one.shape, shape)) return one;
    throw RecipeError.at(
      { tensor: name, expected: formatShape(shape) },
      `the statistics of ${models[i]?.label} ${one ? `have shape ${formatShape(one.shape)}, not ${formatShape(shape)}, for` : "lack"} ${name}. Measure them again on this model.`,
    );
  });
}

/** Integers and booleans (masks, position ids) have no average. Packed floats do, but merging them is an error. */
function hasArithmetic(dtype: DType): boolean {
  return isFloatDType(dtype) || dtype.startsWith("F") || dtype.startsWith("C");
}

/**
 * Computes the tensors of a model like `lead`. Tensors without arithmetic are copied from the lead.
 * @param compute returns the value of a tensor, or undefined to copy the lead's
 */
export function computed(
  lead: Operand,
  origin: readonly Operand[],
  context: PlanContext,
  compute: (name: string, tensor: OperandTensor) => Value | undefined,
): Map<string, OperandTensor> {
  return new Map(
    [...lead.tensors].map(([name, tensor]): [string, OperandTensor] => {
      if (!hasArithmetic(tensor.dtype)) return [name, copyWithNote(name, lead, context)];
      const value = compute(name, tensor);
      if (value === undefined) return [name, copyTensor(name, lead)];
      return [name, { ...tensor, origin: origin.map(({ label }) => label), value }];
    }),
  );
}

/** Whether a tensor's changes can be ordered and counted: floating point, with elements. */
export function isMeasurable({ dtype, shape }: OperandTensor): boolean {
  return isFloatDType(dtype) && elementCount(shape) > 0;
}

export function isEmpty({ shape }: OperandTensor): boolean {
  return elementCount(shape) === 0;
}

/** expert - base. */
export function deltaOf(name: string, expert: Operand, base: Operand): Value {
  return { op: "subtract", of: [tensorOf(expert, name).value, tensorOf(base, name).value] };
}

/**
 * The base plus what is made of the experts' changes, tensor by tensor.
 * @param needs who needs the base, such as "SCE needs"
 * @param make weighted values, of the changes in a tensor and the base's value of it
 */
export function addedToBase(
  experts: readonly Operand[],
  base: Operand | undefined,
  needs: string,
  context: PlanContext,
  make: (name: string, tensor: OperandTensor, changes: readonly Value[], from: Value) => readonly WeightedValue[],
): Map<string, OperandTensor> {
  const root = requireBase(base, needs);
  return computed(experts[0] ?? root, [...experts, root], context, (name, tensor) => {
    const from = tensorOf(root, name).value;
    if (isEmpty(tensor)) return from;
    const changes = experts.map((expert) => deltaOf(name, expert, root));
    return plus(from, make(name, tensor, changes, from));
  });
}

/** base + sum(weight * change). */
export function plus(base: Value, changes: readonly WeightedValue[]): Value {
  return { sum: [{ weight: 1, value: base }, ...changes.filter(({ weight }) => weight !== 0)] };
}

/** @throws RecipeError if there is none */
export function requireBase(base: Operand | undefined, what: string): Operand {
  if (base) return base;
  throw RecipeError.at(
    { field: "base", option: "base" },
    `${what} the base that the experts were fine-tuned from; name it as base`,
  );
}

/** @throws RecipeError unless all have the same number of layers, and tensors of the same names and shapes */
export function requireSameShape(operands: readonly Operand[]): void {
  const [first, ...others] = operands;
  for (const other of first ? others : []) {
    if (other.layers !== first?.layers) {
      throw RecipeError.at(
        { expected: `${first?.layers} layers`, actual: `${other.layers} layers` },
        `${first?.label} has ${first?.layers} layers, ${other.label} has ${other.layers}; sources of one merge need the same depth`,
      );
    }
    // Checkpoints were compared earlier, but moved layers may have other shapes.
    const differing = [...first.tensors].find(([name, { shape }]) => {
      const twin = other.tensors.get(name);
      return !twin || !sameShape(twin.shape, shape);
    });
    const [name] = differing ?? [...other.tensors].find(([tensor]) => !first.tensors.has(tensor)) ?? [];
    if (name === undefined) continue;
    const of = ({ tensors }: Operand) => (tensors.has(name) ? formatShape(tensors.get(name)?.shape ?? []) : "none");
    throw RecipeError.at(
      { tensor: name },
      `${first.label} and ${other.label} cannot be merged: ${name} is ${of(first)} and ${of(other)}. Layers were moved to places of another shape.`,
    );
  }
}

/**
 * @param isStack whether their layers follow each other, so that only those of their models are compared
 * @throws RecipeError if the configurations of two models give the layers at one place different kinds
 */
export function requireSameKinds(operands: readonly Operand[], isStack: boolean): void {
  const [first, ...others] = operands;
  if (!first) return;
  const kindsOf = ({ lead, layerOrder }: Operand) =>
    layerKinds(lead.checkpoint.config, isStack ? undefined : layerOrder);
  const mine = kindsOf(first);
  for (const other of others) {
    for (const [field, theirs] of kindsOf(other)) {
      const own = mine.get(field) ?? [];
      const layer = own.findIndex((kind, place) => place < theirs.length && kind !== theirs[place]);
      // Where all layers of each model are of one kind, such as with a window and without, no place has another meaning.
      if (layer < 0 || [own, theirs].every((kinds) => new Set(kinds).size === 1)) continue;
      throw RecipeError.at(
        { field: other.label, expected: `${own[layer]}`, actual: `${theirs[layer]}` },
        `${field} in config.json gives layer ${layer} the kind ${own[layer]} in ${first.label} and ${theirs[layer]} in ${other.label}, and a layer can replace only one of its kind; use models with the same kinds of layers`,
      );
    }
  }
}
