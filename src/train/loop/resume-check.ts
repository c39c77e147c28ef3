// Whether a run to resume has the configuration and inputs that it started with.
import { type Difference, differencesOf, RecipeError } from "../../core/index.js";

/** Fields that may change: when and how to save, and threads, which change the last bits of sums at most. */
const FREE = /^(out|threads|save_dtype|revert|lora\.merge|checkpoints\.(keep|every_samples))(\.|\[|$)/;

export interface ResumeParts {
  readonly configuration: unknown;
  /** Digests of what is read, by a name for messages. */
  readonly inputs: Readonly<Record<string, string>>;
}

/** @throws RecipeError with every field and input that differs */
export function requireSameRun(saved: ResumeParts, current: ResumeParts): void {
  const differences = differencesOf(saved.configuration, current.configuration);
  const problems = differences.filter(({ field }) => !FREE.test(field)).map(describeDifference);
  for (const { field, saved: was, current: is } of differencesOf(saved.inputs, current.inputs)) {
    if (was === undefined) problems.push(`${field} was not read before`);
    else problems.push(is === undefined ? `${field} is not read any more` : `${field} has changed since`);
  }
  if (problems.length === 0) return;
  const message = "a run can only resume unchanged. Undo these changes, or start a new run in another folder:";
  throw new RecipeError(message, problems);
}

function describeDifference({ field, saved, current }: Difference): string {
  const show = (value: unknown) => (value === undefined ? "missing" : JSON.stringify(value));
  return `${field} was ${show(saved)} and is ${show(current)}`;
}
