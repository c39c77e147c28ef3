// Every verb that is a value, in the order of the docs.
import { analyzeVerb } from "./analyze.js";
import { diffVerb } from "./diff.js";
import { exportVerb } from "./export.js";
import { extractVerb } from "./extract.js";
import { generateVerb } from "./generate.js";
import { inspectVerb } from "./inspect.js";
import { measureVerb } from "./measure.js";
import { neuronsVerb } from "./neurons.js";
import { pushVerb } from "./push.js";
import { scoreVerb } from "./score.js";
import { suggestVerb } from "./suggest.js";
import { trainVerb } from "./train.js";
import type { Verb } from "./verb.js";
import { verifyVerb } from "./verify.js";

export const VERBS: readonly Verb[] = [
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
] as unknown as readonly Verb[];
