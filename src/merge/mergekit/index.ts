export { parseMergekit, readMergekit } from "./read-mergekit.js";
