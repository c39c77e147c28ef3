// Sign election of TIES: averages the changes that agree with each element's elected sign.
import type { Value, Weight } from "../../tensor/expressions/index.js";
import { switchField } from "./parameter.js";

export const normalizeElected = switchField
  .default(true)
  .describe("average the changes that agree, by weight; `false` adds them up");

/**
 * The consensus of changes.
 * @param tie sign of an element whose changes cancel out
 */
export function elect(
  changes: readonly { readonly weight: Weight; readonly value: Value }[],
  normalize: boolean,
  tie: Weight = 1,
): Value {
  // A change of weight 0 has no vote and is not read.
  const weighted = changes.filter(({ weight }) => weight !== 0);
  const used = weighted.length > 0 ? weighted : changes.slice(0, 1);
  return {
    op: "consensus",
    of: used.map(({ value }) => value),
    weights: used.map(({ weight }) => weight),
    weighted: true,
    normalize,
    tie,
  };
}
