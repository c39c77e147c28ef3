// What a method takes and gives: a model whose tensors are values, be it a checkpoint on the disk or another merge.
import type { Part } from "../checkpoint/architectures.js";
import type { Checkpoint } from "../checkpoint/checkpoint.js";
import { type DType, isFloatDType } from "../core/dtype.js";
import type { Shape } from "../core/shape.js";
import type { Value, Weight } from "../source/expression.js";

export interface OperandTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly layer: number | null;
  readonly part: Part;
  /** Names of the method's sources that it comes from. */
  readonly origin: readonly string[];
  readonly value: Value;
}

export interface Operand {
  /** Name within the recipe, such as `task`. */
  readonly label: string;
  /** Number of transformer layers. */
  readonly layers: number;
  readonly tensors: ReadonlyMap<string, OperandTensor>;
  /** The checkpoint that stands for it in configuration and tokenizer: its own, or that of its first source. */
  readonly lead: { readonly id: string; readonly checkpoint: Checkpoint };
}

/** What methods ask of the planner. */
export interface PlanContext {
  /** The weight 1 / magnitude of an expert against its base; the measurement becomes part of the plan. */
  inverseMagnitude(expert: Operand, base: Operand): Weight;
  /** Adds a note to the plan, once. */
  note(text: string): void;
}

/** The same tensor of several operands, averaged; a tensor that cannot be averaged is taken from the first. */
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
  if (!isAveraged(first.dtype)) {
    context.note(`integer tensors are not averaged but taken from ${used[0].operand.label}`);
    return { ...first, origin: [used[0].operand.label] };
  }
  return {
    ...first,
    origin: used.map(({ operand }) => operand.label),
    value: { blend: used.map(({ weight }, i) => ({ weight, value: (tensors[i] as OperandTensor).value })) },
  };
}

/** A tensor of one operand, as it is. */
export function take(name: string, operand: Operand): OperandTensor {
  return { ...tensorOf(operand, name), origin: [operand.label] };
}

function tensorOf(operand: Operand, name: string): OperandTensor {
  const tensor = operand.tensors.get(name);
  if (!tensor) throw new Error(`${operand.label} has no tensor ${name}, though the checkpoints were found compatible`);
  return tensor;
}

/** Integers and truth values (masks, position ids) have no average; packed floats have one, but no arithmetic here. */
function isAveraged(dtype: DType): boolean {
  return isFloatDType(dtype) || dtype.startsWith("F") || dtype.startsWith("C");
}
