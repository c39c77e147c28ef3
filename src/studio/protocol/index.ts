// What the page and the server say to each other. The page is bundled with it, so nothing here needs Node.js.
export * from "./evaluations.js";
export * from "./experiments.js";
export * from "./operations.js";
