// What a decoder's builder does for the parts of a layer.
import type { LinearWeights, StoredWeight } from "../../families/index.js";
import type { Graph } from "../graph/graph.js";
import type { Node } from "../graph/node.js";

export interface LayerTools {
  readonly graph: Graph;
  readonly weight: (stored: StoredWeight) => Node;
  readonly linear: (x: Node, weights: LinearWeights) => Node;
  /** A part of the cache, by its feed; undefined without a cache. */
  readonly past: (feed: string) => Node | undefined;
  /** What a pass adds to each part, by its feed. */
  readonly fresh: Map<string, Node>;
}
