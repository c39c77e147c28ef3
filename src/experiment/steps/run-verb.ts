// A verb as a step of an experiment: models are those of the step, and notes and progress are the step's own.
import type { z } from "zod";
import type { Progress } from "../../kit/index.js";
import { type Controls, callVerb, checkInput, type Noted, type Verb } from "../../verbs/shared/index.js";
import type { StepContext } from "./run-step.js";
import { stepKey } from "./step.js";
import { withFolders } from "./step-state.js";

/** What a verb plans. */
export type Planned<V> = V extends Verb<infer _S, infer _R, infer _P, infer Plan> ? Plan : never;

/** How a step runs a verb. */
export interface VerbHow<V> extends Pick<Controls<Progress, Planned<V>>, "onPlan" | "resume" | "force"> {
  /** What else the progress of the step says. Default: the phase. */
  readonly detail?: V extends Verb<infer _S, infer _R, infer P, infer _Plan> ? (progress: P) => string : never;
}

/**
 * The key of a step that runs a verb: a digest of its input with defaults. Where a verb writes, and how it is carried out, is not
 * part of it.
 * @param input its models are identities
 */
export function verbKey(
  verb: Pick<Verb, "name" | "schema" | "check" | "asGiven">,
  input: Readonly<Record<string, unknown>>,
): string {
  const { out: _, ...checked } = checkInput(verb, input) as Record<string, unknown>;
  return stepKey("verb", { verb: verb.name, ...checked });
}

/** Runs a verb as a step. The step keeps its notes and warnings. @param input its models may be identities of the step's */
export async function runVerb<Schema extends z.ZodObject, Result extends Noted, P extends Progress, Plan>(
  verb: Verb<Schema, Result, P, Plan>,
  input: unknown,
  { folders, settings, signal, onProgress, note }: StepContext,
  { detail, ...options }: VerbHow<Verb<Schema, Result, P, Plan>> = {},
): Promise<Result> {
  const { folder, threads, started } = settings;
  const say = (detail ?? (({ phase }: Progress) => phase)) as (progress: P) => string;
  const result = await callVerb(verb, withFolders(input as never, folders), {
    ...options,
    folder,
    signal,
    ...(started === undefined ? {} : { started: new Date(started) }),
    ...(verb.options.threads === undefined || threads === undefined ? {} : { threads }),
    onProgress: (progress) => onProgress?.(progress.done / Math.max(1, progress.total), say(progress)),
  });
  for (const text of [...result.notes, ...result.warnings]) note(text);
  return result;
}
