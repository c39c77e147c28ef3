import { availableParallelism } from "node:os";
import pLimit from "p-limit";
import { groupBy, LayergraftError, own, RecipeError } from "../kit/index.js";
import { plural } from "../kit/printing/index.js";
import { askItems, type ItemAnswer } from "./ask-items.js";
import { keyOf, withCache } from "./backends/answer-cache.js";
import { stopped } from "./backends/backend.js";
import type { EvaluateOptions } from "./evaluate.js";
import type { ResultFolder } from "./results/folder.js";
import type { EvaluationSettings, Sample, TaskResult } from "./results/result-types.js";
import { averageRepeats, scoreItems } from "./scoring/scores.js";
import { isTie } from "./tasks/multiple-choice.js";
import { type Executor, type Item, type Metric, repeatItems, type Task, type Verdict } from "./tasks/open-tasks.js";
import { judgingDigest, promptsDigest, protocolId } from "./tasks/protocol.js";

export interface EvaluationProgress {
  readonly task: string;
  readonly title: string;
  /** Place of the task among all, from 1. */
  readonly number: number;
  readonly tasks: number;
  /** Answers with a verdict, or known to get none. */
  readonly done: number;
  readonly total: number;
  /** Of those done: the task's headline; undefined before the first verdict. */
  readonly score: number | undefined;
  readonly metric: string;
  readonly scale: Metric["scale"];
  /** Items without an answer so far. */
  readonly refused: number;
  /** Of those asked now, not of those kept from an earlier run; undefined before the first. */
  readonly itemsPerSecond: number | undefined;
}

export interface LoadedTask {
  readonly task: Task;
  readonly items: readonly Item[];
  readonly notes: readonly string[];
}

/** After as many answers that were all refused, the task stops. */
const HOPELESS = 20;
/** Programs at once: each is two Python processes whose time counts. */
const MAX_EXECUTIONS = 4;

export interface TaskRunOptions
  extends Pick<
    EvaluateOptions,
    "backend" | "sandbox" | "seed" | "signal" | "skipUnanswered" | "onProgress" | "onSample"
  > {
  /** Place of the task among all, from 1, and how many there are. */
  readonly number: number;
  readonly tasks: number;
  readonly folder: ResultFolder | undefined;
  /** Time that chat templates write. */
  readonly now: Date;
  /** Beginnings of prompts by digest; filled. */
  readonly shared: Record<string, unknown>;
}

export class TaskRun {
  readonly #loaded: LoadedTask;
  readonly #options: TaskRunOptions;
  /** The items, each as often as it is answered. */
  readonly #asked: readonly Item[];
  readonly #samples: (Sample | undefined)[];
  readonly #answers: (ItemAnswer | undefined)[] = [];
  readonly #sums: number[] = [];
  #judged = 0;
  #done = 0;
  #refused = 0;
  #lastError = "";
  #answered = 0;
  /** Answers that were there from an earlier run. */
  #cached = 0;
  readonly #started = performance.now();
  #seconds = 0;

  constructor(loaded: LoadedTask, options: TaskRunOptions) {
    this.#loaded = loaded;
    this.#options = options;
    this.#asked = repeatItems(loaded.items, loaded.task.answers, options.seed ?? 0);
    this.#samples = this.#asked.map(() => undefined);
  }

