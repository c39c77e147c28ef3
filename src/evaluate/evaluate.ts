// An evaluation from tasks to results: asks, reads, judges, scores, keeps. What is asked and how it is judged the tasks
// say; who answers, the backend.
import { LayergraftError, RecipeError, VERSION } from "../core/index.js";
import { checkAbilities } from "./ask.js";
import type { Backend } from "./backends/index.js";
import {
  type EvaluationSettings,
  FORMAT,
  ResultFolder,
  type Results,
  type Sample,
  type TaskResult,
} from "./results/index.js";
import { type EvaluationProgress, type LoadedTask, type SandboxedExecutor, TaskRun } from "./task-run.js";
import type { DataAccess, Item, Task } from "./tasks/index.js";
import { judgingDigest, promptsDigest, protocolId } from "./tasks/protocol.js";

export interface EvaluateOptions {
  readonly tasks: readonly Task[];
  /** Who answers; stays open. */
  readonly backend: Backend;
  readonly data: DataAccess;
  /** What is evaluated, for the results: a path or a name. */
  readonly source: string;
  /** Folder for results, samples and answers; without it nothing is written. */
  readonly out?: string | undefined;
  /** Go on with what a stopped run has left in `out`; default false. */
  readonly resume?: boolean | undefined;
  /** At most so many items of each task; default all. */
  readonly limit?: number | undefined;
  /** Of the bootstrap; default 0. */
  readonly seed?: number | undefined;
  /** Of the bootstrap; default 1000. */
  readonly resamples?: number | undefined;
  /** Where programs are executed (`openSandbox`); tasks that execute some are refused without it. */
  readonly sandbox?: SandboxedExecutor | undefined;
  /** Address of the server, kept beside the results. */
  readonly url?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: EvaluationProgress) => void) | undefined;
  /** Takes each sample, with its place among the items, when its verdict is there. */
  readonly onSample?: ((task: Task, sample: Sample, item: Item, index: number) => void) | undefined;
}

/** Results, and the samples they come from, by task. */
export interface Evaluation {
  readonly results: Results;
  readonly samples: ReadonlyMap<string, readonly Sample[]>;
}

/**
 * Evaluates. Everything that can be refused is refused before anything is asked.
 * @throws {RecipeError} for tasks that execute programs where there is no sandbox
 * @throws {LayergraftError} code `data` for missing data, `backend` for what the backend cannot answer or refuses again
 *   and again, `server` when a server stays away
 * @throws {OutputError} when `out` is taken, or was begun with other settings
 * @throws {CancelledError} when the signal fires; answers so far are kept in `out`
 */
export async function evaluate(options: EvaluateOptions): Promise<Evaluation> {
  const { backend, signal, sandbox, out, resume = false } = options;
  const started = new Date();
  const settings: EvaluationSettings = {
    limit: options.limit ?? null,
    seed: options.seed ?? 0,
    resamples: options.resamples ?? 1000,
  };
  if (out !== undefined) await ResultFolder.check(out, resume);
  const executing = options.tasks.filter(({ executes }) => executes);
  if (executing.length > 0 && !sandbox) {
    throw new RecipeError(
      `${executing[0]?.name} executes programs that the model wrote; allow it with --allow-code (a sandbox in the library)`,
    );
  }
  const loaded: LoadedTask[] = [];
  for (const task of options.tasks) {
    const { items, notes } = await task.load(options.data, { limit: options.limit, signal });
    if (items.length === 0) throw new LayergraftError("data", `${task.name} has no items`);
    checkAbilities(task, items, backend);
    loaded.push({ task, items, notes });
  }
  const common = {
    format: FORMAT,
    layergraft: VERSION,
    source: options.source,
    backend: backend.identity,
    sandbox: executing.length > 0 ? (sandbox?.identity ?? null) : null,
    settings,
  };
  const folder = out === undefined ? undefined : await ResultFolder.open(out, settingsOf(common, loaded), resume);
  const kept = folder?.cache.size ?? 0;
  try {
    const tasks: TaskResult[] = [];
    const samples = new Map<string, readonly Sample[]>();
    const shared: Record<string, unknown> = {};
    const times: Record<string, { seconds: number; itemsPerSecond: number | null }> = {};
    for (const [index, one] of loaded.entries()) {
      const run = new TaskRun(one, { ...options, number: index + 1, tasks: loaded.length, folder, shared });
      await run.ask();
      tasks.push(run.result(settings));
      samples.set(one.task.name, run.samples());
      times[one.task.name] = run.times();
      await folder?.writeSamples(one.task.name, run.samples());
    }
    const results: Results = { ...common, tasks };
    await folder?.writeResults(results, shared, {
      started: started.toISOString(),
      seconds: (Date.now() - started.getTime()) / 1000,
      node: process.version,
      platform: `${process.platform} ${process.arch}`,
      url: options.url ?? null,
      kept,
      tasks: times,
    });
    return { results, samples };
  } finally {
    await folder?.close();
  }
}

/** Everything that answers and scores depend on; a resumed run must have the same. */
function settingsOf(common: object, loaded: readonly LoadedTask[]): object {
  return {
    ...common,
    tasks: Object.fromEntries(
      loaded.map(({ task, items }) => [
        task.name,
        {
          protocol: protocolId(task.protocol),
          shots: task.shots,
          promptsDigest: promptsDigest(items),
          judgingDigest: judgingDigest(task),
        },
      ]),
    ),
  };
}
