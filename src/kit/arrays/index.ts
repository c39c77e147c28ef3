export { bytesInPieces, extremesOf, largestOf, limitArrays, requireArray } from "./arrays.js";
