export {
  carryWritten,
  keepFloat,
  numberIn,
  parseWritten,
  stringifyWritten,
  WrittenNumber,
  withWritten,
} from "./written-numbers.js";
