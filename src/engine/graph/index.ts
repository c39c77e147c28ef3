export { type Dim, multiplyDims, symbolsOf, termsOf } from "./dim.js";
export { gradients, inputsOf, reachable, splitRows } from "./gradients.js";
export { Graph } from "./graph.js";
export { type Attributes, type ElementType, GraphError, type Node } from "./node.js";
export { OPERATIONS } from "./operations.js";
