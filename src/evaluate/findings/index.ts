export { compareFinding, leadOf } from "./compare-finding.js";
export { type Candidate, findingAbout, highest, isAbove, isDifferent, kindOfMethod } from "./finding.js";
