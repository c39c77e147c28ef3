// The list of all verbs, without any of them loaded.

export { type ListedVerb, loadVerb, loadVerbs, VERBS } from "./all.js";
