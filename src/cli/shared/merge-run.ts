// Merges a recipe that a command has made, as the command merge does.
import { defined } from "../../kit/index.js";
import { asField } from "../../kit/printing/index.js";
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

/** @param onWritten called with the folder of the merge before it is pushed */
export async function runMerge(
  recipe: RecipeInput,
  flags: MergeOptions,
  onWritten: (out: string) => Promise<void>,
): Promise<void> {
  const verb = mergeVerb as unknown as Verb;
  const located = { input: defined({ recipe, out: flags.out }) };
  if (flags.out === undefined && !flags.dryRun) await planMissingOut(verb, located, { ...flags });
  await carryOut(
    verb,
    located,
    { ...flags },
    { controls: () => ({ say: asField }), finished: ({ out }: { readonly out: string }) => onWritten(out) },
  );
}
