// Verbs as the page has them: their forms, and the jobs that run them.

import { loadVerb } from "../../experiment/verbs/index.js";
import { plainFigures } from "../../figures/index.js";
import {
  callVerb,
  checkInput,
  evalVerb,
  exportVerb,
  formGroups,
  generateVerb,
  mergeVerb,
  pushVerb,
  refuseCode,
  type Verb,
} from "../../verbs/shared/index.js";
import { type JobInput, type JobKind, recipeSource, type VerbFound, type VerbReference } from "../protocol/index.js";
import type { JobControls, JobPlace } from "./kinds.js";

/** What the page makes a form of. */
export const verbReference = (verb: Verb): VerbReference => ({
  name: verb.name,
  description: verb.description,
  groups: formGroups(verb),
  canReplace: verb.options.force !== undefined,
  canResume: verb.options.resume !== undefined,
});

/** What a job has a verb do: with the recipe of a project by its file, and of several models with the first. */
interface VerbOrder {
  readonly verb: Pick<Verb, "name" | "schema" | "check" | "asGiven">;
  readonly input: Readonly<Record<string, unknown>>;
}

const ORDERS: { readonly [K in JobKind]?: (input: JobInput<K>) => VerbOrder | Promise<VerbOrder> } = {
  verb: async ({ verb, input }) => ({ verb: await loadVerb(verb), input }),
  answer: ({ models, ...input }) => ({ verb: generateVerb, input: { ...input, source: models[0]?.source } }),
  evaluate: ({ models, ...input }) => ({ verb: evalVerb, input: { ...input, source: models[0]?.source } }),
  merge: ({ recipe, force: _, resume: __, ...input }) => ({
    verb: mergeVerb,
    input: { ...input, recipe: recipeSource(recipe) },
  }),
  export: ({ recipe, force: _, resume: __, ...input }) => ({
    verb: exportVerb,
    input: { ...input, source: recipeSource(recipe) },
  }),
  push: (input) => ({ verb: pushVerb, input }),
};

/**
 * Checks the fields of a verb in a job.
 * @throws RecipeError with every problem
 * @throws LayergraftError code `usage` if there is no such verb, or a field runs code
 */
export async function checkJob<K extends JobKind>(kind: K, input: JobInput<K>): Promise<void> {
  const order = await ORDERS[kind]?.(input);
  if (!order) return;
  checkInput(order.verb, order.input);
  refuseCode(order.verb, order.input);
}

/** Runs a verb; its relative paths start from the project. */
export async function runVerb(
  verb: Verb,
  input: unknown,
  how: { readonly force?: boolean | undefined; readonly resume?: boolean | undefined },
  { project }: Pick<JobPlace, "project">,
  { signal, onProgress }: Pick<JobControls, "signal" | "onProgress">,
): Promise<VerbFound> {
  const start = performance.now();
  const checked = checkInput(verb, input);
  const result = await callVerb(verb, input, { ...how, folder: project, signal, onProgress });
  const figures = plainFigures(verb.show(result, checked, (performance.now() - start) / 1000));
  return { figures, notes: [...result.warnings, ...result.notes] };
}

/** Runs the verb of a job of this kind. */
export const runVerbJob = async (
  { verb, input, ...how }: JobInput<"verb">,
  place: Pick<JobPlace, "project">,
  controls: Pick<JobControls, "signal" | "onProgress">,
): Promise<VerbFound> => runVerb(await loadVerb(verb), input, how, place, controls);
