export { gradients, reachable, splitRows } from "./gradients.js";
export { Graph } from "./graph.js";
export type { ElementType, Node } from "./node.js";
