// Verbs as the page has them: their forms, and the job that runs any of them.
import { plainFigures } from "../../figures/index.js";
import { callVerb, checkInput, type Verb, verbFields } from "../../verbs/shared/index.js";
import type { VerbFound, VerbReference } from "../protocol/index.js";
import type { JobControls, JobPlace } from "./kinds.js";

/** What the page makes a form of. */
export const verbReference = (verb: Verb): VerbReference => ({
  name: verb.name,
  description: verb.description,
  fields: verbFields({ ...verb, closed: Object.keys(verb.schema.shape) }),
  canReplace: verb.options.force !== undefined,
  canResume: verb.options.resume !== undefined,
});

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
