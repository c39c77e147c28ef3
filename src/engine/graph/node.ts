// A node of a graph: one tensor and the operation that computes it.
import { LayergraftError } from "../../kit/index.js";
import type { Dim } from "./dim.js";

/** Element types of a graph: weights and activations, indices, conditions. */
export type ElementType = "f32" | "i64" | "bool";

export interface TensorType {
  readonly dtype: ElementType;
  readonly shape: readonly Dim[];
}

/** Parameters of an operation; compared as JSON to find equal nodes, so plain values only. */
export type Attributes = Readonly<Record<string, Attribute>>;
export type Attribute = number | string | boolean | readonly Dim[] | readonly number[];

export interface Node extends TensorType {
  /** Position in the graph: inputs come before the nodes that use them. */
  readonly id: number;
  readonly op: string;
  readonly inputs: readonly Node[];
  readonly attributes: Attributes;
}

/** Operands that do not fit together. */
export class GraphError extends LayergraftError {
  constructor(op: string, message: string, inputs: readonly TensorType[] = []) {
    super("graph", `${op}: ${message}${inputs.length > 0 ? ` (${inputs.map(formatType).join(", ")})` : ""}`, {
      actual: inputs.map(formatType).join(", "),
    });
  }
}

/** `f32[batch, time, 64]` */
export function formatType({ dtype, shape }: TensorType): string {
  return `${dtype}[${shape.join(", ")}]`;
}
