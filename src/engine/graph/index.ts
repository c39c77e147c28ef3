export { addDims, type Dim, multiplyDims, symbolsOf, termsOf } from "./dim.js";
export { gradients, type RowGradient, reachable, type SplitGradient, splitRows } from "./gradients.js";
export { Graph } from "./graph.js";
export { type Attributes, type ElementType, formatType, GraphError, type Node, type TensorType } from "./node.js";
export type { Operation } from "./operation.js";
export { OPERATIONS } from "./operations.js";
export { printGraph } from "./print.js";
