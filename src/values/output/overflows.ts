// What a run says of values that the written type cannot hold.
import { formatSome, LayergraftError, plural } from "../../core/index.js";
import { type Job, type RunResult, resultsByJob } from "../../weights/index.js";

/**
 * Tensors with values beyond float16, which became infinite, and their numbers.
 * @param name of the model, for errors
 * @throws LayergraftError code `broken-model` if blocks have values that are not finite or too large
 */
export function overflowsOf(outcome: RunResult, jobs: readonly Job[], name = "the model"): Map<string, number> {
  const results = resultsByJob(outcome, jobs.length);
  const counts = results.map((pieces) => pieces.reduce((sum, piece) => sum + (piece[0] ?? 0), 0));
  const affected = jobs.flatMap((job, i) => {
    const count = job.kind === "write" || job.kind === "encode" ? (counts[i] ?? 0) : 0;
    return count > 0 ? [{ job, count }] : [];
  });
  const broken = affected.flatMap(({ job }) => (job.kind === "encode" && job.encoding !== "F16" ? [job.name] : []));
  if (broken.length > 0) {
    throw new LayergraftError(
      "broken-model",
      `${name} has values that are not finite or too large in ${formatSome(broken)}. Find the broken weights with layergraft analyze.`,
    );
  }
  return new Map(affected.map(({ job, count }) => [job.name, count]));
}

/** @param advice what to do instead */
export function overflowWarnings(overflows: ReadonlyMap<string, number>, advice: string): string[] {
  if (overflows.size === 0) return [];
  const values = [...overflows.values()].reduce((sum, count) => sum + count, 0);
  const named = `${plural(overflows.size, "tensor")} (${formatSome([...overflows.keys()])})`;
  return [`${plural(values, "value")} in ${named} exceed the range of float16 and became infinite. ${advice}`];
}
