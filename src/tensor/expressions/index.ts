export { packBits, unpackBits } from "./bits.js";
export {
  childrenOf,
  defineOperation,
  flatten,
  hasOperation,
  isLeaf,
  type Leaf,
  leavesOf,
  type Measured,
  measurementsOf,
  sumOfWeights,
  type Value,
  type Weight,
  type WeightedValue,
} from "./expression.js";
export { packedMeasured, packedResult, packMeasured, packResult, unpackMeasured, unpackResult } from "./measured.js";
export { Resolver, type Sources } from "./resolve.js";
export { valueSchema } from "./value-schema.js";
