// The public face of demo/.
export { analyzeDemo, demoAnswer, demoPageData, demoRows, QUICK_WARNING } from "./demo-report.js";
export { type DemoOptions, type DemoResult, runDemo } from "./run-demo.js";
