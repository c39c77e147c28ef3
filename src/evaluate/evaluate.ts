import { LayergraftError, usageError, VERSION } from "../kit/index.js";
import { plural } from "../kit/printing/index.js";
import { wallClock } from "../text/index.js";
import { checkAbilities, choiceNotes } from "./ask-items.js";
import type { Backend } from "./backends/backend.js";
import { ANSWERS_FILE, ResultFolder } from "./results/folder.js";
import { type EvaluationSettings, FORMAT, type Results, type Sample, type TaskResult } from "./results/result-types.js";
import type { Sandbox } from "./sandbox/sandbox.js";
import { type EvaluationProgress, type LoadedTask, TaskRun } from "./task-run.js";
import { type DataAccess, type Executor, type Item, MISSING_DATA, type Task } from "./tasks/open-tasks.js";
import { judgingDigest, promptsDigest, protocolId } from "./tasks/protocol.js";

export interface EvaluateOptions {
  readonly tasks: readonly Task[];
  /** Runs the model; stays open. */
  readonly backend: Backend;
  readonly data: DataAccess;
  /** Tasks whose data was read before the backend was opened; the others are read. */
  readonly loaded?: readonly LoadedTask[] | undefined;
  /** What is evaluated, for the results: a path or a name. */
  readonly source: string;
  /** Folder for results, samples and answers. Default: nothing is written. */
  readonly out?: string | undefined;
  /** Resume an interrupted evaluation in `out`. Default: false. */
  readonly resume?: boolean | undefined;
  /** Time that chat templates write; a resumed evaluation keeps its own. Default: that of the call. */
  readonly now?: Date | undefined;
  /** Most items of each task. Default: all. */
  readonly limit?: number | undefined;
  /** Random seed of the bootstrap. Default: 0. */
  readonly seed?: number | undefined;
  /** Resamples of the bootstrap. Default: 1000. */
  readonly resamples?: number | undefined;
  /** Sandbox for programs (`openSandbox`). Tasks that execute programs are refused without it. */
  readonly sandbox?: (Executor & Pick<Sandbox, "identity">) | undefined;
  /** Server URL, stored in `run.json`. */
  readonly url?: string | undefined;
  /** Leaves items without an answer out of the scores. Default: they count as wrong. */
  readonly skipUnanswered?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with a task that the model cannot answer, and why; the others are scored. Default: the error is thrown. */
  readonly onFailure?: ((task: Task, error: LayergraftError) => void) | undefined;
  /**
   * Called before the model is asked, with damage to earlier answers, and with what makes scores mean little; the notes of the
   * results have the latter, too.
   */
  readonly onNote?: ((note: string) => void) | undefined;
  readonly onProgress?: ((progress: EvaluationProgress) => void) | undefined;
  /** Called with each sample, and its index among the items, when its verdict is known. */
  readonly onSample?: ((task: Task, sample: Sample, item: Item, index: number) => void) | undefined;
}

export interface Evaluation {
  readonly results: Results;
  readonly samples: ReadonlyMap<string, readonly Sample[]>;
}

/**
 * Runs an evaluation. Whatever can be refused is refused before the model is asked anything.
 * @throws LayergraftError code `usage` for tasks that execute programs where there is no sandbox
 * @throws LayergraftError code `data` for missing data, `backend` if the backend cannot answer a task or refuses every
 *   request, `server` if a server does not answer
 * @throws OutputError if `out` holds something else, or an evaluation with other settings
 * @throws CancelledError when the signal fires; answers so far stay in `out`
 */
