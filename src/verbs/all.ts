// Every verb that is a value, in the order of the docs.
import { analyzeVerb } from "./analyze.js";
import { evalVerb } from "./evaluate.js";
import { extractVerb } from "./extract.js";
import { measureVerb } from "./measure.js";
import { mergeVerb } from "./merge.js";
import { neuronsVerb } from "./neurons.js";
import { revertVerb } from "./revert.js";
import { soupVerb } from "./soup.js";
import { suggestVerb } from "./suggest.js";
import { swapVerb } from "./swap.js";
import { trainVerb } from "./train.js";
import { transplantVerb } from "./transplant.js";
import type { Verb } from "./verb.js";

export const VERBS: readonly Verb[] = [
  swapVerb,
  soupVerb,
  revertVerb,
  mergeVerb,
  transplantVerb,
  trainVerb,
  analyzeVerb,
  suggestVerb,
  measureVerb,
  neuronsVerb,
  extractVerb,
  evalVerb,
] as unknown as readonly Verb[];
