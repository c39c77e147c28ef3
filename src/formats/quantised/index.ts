export type { CodedForm, CodedValues, QuantisedTensor } from "./coded.js";
export { readQuantised, readShapes, WRITERS } from "./quantised.js";
export { describeKnown } from "./settings.js";
