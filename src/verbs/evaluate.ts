import {
  type Backend,
  type Evaluation,
  evaluate as evaluateOn,
  loadTasks,
  modelBackend,
  openSandbox,
  ResultFolder,
  type Results,
  type EvaluateOptions as RunOptions,
  type Sample,
} from "../evaluate/index.js";
import type { Score } from "../evaluate/scoring/index.js";
import { type DataAccess, hubLoader, type OpenTasksOptions, openTasks, type Task } from "../evaluate/tasks/index.js";
import { type CallOptions, type Progress, RecipeError, usageError } from "../kit/index.js";
import { type GenerateOptions, Model, type ModelInput, type OpenModelOptions, openModel } from "./model.js";
import { MergePlan } from "./plan-merge.js";

/** Progress of an evaluation; `done` and `total` are items of one task. */
export interface EvaluateProgress extends Progress {
  /** Name of the task, such as `mgsm_sw`. */
  readonly task: string;
  /** Score of the items so far; undefined before the first verdict. */
  readonly score: number | undefined;
}

/** Options of `evaluate`. */
export interface EvaluateOptions
  extends CallOptions<EvaluateProgress>,
    Pick<RunOptions, "out" | "resume" | "limit" | "seed" | "resamples">,
    Pick<OpenTasksOptions, "protocols" | "shots">,
    Pick<OpenModelOptions, "type" | "generationConfig">,
    Pick<GenerateOptions, "templateVariables"> {
  /** Tasks by name, such as `mgsm_sw` or `paper`, and paths of task files. */
  readonly tasks: readonly string[];
  /** What results call the model. Default: the source, or the name of an opened model. */
  readonly name?: string | undefined;
  /** Folder with task data. Default: the hub. */
  readonly data?: string | undefined;
  /**
   * What runs the model: `engine`, `llama`, or a server's backend from `layergraft/evaluate`, such as `openOpenAI`, which
   * stays open. Default: `llama` for GGUF files, else `engine`.
   */
  readonly backend?: OpenModelOptions["backend"] | Backend;
  /** Prompts that the engine or llama.cpp computes at once. Default: 8. */
  readonly batch?: number | undefined;
  /** Threads of the engine or llama.cpp. Default: one per core. */
  readonly threads?: number | undefined;
  /** Execute programs that the model wrote, confined (MBPP). Default: false. */
  readonly allowCode?: boolean | undefined;
  /** With `allowCode`: execute them even if the kernel cannot confine them. Default: false. */
  readonly unsafeCode?: boolean | undefined;
}

/** The main score of one task. */
export interface TaskScore extends Score {
  /** Name of the task, such as `mgsm_sw`. */
  readonly task: string;
  /** Full name and version of the protocol; scores of different protocols cannot be compared. */
  readonly protocol: string;
}

/** Result of `evaluate`. */
export interface EvaluateResult {
  /** The main score of each task, in the order of the tasks. */
  readonly scores: readonly TaskScore[];
  /** All scores, with everything that they depend on. */
  readonly results: Results;
  /** Every prompt, answer and verdict, by task. */
  readonly samples: Readonly<Record<string, readonly Sample[]>>;
}

/**
 * Evaluates a model.
 * @param source a source for `openModel`, or an opened model, which stays open; with `backend`, the model's name in
 *   results
 * @throws RecipeError for an unknown task, or a task that executes programs without `allowCode`
 * @throws LayergraftError with code `data` for missing data, `backend` or `server` if the backend does not answer
 * @throws OutputError if `out` holds another evaluation
 * @throws CancelledError if the signal fires; `resume` continues
 */
export async function evaluate(source: ModelInput | Model, options: EvaluateOptions): Promise<EvaluateResult> {
  if (!Array.isArray(options?.tasks)) throw new RecipeError('tasks must be a list, such as ["mgsm_sw"]');
  const { data, protocols, shots, onProgress, name, backend: _, ...rest } = options;
  const settings: TaskRunOptions = {
    ...rest,
    source: name,
    opensModel: typeof options.backend !== "object" && !(source instanceof Model),
    data: { folder: data, loadRows: hubLoader() },
    onProgress:
      onProgress &&
      (({ title, done, total, task, score }) => onProgress({ phase: title, done, total, unit: "items", task, score })),
  };
  const tasks = await openTasks(options.tasks, { protocols, shots });
  const { results, samples } = await evaluateTasks(tasks, settings, () => openBackend(source, options));
  const scores = results.tasks.flatMap(({ task, protocol, scores: [main] }) =>
    main ? [{ ...main, task, protocol }] : [],
  );
  return { scores, results, samples: Object.fromEntries(samples) };
}

/** What runs the evaluated model. */
export interface OpenedBackend {
  readonly backend: Backend;
  /** What results call the model, if nothing else says. */
  readonly name: string;
  /** Address of the server, where there is one. */
  readonly url?: string | undefined;
  close(): Promise<void>;
}

/** Options of `evaluateTasks`. */
export interface TaskRunOptions
  extends Omit<RunOptions, "tasks" | "loaded" | "backend" | "source" | "sandbox" | "url">,
    Omit<Parameters<typeof openSandbox>[0], "allowCode">,
    Pick<EvaluateOptions, "allowCode"> {
  readonly source?: string | undefined;
  readonly data: DataAccess;
  /** Whether `open` opens a model on this machine: it takes longer than the data, which is read first. Default: false. */
  readonly opensModel?: boolean | undefined;
}

/** Evaluates on opened tasks. What can be refused is refused before `open` opens the model, which may take minutes. */
export async function evaluateTasks(
  tasks: readonly Task[],
  options: TaskRunOptions,
  open: () => Promise<OpenedBackend>,
): Promise<Evaluation> {
  const { out, resume = false, allowCode = false, source } = options;
  if (out !== undefined) await ResultFolder.check(out, resume);
  const isExecuted = tasks.some(({ executes }) => executes);
  const sandbox = isExecuted ? await openSandbox({ ...options, allowCode }) : undefined;
  const loaded = options.opensModel ? await loadTasks(tasks, options) : undefined;
  const { backend, name, url, close } = await open();
  try {
    return await evaluateOn({ ...options, tasks, loaded, backend, url, sandbox, source: source ?? name });
  } finally {
    await close();
  }
}

async function openBackend(source: ModelInput | Model, options: EvaluateOptions): Promise<OpenedBackend> {
  const stays = async () => {};
  const { batch, templateVariables, threads, signal, backend: chosen, type, generationConfig } = options;
  if (typeof chosen === "object") {
    if (templateVariables) throw usageError("templateVariables: pass them to the function that opens the backend");
    return { backend: chosen, name: nameOf(source), close: stays };
  }
  const isOpen = source instanceof Model;
  if (isOpen && (chosen ?? type ?? generationConfig) !== undefined) {
    throw usageError(`${source.name} is open already. Pass backend, type and generationConfig to openModel.`);
  }
  const model = isOpen ? source : await openModel(source, { backend: chosen, type, threads, generationConfig, signal });
  const backend = await modelBackend(Model.engineOf(model), { batch, templateVariables });
  return {
    backend,
    name: typeof source === "string" ? source : model.name,
    close: isOpen ? stays : () => model.close(),
  };
}

function nameOf(source: ModelInput | Model): string {
  if (typeof source === "string") return source;
  return source instanceof Model ? source.name : source instanceof MergePlan ? source.recipe.method : source.method;
}
