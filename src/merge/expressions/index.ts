// The public face of source/.
export * from "./expression.js";
export { Resolver, type Sources } from "./resolve.js";
