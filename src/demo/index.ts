export { type ExampleFolder, writeExample } from "./example-folder.js";
export { demoPage } from "./page.js";
export type { Problem } from "./results.js";
export {
  allRows,
  demoAnswer,
  EXPERTS,
  MARKS,
  MARKS_LEGEND,
  type ModelAnswers,
  mainAnswers,
  mainRows,
  shownProblems,
} from "./results.js";
export { type DemoResult, runDemo } from "./run-demo.js";
export { swapLayersOf } from "./swap.js";
