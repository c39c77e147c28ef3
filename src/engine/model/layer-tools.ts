// What a decoder's builder does for the parts of a layer.
import type { LinearWeights, StoredWeight } from "../../families/index.js";
import type { Graph } from "../graph/graph.js";
import type { Node } from "../graph/node.js";

/**
 * Changes the result y of a projection of x, such as by adding the product of low-rank factors.
 * @param weight of experts, that of the first
 * @param experts the expert of each row of x, and the first of their outputs in the tensor of all experts in transformers
 */
export type Adapt = (
  graph: Graph,
  weight: StoredWeight,
  x: Node,
  y: Node,
  experts?: { readonly ids: Node; readonly from: number },
) => Node;

export interface LayerTools {
  readonly graph: Graph;
  readonly weight: (stored: StoredWeight) => Node;
  readonly linear: (x: Node, weights: LinearWeights) => Node;
  /** A part of the cache, by its feed; undefined without a cache. */
  readonly past: (feed: string) => Node | undefined;
  /** What a pass adds to each part, by its feed. */
  readonly fresh: Map<string, Node>;
  readonly adapt: Adapt | undefined;
}
