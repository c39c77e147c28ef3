import { own, RecipeError } from "../kit/index.js";
import { formatSome } from "../kit/printing/index.js";
import {
  type ComparableResults,
  type ComparableSample,
  type ComparableTask,
  openComparable,
} from "./results/comparable.js";
import { holmAdjust } from "./scoring/holm.js";
import { detectableDifference, itemsNeeded } from "./scoring/power.js";
import { type Comparison, compareItems, compareRuns } from "./scoring/scores.js";
import { answerWords, type Metric } from "./tasks/open-tasks.js";

export interface CompareResultsOptions {
  /**
   * Results to compare: folders or files of layergraft or lm-evaluation-harness. A list in place of one is a method with
   * several runs, such as seeds. Every method after the first is compared with the first.
   */
  readonly results: readonly (string | readonly string[])[];
  /** Random seed of the bootstrap. Default: 0. */
  readonly seed?: number | undefined;
  /** Resamples of the bootstrap. Default: 1000. */
  readonly resamples?: number | undefined;
  /** Share of the items that is expected to flip, for `detectable`. Default: the share that flipped. */
  readonly discordance?: number | undefined;
}

/** A method on a metric, against the first method. */
export interface MethodComparison extends Comparison {
  /** Its place in `methods`, from 1. */
  readonly method: number;
  /** `pValue` with Holm's correction for all methods compared with the first one on this metric. */
  readonly pAdjusted: number | undefined;
  /**
   * The smallest difference that these items show with 80% power at 5%, corrected for the number of methods;
   * undefined where they show none, or nothing is known about the spread.
   */
  readonly detectable: number | undefined;
  /**
   * Items with which a true difference of the size that was found is shown with 80% power at 5%, corrected in the same way;
   * undefined of methods of several runs, and where no number of items is enough.
   */
  readonly needed: number | undefined;
}

export interface TaskComparison extends Omit<ComparableTask, "judging" | "read"> {
  /** Items with tied choices, in the result that has most of them. */
  readonly tied: number;
  readonly comparisons: readonly MethodComparison[];
}

export interface ComparedMethod {
  /** What was evaluated, and by what; with the path, if another method has the same. */
  readonly name: string;
  readonly program: ComparableResults["program"];
  readonly runs: readonly string[];
}

export interface ResultsComparison {
  readonly methods: readonly ComparedMethod[];
  readonly tasks: readonly TaskComparison[];
  /** Tasks that are not compared, each with the reason. */
  readonly skipped: readonly { readonly task: string; readonly reason: string }[];
}

/**
 * Compares evaluations on the items that all have.
 * @throws RecipeError if there are no results at a path, they are of different programs, or no task was asked in the same
 *   way in all
 */
export async function compareResults(options: CompareResultsOptions): Promise<ResultsComparison> {
  const paths = options.results.map((one) => (typeof one === "string" ? [one] : one));
  if (paths.length < 2 || paths.some((runs) => runs.length === 0)) {
    throw new RecipeError("compare needs at least two results");
  }
  const methods: ComparableResults[][] = [];
  for (const runs of paths) methods.push(await Promise.all(runs.map(openComparable)));
  const all = methods.flat();
  const programs = [...new Set(all.map(({ program }) => program))];
  if (programs.length > 1) {
    throw new RecipeError(
      `the results are of ${programs.join(" and ")}, which ask and score in different ways; compare results of one program`,
    );
  }
  const tasks: TaskComparison[] = [];
  const skipped = all.flatMap(({ path, notes }) => notes.map((reason) => ({ task: path, reason })));
  const names = [...new Set(all.flatMap((results) => results.tasks.map(({ task }) => task)))];
  for (const name of names) {
    const found = methods.map((runs) => runs.map(({ tasks }) => tasks.find(({ task }) => task === name)));
    const missing = all.filter((_, i) => found.flat()[i] === undefined).map(({ path }) => path);
    const absent = missing.length === 0 ? undefined : `missing from ${formatSome(missing, 2)}`;
    const reason = absent ?? differenceOf(found.flat() as ComparableTask[]);
    const compared = reason ?? (await compareTask(found as ComparableTask[][], options));
    if (typeof compared === "string") skipped.push({ task: name, reason: compared });
    else tasks.push(compared);
  }
  if (tasks.length === 0) {
    const message = "the evaluations have no task in common that was asked in the same way:";
    throw new RecipeError(
      message,
      skipped.slice(0, 20).map(({ task, reason }) => `${task}: ${reason}`),
    );
  }
  const labels = methods.map(([one]) => one?.name ?? "");
  const described = methods.map((runs, i): ComparedMethod => {
    const { name, program } = runs[0] as ComparableResults;
    const several = runs.length > 1 ? `, ${runs.length} runs` : "";
    const at = labels.filter((label) => label === name).length > 1 ? `, ${paths[i]?.[0]}` : "";
    return { name: `${name}${at}${several}`, program, runs: paths[i] ?? [] };
  });
  return { methods: described, tasks, skipped };
}

function differenceOf([one, ...others]: readonly ComparableTask[]): string | undefined {
  if (!one) return undefined;
  for (const other of others) {
    if (one.protocol !== other.protocol) return `the protocols are ${one.protocol} and ${other.protocol}`;
    if (one.shots !== other.shots)
      return `one has ${one.shots ?? "unknown"} shots, the other ${other.shots ?? "unknown"}`;
    const [own, theirs] = [one, other].map(({ answers }) => answerWords(answers).join(", ") || "greedy");
    if (own !== theirs) return `answers were drawn in different ways: ${own}, and ${theirs}`;
    if (one.judging && other.judging && one.judging.digest !== other.judging.digest) {
      const names = [one, other].map(({ judging }) => judging?.names.join(", "));
      return names[0] === names[1]
        ? "answers were read or scored in different ways"
        : `the scores are ${names.join(" and ")}`;
    }
  }
  return undefined;
}

