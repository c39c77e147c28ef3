// The door of demo/: what other rooms use.

export { EXPERTS } from "./demo-plan.js";
export { type ExampleFolder, writeExample } from "./example-folder.js";
export { demoPage } from "./page.js";
export {
  allRows,
  demoAnswer,
  MARKS,
  MARKS_LEGEND,
  type ModelAnswers,
  mainAnswers,
  mainRows,
  QUICK_WARNING,
  shownProblems,
} from "./results.js";
export { type DemoResult, runDemo } from "./run-demo.js";
export { swapLayersOf } from "./swap.js";
export type { WrittenProblem } from "./world/world-files.js";
