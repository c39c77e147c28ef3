/**
 * The verbs of the library.
 * @module layergraft
 */
export * from "./verbs/index.js";
