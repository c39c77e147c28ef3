/**
 * The verbs of the library.
 * @module layergraft
 */
export * from "./api/index.js";
