// Every verb that is a value, in the order of the docs.
import { extractVerb } from "./extract.js";
import type { Verb } from "./verb.js";
import { verifyVerb } from "./verify.js";

export const VERBS: readonly Verb[] = [extractVerb, verifyVerb] as unknown as readonly Verb[];
