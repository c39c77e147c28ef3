export { writeExample } from "./example-folder.js";
export { MINIATURE_MODELS } from "./miniature.js";
export { demoPage } from "./page.js";
export {
  allRows,
  demoAnswer,
  EXPERTS,
  MARKS,
  MARKS_LEGEND,
  type ModelAnswers,
  mainAnswers,
  mainRows,
  type Problem,
  shownProblems,
} from "./results.js";
export { type DemoResult, runDemo } from "./run-demo.js";
export { swapLayersOf } from "./swap.js";