  async ask(): Promise<void> {
    const [{ task }, items] = [this.#loaded, this.#asked];
    const { folder, now, signal } = this.#options;
    const failure = new AbortController();
    const combined = AbortSignal.any([failure.signal, ...(signal ? [signal] : [])]);
    const { backend: direct } = this.#options;
    const backend = folder ? withCache(direct, folder.cache, () => this.#cached++) : direct;
    const limit = pLimit(task.executes ? Math.min(MAX_EXECUTIONS, availableParallelism()) : items.length);
    const judging: Promise<void>[] = [];
    let first: unknown;
    const fail = (error: unknown): void => {
      first ??= error;
      failure.abort();
    };
    this.#report();
    try {
      const onAnswer = (index: number, answer: ItemAnswer) => {
        this.#answers[index] = answer;
        this.#answered++;
        if (answer.error !== undefined) {
          this.#refused++;
          this.#lastError = answer.error;
          if (this.#refused >= HOPELESS && this.#refused === this.#answered) fail(this.#hopeless());
        }
        judging.push(limit(() => this.#judge(index, answer, combined)).catch(fail));
      };
      await askItems(task, items, { backend, now, onAnswer, signal: combined });
    } catch (error) {
      fail(error);
    }
    await Promise.all(judging);
    if (first !== undefined) throw first;
    if (signal?.aborted) throw stopped();
    if (this.#refused === items.length) throw this.#hopeless();
    this.#seconds = (performance.now() - this.#started) / 1000;
  }

  #hopeless(): LayergraftError {
    return new LayergraftError(
      "backend",
      `${this.#loaded.task.name}: no answer to ${plural(this.#refused, "request")}; the last one was refused: ${this.#lastError}`,
    );
  }

  async #judge(index: number, answer: ItemAnswer, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { task } = this.#loaded;
    const item = this.#asked[index] as Item;
    const reading = answer.output === undefined ? undefined : task.read(item, answer.output);
    let execution: Sample["execution"];
    const executor: Executor = {
      run: async (parts, { reference } = {}) => {
        execution = await this.#execute(parts, reference, signal);
        return execution;
      },
    };
    const given = reading && (await task.score(item, reading, { executor, signal }));
    const isAnswered = answer.output !== undefined && ![answer.output].flat().includes(null);
    const verdict = given ?? (isAnswered || this.#options.skipUnanswered ? undefined : await this.#wrong(item, signal));
    const sample: Sample = {
      id: item.id,
      ...(item.group === undefined ? {} : { group: item.group }),
      ...(item.kind === "generate" && (task.answers?.repeats ?? 1) > 1 ? { repeat: item.sampling?.repeat } : {}),
      prompt: this.#promptOf(item),
      gold: item.gold,
      output: answer.output ?? null,
      ...(answer.finish === undefined ? {} : { finish: answer.finish }),
      ...(answer.error === undefined ? {} : { fault: answer.error }),
      reading: reading ?? null,
      ...(execution === undefined ? {} : { execution }),
      verdict: verdict ?? null,
    };
    this.#samples[index] = sample;
    this.#count(verdict);
    this.#options.onSample?.(task, sample, item, index);
    this.#report();
  }

  /** The verdict of an item without an answer: shares are 0, and a corpus has an empty text in its place. */
  async #wrong(item: Item, signal: AbortSignal): Promise<Verdict> {
    const { task } = this.#loaded;
    const hasCorpus = item.kind === "generate" && task.metrics.some(({ by }) => by === "corpus");
    const empty = hasCorpus ? await task.score(item, task.read(item, ""), { signal }) : undefined;
    const shares = task.metrics
      .filter(({ by, isAside }) => by !== "corpus" && !isAside)
      .map(({ of }) => [of, 0] as const);
    return { ...empty, ...Object.fromEntries(shares) };
  }

  /** Executes a program once. The outcome is stored like an answer, as a second run might be slower. */
  async #execute(
    parts: Parameters<Executor["run"]>[0],
    reference: string | undefined,
    signal: AbortSignal,
  ): ReturnType<Executor["run"]> {
    const { sandbox, folder } = this.#options;
    if (!sandbox) throw new RecipeError("programs need a sandbox; pass one (openSandbox)");
    const key = keyOf("execution", sandbox.identity, parts, reference);
    const kept = folder?.cache.get(key) as Sample["execution"];
    if (kept) return kept;
    const { outcome, detail } = await sandbox.run(parts, { reference, signal });
    folder?.cache.put(key, { outcome, detail });
    return { outcome, detail };
  }

  /** The prompt for the samples, with the digest of its shared beginning. */
  #promptOf({ prompt }: Item): Sample["prompt"] {
    const beginning = prompt.form === "text" ? prompt.shared : prompt.messages.slice(0, prompt.shared);
    const digest = keyOf(beginning).slice(0, 16);
    this.#options.shared[digest] = beginning;
    return prompt.form === "text"
      ? { shared: digest, own: prompt.own }
      : { shared: digest, messages: prompt.messages.slice(prompt.shared) };
  }

  #count(verdict: Verdict | undefined): void {
    this.#done++;
    const value = verdict?.[this.#headline().of];
    if (value === undefined) return;
    this.#judged++;
    for (const [i, one] of (typeof value === "number" ? [value] : value).entries()) {
      this.#sums[i] = (this.#sums[i] ?? 0) + one;
    }
  }

  #headline(): Metric {
    const [metric] = this.#loaded.task.metrics;
    if (!metric) throw new TypeError(`the task ${this.#loaded.task.name} has no metric`);
    return metric;
  }

  /** Means of groups are shown as the mean of all until they are complete. */
  #scoreSoFar(): number | undefined {
    if (this.#judged === 0) return undefined;
    const { by, score } = this.#headline();
    return by === "corpus" ? score?.(this.#sums) : (this.#sums[0] ?? 0) / this.#judged;
  }

  #report(): void {
    const { onProgress, number, tasks } = this.#options;
    const { task } = this.#loaded;
    const { name: metric, scale } = this.#headline();
    onProgress?.({
      task: task.name,
      title: task.title,
      number,
      tasks,
      done: this.#done,
      total: this.#asked.length,
      score: this.#scoreSoFar(),
      metric,
      scale,
      refused: this.#refused,
      itemsPerSecond: this.#rate(),
    });
  }

  /** Items per second, of those that were computed. */
  #rate(): number | undefined {
    const [count, seconds] = [this.#done - this.#cached, (performance.now() - this.#started) / 1000];
    return count > 0 && seconds > 0 ? count / seconds : undefined;
  }

  times(): { seconds: number; itemsPerSecond: number | null } {
    return { seconds: this.#seconds, itemsPerSecond: this.#rate() ?? null };
  }

  samples(): readonly Sample[] {
    return this.#samples.flatMap((sample) => sample ?? []);
  }

  result({ seed, resamples }: EvaluationSettings): TaskResult {
    const { task, items, notes } = this.#loaded;
    const samples = this.samples();
    const isSeen = ({ of }: Metric) => samples.some(({ verdict }) => verdict && own(verdict, of) !== undefined);
    const metrics = task.metrics.filter((metric) => !metric.isAside || isSeen(metric));
    const executions = countBy(samples.flatMap(({ execution }) => execution?.outcome ?? []));
    delete executions.passed;
    delete executions.failed;
    return {
      task: task.name,
      title: task.title,
      ...(task.benchmark ? { benchmark: task.benchmark } : {}),
      protocol: protocolId(task.protocol),
      shots: task.shots,
      ...(task.answers ? { answers: task.answers } : {}),
      promptsDigest: promptsDigest(items),
      judgingDigest: judgingDigest(task),
      items: items.length,
      notes,
      answeredBy: countBy(this.#answers.flatMap((answer) => answer?.by ?? [])),
      problems: {
        refused: this.#refused,
        missing: samples.filter(({ output }) => Array.isArray(output) && output.includes(null)).length,
        tied: samples.filter(({ output }) => isTie(output)).length,
        unscored: samples.filter(({ verdict }) => verdict === null).length,
        cut: samples.filter(({ finish }) => finish === "length").length,
        ...(task.executes ? { executions } : {}),
      },
      ...(task.protocol.ties === undefined ? {} : { ties: task.protocol.ties }),
      metrics: metrics.map(({ score: _, ...metric }) => metric),
      scores: scoreItems(metrics, averageRepeats(samples), { seed, resamples }),
    };
  }
}

/** How often each word occurs, sorted, so that files do not depend on the order of answers. */
function countBy(words: readonly string[]): Record<string, number> {
  const counts = [...groupBy([...words].sort(), (word) => word)].map(([word, { length }]) => [word, length]);
  return Object.fromEntries(counts) as Record<string, number>;
}
