// Every verb that is a value, in the order of the docs.
import { analyzeVerb } from "./analyze.js";
import { diffVerb } from "./diff.js";
import { exportVerb } from "./export.js";
import { extractVerb } from "./extract.js";
import { inspectVerb } from "./inspect.js";
import { measureVerb } from "./measure.js";
import { neuronsVerb } from "./neurons.js";
import { pushVerb } from "./push.js";
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
  exportVerb,
  inspectVerb,
  diffVerb,
  pushVerb,
] as unknown as readonly Verb[];
