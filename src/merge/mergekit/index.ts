// The public face of mergekit/.
export { type MergekitOptions, parseMergekit, readMergekit } from "./read-mergekit.js";
export type { MergekitRecipe } from "./translate.js";
