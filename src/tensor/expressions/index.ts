export {
  childrenOf,
  defineOperation,
  hasOperation,
  isLeaf,
  type Leaf,
  leavesOf,
  type Measured,
  measurementsOf,
  sourcesRead,
  sumOfWeights,
  type Value,
  type Weight,
  type WeightedValue,
} from "./expression.js";
export {
  packBits,
  packedMeasured,
  packedResult,
  packMeasured,
  packResult,
  unpackBits,
  unpackMeasured,
  unpackResult,
} from "./measured.js";
export { flatten, Resolver, type Sources, tensorOf } from "./resolve.js";
export { valueSchema } from "./value-schema.js";
