// Runs tasks on what an input names: a model here, or behind a server. What can be refused is refused before it is opened.
import {
  type Backend,
  type Evaluation,
  evaluate as evaluateOn,
  loadTasks,
  modelBackend,
  openSandbox,
  ResultFolder,
  type EvaluateOptions as RunOptions,
  withoutLogin,
} from "../evaluate/index.js";
import { type DataAccess, hubLoader, openTasks, type Task } from "../evaluate/tasks/index.js";
import { BACKENDS, type BackendName } from "../export/llama/index.js";
import { type CallOptions, own, usageError } from "../kit/index.js";
import { formatDuration } from "../kit/printing/index.js";
import type { EvalInput } from "./inputs.js";
import { factsOf, Model, type ModelInput, openModel } from "./model.js";
import type { FolderOptions } from "./options.js";
import { MergePlan } from "./plan-merge.js";
import { openServer, openStarted } from "./server-backend.js";
import type { VerbOptions, WorkOptions } from "./verb.js";

export const BACKEND_WORDS =
  "engine, llama (llama.cpp), openai:URL (vLLM, SGLang and others), or serve:'COMMAND {model} {port}', which starts and stops your " +
  "own server";

/** What runs the evaluated model. */
export interface OpenedBackend {
  readonly backend: Backend;
  /** What results call the model, if nothing else says. */
  readonly name: string;
  /** Address of the server, where there is one. */
  readonly url?: string | undefined;
  /** What a person should know of the model; usually empty. */
  readonly notes?: readonly string[];
  close(): Promise<void>;
}

/** Options of `evaluateTasks`. */
export interface TaskRunOptions
  extends Omit<RunOptions, "tasks" | "loaded" | "backend" | "source" | "sandbox" | "url">,
    Omit<Parameters<typeof openSandbox>[0], "allowCode"> {
  readonly source?: string | undefined;
  readonly allowCode?: boolean | undefined;
  readonly data: DataAccess;
  /** Whether `open` opens a model on this machine: it takes longer than the data, which is read first. Default: false. */
  readonly opensModel?: boolean | undefined;
}

/** Evaluates on opened tasks. What can be refused is refused before `open` opens the model, which may take minutes. */
export async function evaluateTasks(
  tasks: readonly Task[],
  options: TaskRunOptions,
  open: () => Promise<OpenedBackend>,
): Promise<Evaluation & { readonly notes: readonly string[] }> {
  const { out, resume = false, allowCode = false, source } = options;
  if (out !== undefined) await ResultFolder.check(out, resume);
  const isExecuted = tasks.some(({ executes }) => executes);
  const sandbox = isExecuted ? await openSandbox({ ...options, allowCode }) : undefined;
  const loaded = options.opensModel ? await loadTasks(tasks, options) : undefined;
  const { backend, name, url, notes = [], close } = await open();
  try {
    const found = await evaluateOn({ ...options, tasks, loaded, backend, url, sandbox, source: source ?? name });
    return { ...found, notes };
  } finally {
    await close();
  }
}

type Tasks = Pick<
  EvalInput,
  | "tasks"
  | "protocols"
  | "shots"
  | "prompts"
  | "tokenize"
  | "maxNewTokens"
  | "temperature"
  | "topP"
  | "topK"
  | "repeats"
>;

/** The tasks of an input, and what their names were taken for. @throws as `openTasks` */
export async function tasksOf({ tasks: names, ...input }: Tasks) {
  const { protocols, shots, prompts, tokenize, maxNewTokens, temperature, topP, topK, repeats } = input;
  const notes: string[] = [];
  const tasks = await openTasks(names, {
    protocols,
    shots,
    prompts,
    tokenize,
    // The default is no setting.
    answers: { maxNewTokens, temperature: temperature || undefined, topP, topK, repeats },
    onNote: (note) => notes.push(note),
  });
  return { tasks, notes };
}

