// Every verb that is a value, in the order of the docs.
import { analyzeVerb } from "./analyze.js";
import { evalVerb } from "./evaluate.js";
import { extractVerb } from "./extract.js";
import { measureVerb } from "./measure.js";
import { neuronsVerb } from "./neurons.js";
import { suggestVerb } from "./suggest.js";
import { trainVerb } from "./train.js";
import type { Verb } from "./verb.js";

export const VERBS: readonly Verb[] = [
  trainVerb,
  analyzeVerb,
  suggestVerb,
  measureVerb,
  neuronsVerb,
  extractVerb,
  evalVerb,
] as unknown as readonly Verb[];
