export { planRecipeFile } from "./plan-recipe-file.js";
export { parseMergekit, readMergekit } from "./read-mergekit.js";
