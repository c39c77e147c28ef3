export { bytesInPieces, extremesOf, largestOf, limitArrays, longestOf, requireArray } from "./arrays.js";
