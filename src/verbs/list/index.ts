// The list of verbs, without any of them loaded.

export { type ListedVerb, listed, VERBS } from "../all.js";
export type { Verb } from "../verb.js";