/** Of what was asked, how much differs between two runs: `12 of 250 prompts differ`. */
function changedQuestions(first: readonly ComparableSample[], second: readonly ComparableSample[]): string | undefined {
  const asked = new Map(first.map(({ id, asked }) => [id, asked]));
  const pairs = second.flatMap((sample) => {
    const other = asked.get(sample.id);
    return other ? [[other, sample.asked] as const] : [];
  });
  const kinds = [...new Set(pairs.flatMap(([one, other]) => Object.keys(one).filter((kind) => kind in other)))];
  const changes = kinds.flatMap((kind) => {
    const changed = pairs.filter(([one, other]) => kind in one && kind in other && one[kind] !== other[kind]).length;
    return changed === 0 ? [] : [`${changed} of ${pairs.length} ${kind}`];
  });
  return changes.length === 0
    ? undefined
    : `${changes.join(" and ")} differ, so the results are not of the same questions`;
}

async function compareTask(
  methods: readonly (readonly ComparableTask[])[],
  options: CompareResultsOptions,
): Promise<TaskComparison | string> {
  const read = await Promise.all(methods.map((runs) => Promise.all(runs.map((run) => run.read()))));
  const [reference = [], ...others] = read;
  const [[asked] = []] = methods;
  const runs = read.flat();
  const [first, ...rest] = runs;
  if (!first || !asked) return "has no samples";
  for (const { samples } of rest) {
    const changed = changedQuestions(first.samples, samples);
    if (changed !== undefined) return changed;
  }
  const shared = first.metrics.filter(
    (metric) =>
      runs.every((run) => run.metrics.some(({ name, by }) => name === metric.name && by === metric.by)) &&
      // Only one of them may have reasoned, or answered in letters.
      (!metric.isAside || haveCommon(metric.of, runs)),
  );
  const metrics = shared.filter(({ name }, i) => shared.findIndex((other) => other.name === name) === i);
  if (metrics.length === 0) return "has no metric that is a mean over items in all results";
  const comparisons = metrics.flatMap((metric) => {
    const found = others.map((runs, i) => ({ method: i + 1, ...compareMethods(metric, reference, runs, options) }));
    return together(found, options.discordance);
  });
  const tied = Math.max(...runs.map(({ tied = 0 }) => tied));
  const { task, title, protocol, shots, answers } = asked;
  return { task, title, protocol, shots, answers, settings: settingsOfAll(methods.flat()), tied, comparisons };
}

/** Comparisons that are made together: with Holm's correction for their number. @param discordance as of the options */
export function together<C extends Comparison & { readonly degrees?: number }>(
  found: readonly C[],
  discordance?: number,
): (C & Pick<MethodComparison, "pAdjusted" | "detectable" | "needed">)[] {
  const adjusted = holmAdjust(found.map(({ pValue }) => pValue));
  return found.map((one, i) => ({
    ...one,
    pAdjusted: adjusted[i],
    detectable: detectableIn(one, found.length, discordance),
    needed: neededFor(one, found.length),
  }));
}

/** The settings of all models; where they differ, those of each. */
function settingsOfAll(tasks: readonly ComparableTask[]): readonly string[] {
  const texts = new Set(tasks.map(({ settings = [] }) => settings.join(", ")));
  if (texts.size > 1) return [[...texts].map((text) => text || "no settings of the model").join(" against ")];
  return tasks[0]?.settings ?? [];
}

function haveCommon(of: string, runs: readonly Run[]): boolean {
  const judged = runs.map(
    ({ samples }) =>
      new Set(samples.flatMap(({ id, verdict }) => (verdict && own(verdict, of) !== undefined ? [id] : []))),
  );
  return [...(judged[0] ?? [])].some((id) => judged.every((ids) => ids.has(id)));
}

interface Run {
  readonly samples: readonly ComparableSample[];
}

function compareMethods(
  metric: Metric,
  first: readonly Run[],
  second: readonly Run[],
  { seed = 0, resamples = 1000 }: CompareResultsOptions,
): Comparison & { readonly degrees?: number } {
  const samplesOf = (runs: readonly Run[]) => runs.map(({ samples }) => samples);
  const [[one, ...before], [other, ...after]] = [samplesOf(first), samplesOf(second)];
  if (before.length + after.length === 0 && one && other) return compareItems(metric, one, other, { seed, resamples });
  return compareRuns(metric, samplesOf(first), samplesOf(second), { seed });
}

function detectableIn(
  { items, discordance, interval, degrees, scale }: Comparison & { readonly degrees?: number },
  comparisons: number,
  stated: number | undefined,
): number | undefined {
  if (discordance !== undefined)
    return detectableDifference({ items, discordance: stated ?? discordance }, { comparisons });
  if (!interval) return undefined;
  const found = detectableDifference({ standardError: interval.deviation, degrees }, { comparisons });
  // Shares differ by at most 1.
  return scale === "share" && found !== undefined && found > 1 ? undefined : found;
}

function neededFor(
  { items, difference, discordance, interval, degrees }: Comparison & { readonly degrees?: number },
  comparisons: number,
): number | undefined {
  // More items do not make runs alike.
  if (degrees !== undefined) return undefined;
  if (discordance !== undefined) return itemsNeeded(difference, { items, discordance }, { comparisons });
  return interval && itemsNeeded(difference, { items, standardError: interval.deviation }, { comparisons });
}
