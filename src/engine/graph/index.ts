export { type Dim, multiplyDims, symbolsOf, termsOf } from "./dim.js";
export { gradients, inputsOf, reachable, splitRows } from "./gradients.js";
export { Graph, OPERATIONS } from "./graph.js";
export { type Attributes, type ElementType, GraphError, type Node } from "./node.js";
