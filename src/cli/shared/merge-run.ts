// Merges a recipe that a command has made, as the command merge does.
import { defined } from "../../kit/index.js";
import { asField, type SayField } from "../../kit/printing/index.js";
import type { RecipeInput } from "../../merge/index.js";
import { mergeVerb, type Verb } from "../../verbs/shared/index.js";
import type { WorkOptions } from "./output.js";
import type { PushFlags } from "./push.js";
import { carryOut, planMissingOut } from "./verb-run.js";

export interface MergeOptions extends WorkOptions, PushFlags {
  readonly out?: string;
  readonly dryRun?: boolean;
  readonly resume?: boolean;
  readonly force?: boolean;
}

/** @param set how advice sets a field of the recipe */
export async function runMerge(recipe: RecipeInput, flags: MergeOptions, set: SayField = asField): Promise<void> {
  const verb = mergeVerb as unknown as Verb;
  const located = { input: defined({ recipe, out: flags.out }) };
  if (flags.out === undefined && !flags.dryRun) await planMissingOut(verb, located, { ...flags });
  await carryOut(verb, located, { ...flags }, { controls: () => ({ say: set }) });
}
