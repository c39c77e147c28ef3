// Two configurations of a run, and the fields in which they differ. Knows no schema: any JSON will do.
import { isObject, own, RecipeError } from "../../core/index.js";

/** A field that is not the same: what it was, and what it is now; undefined where there is no such field. */
export interface Difference {
  /** Such as `optimizer.lr` or `data[1].weight`. */
  readonly field: string;
  readonly saved: unknown;
  readonly current: unknown;
}

/** The fields in which two configurations differ, in the order of the first, then what only the second has. */
export function configurationDifferences(saved: unknown, current: unknown, field = ""): Difference[] {
  if (Array.isArray(saved) && Array.isArray(current)) {
    const length = Math.max(saved.length, current.length);
    return Array.from({ length }, (_, i) => i).flatMap((i) =>
      configurationDifferences(saved[i], current[i], `${field}[${i}]`),
    );
  }
  if (isObject(saved) && isObject(current)) {
    const keys = new Set([...Object.keys(saved), ...Object.keys(current)]);
    return [...keys].flatMap((key) =>
      configurationDifferences(own(saved, key), own(current, key), field === "" ? key : `${field}.${key}`),
    );
  }
  return JSON.stringify(saved) === JSON.stringify(current) ? [] : [{ field, saved, current }];
}

/** Fields that may change: where, when and in which form to save, and threads, which change a sum's last bits at most. */
const FREE = /^(out|threads|save_dtype|revert|lora\.merge|checkpoints\.(keep|every_samples))(\.|\[|$)/;

export interface ResumeParts {
  readonly configuration: unknown;
  /** Digests of what is read, by a name for people. */
  readonly inputs: Readonly<Record<string, string>>;
}

/**
 * Refuses to resume a run with another configuration or other inputs than it began with.
 * @throws {RecipeError} with every field that differs
 */
export function requireSameRun(saved: ResumeParts, current: ResumeParts): void {
  const differences = configurationDifferences(saved.configuration, current.configuration);
  const problems = differences.filter(({ field }) => !FREE.test(field)).map(describeDifference);
  for (const { field, saved: was, current: is } of configurationDifferences(saved.inputs, current.inputs)) {
    if (was === undefined) problems.push(`${field} was not read before`);
    else problems.push(is === undefined ? `${field} was read before and is not now` : `${field} has changed since`);
  }
  if (problems.length === 0) return;
  throw new RecipeError(
    "a run resumes only as it began; start a new one in another folder, or undo these changes:",
    problems,
  );
}

function describeDifference({ field, saved, current }: Difference): string {
  const show = (value: unknown) => (value === undefined ? "not there" : JSON.stringify(value));
  return `${field} was ${show(saved)} and is ${show(current)}`;
}
