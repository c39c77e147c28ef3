// Every verb that is a value, in the order of the docs.
import { analyzeVerb } from "./analyze.js";
import { compareVerb } from "./compare.js";
import { diffVerb } from "./diff.js";
import { evalVerb } from "./evaluate.js";
import { exportVerb } from "./export.js";
import { extractVerb } from "./extract.js";
import { generateVerb } from "./generate.js";
import { inspectVerb } from "./inspect.js";
import { measureVerb } from "./measure.js";
import { mergeVerb } from "./merge.js";
import { neuronsVerb } from "./neurons.js";
import { pushVerb } from "./push.js";
import { revertVerb } from "./revert.js";
import { scoreVerb } from "./score.js";
import { soupVerb } from "./soup.js";
import { suggestVerb } from "./suggest.js";
import { swapVerb } from "./swap.js";
import { trainVerb } from "./train.js";
import { transplantVerb } from "./transplant.js";
import type { Verb } from "./verb.js";
import { verifyVerb } from "./verify.js";

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
  verifyVerb,
  exportVerb,
  generateVerb,
  scoreVerb,
  inspectVerb,
  diffVerb,
  pushVerb,
  evalVerb,
  compareVerb,
] as unknown as readonly Verb[];
