// The public face of the miniature.
export { type Contestant, contestants, NAMED_SWAP, PAPER_SWAP } from "./methods.js";
export { RECIPES, trainModel } from "./models.js";
export { demoAnswer, demoPageData, demoTable, QUICK_WARNING } from "./report.js";
export { type DemoOptions, type DemoProgress, type DemoResult, type PairResult, runDemo } from "./run.js";
export { type AskedProblem, askedProblems, type DemoRow, demoRows, gainsAndLosses, type Lead } from "./table.js";