export async function evaluate(options: EvaluateOptions): Promise<Evaluation> {
  const { backend, sandbox, out, resume = false } = options;
  const start = performance.now();
  const settings: EvaluationSettings = {
    limit: options.limit ?? null,
    seed: options.seed ?? 0,
    resamples: options.resamples ?? 1000,
    ...(options.skipUnanswered ? { skipUnanswered: true } : {}),
  };
  if (out !== undefined) await ResultFolder.check(out, resume);
  const executing = options.tasks.filter(({ executes }) => executes);
  if (executing.length > 0 && !sandbox) {
    throw usageError(`${executing[0]?.name} executes programs that the model wrote`, { option: "allowCode" });
  }
  const asked = options.tasks.map((declared) => (backend.renderChat && declared.asChat) || declared);
  const isRead = (task: Task) => options.loaded?.find((one) => one.task === task);
  const read = await loadTasks(
    asked.filter((task) => !isRead(task)),
    options,
  );
  const opened = asked.map((task) => isRead(task) ?? read.find((one) => one.task === task));
  const loaded: LoadedTask[] = [];
  for (const [i, declared] of options.tasks.entries()) {
    const { task, items, notes } = opened[i] as LoadedTask;
    checkAbilities(task, items, backend);
    const choices = items.filter((item) => item.kind === "choose");
    const found = backend.tokenizer ? choiceNotes(choices, backend.tokenizer) : [];
    for (const note of found) options.onNote?.(`${task.name}: ${note}`);
    const isChat =
      task === declared
        ? []
        : [`asked as a chat, as the model has a template; the protocol ${protocolId(declared.protocol)} asks without`];
    loaded.push({ task, items, notes: [...isChat, ...notes, ...found] });
  }
  const common = {
    format: FORMAT,
    layergraft: VERSION,
    source: options.source,
    backend: backend.identity,
    sandbox: executing.length > 0 ? (sandbox?.identity ?? null) : null,
    settings,
  };
  const begun = options.now ?? new Date();
  const folder =
    out === undefined ? undefined : await ResultFolder.open(out, settingsOf(common, loaded), resume, begun);
  const now = folder?.started ?? begun;
  const { size: kept = 0, damaged = 0 } = folder?.cache ?? {};
  if (damaged > 0) {
    const note = `${plural(damaged, "damaged line")} of ${ANSWERS_FILE} removed; what it answered is asked again`;
    options.onNote?.(note);
  }
  try {
    const tasks: TaskResult[] = [];
    const samples = new Map<string, readonly Sample[]>();
    const shared: Record<string, unknown> = {};
    const times: Record<string, { seconds: number; itemsPerSecond: number | null }> = {};
    for (const [index, one] of loaded.entries()) {
      const run = new TaskRun(one, { ...options, now, number: index + 1, tasks: loaded.length, folder, shared });
      try {
        await run.ask();
      } catch (error) {
        const isOwn = error instanceof LayergraftError && error.code === "backend";
        if (!isOwn || !options.onFailure || loaded.length === 1) throw error;
        options.onFailure(one.task, error);
        continue;
      }
      tasks.push(run.result(settings));
      samples.set(one.task.name, run.samples());
      times[one.task.name] = run.times();
      await folder?.writeSamples(one.task.name, run.samples());
    }
    const results: Results = { ...common, tasks };
    await folder?.writeResults(results, shared, {
      started: wallClock(now),
      seconds: (performance.now() - start) / 1000,
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

/**
 * Reads the data of all tasks.
 * @throws LayergraftError code `data`, `missing-data` or `hub`, with the problems of every task
 */
export async function loadTasks(
  tasks: readonly Task[],
  { data, limit, signal }: Pick<EvaluateOptions, "data" | "limit" | "signal">,
): Promise<LoadedTask[]> {
  const loaded: LoadedTask[] = [];
  const problems: LayergraftError[] = [];
  for (const task of tasks) {
    try {
      const { items, notes } = await task.load(data, { limit, signal });
      if (items.length === 0) throw new LayergraftError("data", `${task.name} has no items`);
      loaded.push({ task, items, notes });
    } catch (error) {
      if (!(error instanceof LayergraftError) || ![MISSING_DATA, "data", "hub"].includes(error.code)) throw error;
      problems.push(error);
    }
  }
  const [first] = problems;
  if (!first) return loaded;
  if (problems.length === 1) throw first;
  const lines = problems.map(({ message }) => `  - ${message}`);
  const summary = `The data of ${problems.length} of ${plural(tasks.length, "task")} cannot be read:`;
  throw new LayergraftError(first.code, [summary, ...lines].join("\n"), first.where);
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
          answers: task.answers,
          promptsDigest: promptsDigest(items),
          judgingDigest: judgingDigest(task),
        },
      ]),
    ),
  };
}
