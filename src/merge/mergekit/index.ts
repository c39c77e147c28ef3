export { parseMergekit, readMergekit, readMergekitText } from "./read-mergekit.js";