/** Data of tasks: a folder, or the hub. @param onNote called with each data set that was fetched */
export function taskData(folder: string | undefined, onNote?: VerbOptions["onNote"]): DataAccess {
  const loadRows = hubLoader({
    onProgress: ({ dataset, done, total }) => done === total && total > 0 && onNote?.(`fetched ${dataset}`),
  });
  return { folder, loadRows };
}

/** What an input says of the backend. */
export interface BackendInput
  extends Omit<Partial<EvalInput>, "source" | "backend">,
    Pick<VerbOptions, "onNote">,
    Pick<WorkOptions, "threads">,
    Pick<CallOptions, "signal">,
    FolderOptions {
  readonly backend?: string | Backend | undefined;
}

/** Whether a model is opened on this machine. */
export const opensModel = (source: ModelInput | Model, { backend }: Pick<BackendInput, "backend">): boolean =>
  !(source instanceof Model) && (backend === undefined || isLocal(backend));

const isLocal = (backend: unknown): backend is BackendName => BACKENDS.some((name) => name === backend);

/** Opens what an input says runs the model. @throws LayergraftError code `usage` for an unknown backend */
export async function openBackend(source: ModelInput | Model, input: BackendInput): Promise<OpenedBackend> {
  const stays = async () => {};
  const { batch, templateVariables, backend: chosen, type, generationConfig } = input;
  if (typeof chosen === "object") {
    if (templateVariables) throw usageError("templateVariables: pass them to the function that opens the backend");
    return { backend: chosen, name: nameOf(source), close: stays };
  }
  if (chosen !== undefined && !isLocal(chosen)) return openOther(chosen, source, input);
  if (source instanceof Model) {
    if ((chosen ?? type ?? generationConfig) !== undefined)
      throw usageError(`${source.name} is open already. Pass backend, type and generationConfig to openModel.`);
    const backend = await modelBackend(Model.engineOf(source), { batch, templateVariables });
    return { backend, name: source.name, close: stays };
  }
  const { threads, providers, signal, hub, folder, onNote } = input;
  let computed = 0;
  const model = await openModel(source, {
    backend: chosen,
    type,
    threads,
    providers,
    generationConfig,
    signal,
    hub,
    folder,
    onProgress: (progress) => {
      computed = progress.total;
      hub?.onProgress?.(progress);
    },
  });
  onNote?.(`${model.name}: ${factsOf(model, computed).join(", ")}`);
  for (const note of model.notes) onNote?.(`note: ${note}`);
  const backend = await modelBackend(Model.engineOf(model), { batch, templateVariables });
  const name = typeof source === "string" ? source : model.name;
  return { backend, name, notes: model.notes, close: () => model.close() };
}

/** Opens a server that runs, or starts one. */
function openOther(chosen: string, source: ModelInput | Model, input: BackendInput): Promise<OpenedBackend> {
  const [, kind, rest = ""] = /^(openai|serve)[^a-z](.+)$/s.exec(chosen) ?? [];
  if (kind === undefined) throw usageError(`unknown backend "${withoutLogin(chosen)}"; use ${BACKEND_WORDS}`);
  const { apiKeyEnv, onNote, ...options } = input;
  let notedAt = 0;
  return (kind === "serve" ? openStarted : openServer)(rest, nameOf(source), {
    ...options,
    apiKey: keyIn(apiKeyEnv),
    onStart: (log) => onNote?.(`starting the server; its output goes to ${log}`),
    onWait: ({ seconds, lastLine }) => {
      if (seconds - notedAt < 10) return;
      notedAt = seconds;
      const said = lastLine ? `: ${lastLine.slice(0, 120)}` : "";
      onNote?.(`waiting for the server, ${formatDuration(seconds)} so far${said}`);
    },
  });
}

/** A key comes only from the environment: other users of the machine can see a command line. */
function keyIn(name: string | undefined): string | undefined {
  if (name === undefined) return undefined;
  const key = own(process.env, name);
  if (key) return key;
  throw usageError(`${name}, which is to have the server's key: the environment variable is not set`);
}

function nameOf(source: ModelInput | Model): string {
  if (typeof source === "string") return source;
  return source instanceof Model ? source.name : source instanceof MergePlan ? source.recipe.method : source.method;
}
