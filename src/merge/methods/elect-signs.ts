// Sign election of TIES, which other methods share: of each element, the changes that have the elected sign.
import { defineOperation, type Value, type Weight } from "../../tensor/expressions/index.js";

/**
 * The elements that agree with the sign of their sum, averaged (or summed where not `normalize`) by weight. Where
 * weights cancel out the sum is left as it is. The sign is that of sum(w_i x_i), or of sum(x_i) where not `weighted`;
 * of a zero sum it is `tie`. Zeros agree with nothing.
 */
export const electSigns = defineOperation("elect-signs", {
  fields: { weights: "numberPerValue", weighted: "flag", normalize: "flag", tie: "number" },
  apply: (buffers, { weights, weighted, normalize, tie }, { length }, workspace) => {
    const { kernels, table } = workspace;
    kernels.counters(table, buffers.length).set(buffers);
    kernels.floats(workspace.weights, buffers.length).set(weights);
    kernels.wasm.electSigns(table, workspace.weights, buffers.length, length, tie, weighted, normalize);
  },
});

/**
 * The changes that agree with each element's elected sign, by weight.
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
  const weights = used.map(({ weight }) => weight);
  return electSigns.of(
    used.map(({ value }) => value),
    { weights, weighted: true, normalize, tie },
  );
}
