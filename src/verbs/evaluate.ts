import { resolve } from "node:path";
import { z } from "zod";
import {
  type Backend,
  BLEU_TOKENIZERS,
  type LoadedTask,
  loadTasks,
  missingTokenizer,
  progressDetail,
  type Results,
  type Sample,
  scoreLines,
  scoreNotes,
} from "../evaluate/index.js";
import type { Score } from "../evaluate/scoring/index.js";
import { type Item, protocolId, type Task } from "../evaluate/tasks/index.js";
import { right } from "../figures/index.js";
import { type Progress, RecipeError } from "../kit/index.js";
import { plural } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import { sourceField } from "../merge/index.js";
import { BACKEND_WORDS, evaluateTasks, openBackend, opensModel, taskData, tasksOf } from "./evaluate-run.js";
import type { EvalInput } from "./inputs.js";
import { Model, type ModelInput } from "./model.js";
import { backendFields, MODEL_FLAGS, samplingFields, templateFields } from "./model-fields.js";
import { MergePlan } from "./plan-merge.js";
import {
  type Controls,
  checkInput,
  type Noted,
  type Verb,
  type VerbOptions,
  type WorkOptions,
  withHub,
} from "./verb.js";

const SECONDS = "must be a number of seconds, at most 86400";
const secondsField = (description: string, unset: string) =>
  z.number(SECONDS).gt(0, SECONDS).max(86_400, SECONDS).optional().meta({ description, unset });
const LEAST = "must be at least 1";
const countField = (description: string, unset?: string) =>
  z
    .int()
    .min(1, LEAST)
    .optional()
    .meta(unset === undefined ? { description } : { description, unset });
const flag = (description: string) => z.boolean().optional().meta({ description });

const runsCode = <T extends z.ZodType>(field: T): T => field.meta({ runsCode: true });

const { type, providers } = backendFields();
const { temperature, topK, topP, generationConfig } = samplingFields(0);

export const evalSchema = z.strictObject({
  source: sourceField(
    "FOLDER, FOLDER+ADAPTER, a recipe or .gguf file, or a model on the hub; for a server, its name for the model or the model's folder",
  ),
  tasks: z.array(z.string().min(1)).meta({ description: "tasks: mgsm_sw, a suite such as paper, or a .yaml file" }),
  name: z.string().optional().meta({ description: "what results call the model", unset: "the source" }),
  protocols: z
    .array(z.string())
    .optional()
    .meta({ description: "protocols", unset: "each task's first, or its chat if the model has a template" }),
  shots: z.int().min(0).optional().meta({ description: "solved examples in each prompt", unset: "the protocol's" }),
  limit: countField("maximum items per task"),
  prompts: namedField("file", "mbpp: translated prompts, a row with task_id and text for each problem").optional(),
  data: namedField("folder", "folder with task data").optional().meta({ unset: "Hugging Face datasets" }),
  tokenize: z
    .enum(BLEU_TOKENIZERS, { error: ({ input }) => missingTokenizer(String(input)) })
    .optional()
    .meta({ description: "BLEU tokenizer", unset: "by language" }),
  maxNewTokens: z.int().min(0).optional().meta({ description: "maximum tokens of an answer", unset: "the protocol's" }),
  temperature,
  topK,
  topP,
  generationConfig,
  repeats: countField("sampled answers per item, averaged", "1"),
  out: namedField("folder", "folder for results, samples and answers").optional(),
  skipUnanswered: z
    .boolean()
    .optional()
    .meta({ description: "leave items without an answer out of the scores", unset: "they count as wrong" }),
  seed: z.int().min(0).default(0).meta({ description: "seed of the bootstrap, of sampling and of retry delays" }),
  resamples: countField("bootstrap resamples", "1000"),
  allowCode: runsCode(flag("run programs that the model writes, in a sandbox")),
  unsafeCode: runsCode(flag("run them even if the kernel cannot confine them")),
  python: runsCode(z.string().optional().meta({ description: "Python interpreter", unset: "python3 on the PATH" })),
  codeTimeout: runsCode(secondsField("timeout of each program", "3")),
  backend: z
    .string()
    .optional()
    .meta({
      description: `backend that runs the model: ${BACKEND_WORDS}`,
      unset: "llama for .gguf files, else engine",
      // It starts a command.
      runsCode: "^serve",
    }),
  batch: countField("prompts per batch of the engine", "8"),
  model: z.string().optional().meta({ description: "model name on the server", unset: "<source>, or its only one" }),
  tokenizer: namedField("folder", "folder with tokenizer.json, for servers that cannot tokenize").optional(),
  concurrency: countField("parallel requests to a server", "8"),
  timeout: secondsField("timeout of a request", "600"),
  retries: z.int().min(0).optional().meta({ description: "retries on transient errors", unset: "6" }),
  startTimeout: secondsField("seconds to wait for the server to start", "900"),
  apiKeyEnv: z.string().optional().meta({ description: "environment variable with the server's API key" }),
  ...templateFields,
  type,
  providers,
});

type Input = z.output<typeof evalSchema>;

/** Progress of an evaluation; `done` and `total` are items of one task. */
export interface EvaluateProgress extends Progress {
  /** Name of the task, such as `mgsm_sw`. */
  readonly task: string;
  /** Score of the items so far; undefined before the first verdict. */
  readonly score: number | undefined;
  /** The score and other figures so far, in words. */
  readonly detail: string;
}

/** The main score of one task. */
export interface TaskScore extends Score {
  /** Name of the task, such as `mgsm_sw`. */
  readonly task: string;
  /** Full name and version of the protocol; scores of different protocols cannot be compared. */
  readonly protocol: string;
}

/** Result of `evaluate`. */
export interface EvaluateResult extends Noted {
  /** The main score of each task, in the order of the tasks. */
  readonly scores: readonly TaskScore[];
  /** All scores, with everything that they depend on. */
  readonly results: Results;
  /** Every prompt, answer and verdict, by task. */
  readonly samples: Readonly<Record<string, readonly Sample[]>>;
  /** Tasks that the model could not answer, and why; usually empty. */
  readonly failed: readonly { readonly task: string; readonly problem: string }[];
}

/** How an evaluation is carried out. */
export interface EvaluateControls extends Controls<EvaluateProgress, never> {
  /** Called with each sample, and its index among the items, when its verdict is known. */
  readonly onSample?: ((task: Task, sample: Sample, item: Item, index: number) => void) | undefined;
}

export const evalVerb: Verb<typeof evalSchema, EvaluateResult, EvaluateProgress, readonly LoadedTask[]> = {
  name: "eval",
  function: "evaluate",
  description:
    "Score a model on tasks, with confidence intervals and the full name of each protocol. Fields of a task: " +
    "docs/evaluate-and-compare.md.",
  schema: evalSchema,
  shown: ["limit"],
  fetch: "files",
  options: { resume: "resume an interrupted evaluation in `out`", threads: "all cores" },
  run: ({ source, ...input }, controls) => evaluateSource(source as ModelInput, input, controls as EvaluateControls),
  show({ results }) {
    const { backend, server, model } = results.backend;
    const who = server === null ? backend : `${server} (${backend})`;
    return [
      { kind: "text", lines: [`${model}, ${who}`], tone: "bold" },
      { kind: "text", lines: scoreLines(results, "table"), isTight: true },
    ];
  },
  plan: {
    description: "read the data of all tasks, print their items, and exit",
    async run(given, { folder, signal, onNote }) {
      const input = resolved(given, folder);
      const { tasks } = await tasksOf(input);
      return loadTasks(tasks, { data: taskData(input.data, onNote), limit: input.limit, signal });
    },
    show: (loaded) => [
      {
        kind: "table",
        what: "task",
        title: "",
        columns: ["task", "protocol", right("shots"), right("items")],
        rows: planned(loaded).map(({ task, protocol, shots, items }) => [task, protocol, String(shots), String(items)]),
      },
      {
        kind: "text",
        isTight: true,
        lines: planned(loaded).flatMap(({ task, notes }) => notes.map((note) => `${task}: ${note}`)),
      },
    ],
    json: (loaded) => ({ tasks: planned(loaded) }),
  },
  terminal: {
    positional: ["source"],
    groups: {
      Tasks: ["tasks", "list", "protocols", "shots", "limit", "prompts", "data", "tokenize"],
      Sampling: ["maxNewTokens", "temperature", "topK", "topP", "generationConfig", "repeats"],
      Output: ["out", "resume", "dryRun", "skipUnanswered", "show", "format", "seed", "resamples"],
      "Model-written programs (MBPP):": ["allowCode", "unsafeCode", "python", "codeTimeout"],
      Backend: [
        ...["backend", "batch", "model", "tokenizer", "concurrency", "timeout", "retries", "startTimeout"],
        ...["apiKeyEnv", "templateVariables"],
      ],
      Engine: ["threads", "type", "providers"],
    },
    flags: {
      ...MODEL_FLAGS,
      tasks: {
        short: "t",
        value: "names",
        read: "list",
        help: "comma-separated tasks: mgsm_sw, a suite such as paper, or a .yaml file",
      },
      protocols: { flag: "protocol", value: "names", read: "list" },
      data: { short: "d" },
      tokenize: { value: "name", explains: true },
      python: { value: "path" },
      codeTimeout: { value: "seconds" },
      backend: { short: "b", value: "backend" },
      model: { value: "name" },
      timeout: { value: "seconds" },
      startTimeout: { value: "seconds" },
      apiKeyEnv: { value: "name" },
    },
    detail: ({ detail }) => detail,
    json: ({ results }) => results,
    isFailure: ({ failed }) => failed.length > 0,
    closing: (_, { out }) => (out === undefined ? [] : [`Wrote results and samples to ${out}`]),
  },
};

const planned = (loaded: readonly LoadedTask[]) =>
  loaded.map(({ task, items, notes }) => ({
    task: task.name,
    protocol: protocolId(task.protocol),
    shots: task.shots,
    items: items.length,
    notes,
  }));

type Located = Pick<Input, "out" | "data" | "prompts" | "tokenizer" | "tasks">;

/** An input whose relative paths start from a folder. */
function resolved<I extends Partial<Located>>(input: I, folder: string | undefined): I {
  if (folder === undefined) return input;
  const paths = (["out", "data", "prompts", "tokenizer"] as const).flatMap((field) =>
    input[field] === undefined ? [] : [[field, resolve(folder, input[field])]],
  );
  const tasks = input.tasks?.map((task) => (/\.ya?ml$/i.test(task) ? resolve(folder, task) : task));
  return { ...input, ...Object.fromEntries(paths), ...(tasks ? { tasks } : {}) };
}

/** Options of `evaluate`: what it takes beside the model, and how it is carried out. */
export interface EvaluateOptions
  extends Omit<EvalInput, "source" | "backend">,
    VerbOptions<EvaluateProgress>,
    Pick<WorkOptions, "threads" | "resume"> {
  /**
   * What runs the model: `engine`, `llama`, `openai:URL`, `serve:COMMAND`, or a server's backend from `layergraft/evaluate`,
   * such as `openOpenAI`, which stays open. Default: `llama` for GGUF files, else `engine`.
   */
  readonly backend?: string | Backend | undefined;
}

/**
 * Evaluates a model.
 * @param source a source for `openModel`, or an opened model, which stays open; with `backend`, the model's name in
 *   results
 * @throws RecipeError if the options are not valid, with every problem; for an unknown task, or one that executes programs
 *   without `allowCode`
 * @throws LayergraftError with code `data` for missing data, `backend` or `server` if the backend does not answer
 * @throws OutputError if `out` holds another evaluation
 * @throws CancelledError if the signal fires; `resume` continues
 */
export async function evaluate(source: ModelInput | Model, options: EvaluateOptions): Promise<EvaluateResult> {
  if (!Array.isArray(options?.tasks)) throw new RecipeError('tasks must be a list, such as ["mgsm_sw"]');
  const { signal, onProgress, onNote, folder, hub, threads, resume, backend, ...input } = options;
  const isOpened = typeof backend === "object";
  const given = { ...input, ...(isOpened || backend === undefined ? {} : { backend }) };
  // An opened model or a plan has no form in a file.
  const isValue = source instanceof Model || source instanceof MergePlan;
  const { source: _, ...checked } = checkInput(evalVerb, { ...given, source: isValue ? "model" : source });
  const controls = withHub(evalVerb, { signal, onProgress, onNote, folder, hub, threads, resume });
  return evaluateSource(source, isOpened ? { ...checked, backend } : checked, controls);
}

async function evaluateSource(
  source: ModelInput | Model,
  given: Omit<Input, "source" | "backend"> & { readonly backend?: string | Backend | undefined },
  { folder, hub, signal, threads, resume, onProgress, onNote, onSample }: EvaluateControls,
): Promise<EvaluateResult> {
  const input = resolved(given, folder);
  const { tasks, notes } = await tasksOf(input);
  for (const note of notes) onNote?.(`note: ${note}`);
  const failed: { task: string; problem: string }[] = [];
  const { out, limit, seed, resamples, skipUnanswered, allowCode, unsafeCode, python, name } = input;
  const found = await evaluateTasks(
    tasks,
    {
      out,
      resume,
      limit,
      seed,
      resamples,
      skipUnanswered,
      allowCode,
      unsafeCode,
      python,
      signal,
      onSample,
      source: name ?? (typeof source === "string" ? source : undefined),
      data: taskData(input.data, onNote),
      opensModel: opensModel(source, input),
      seconds: input.codeTimeout,
      onNote: (note) => onNote?.(`warning: ${note}`),
      onFailure: ({ name: task }, { message: problem }) => failed.push({ task, problem }),
      onProgress: (progress) => {
        const { number, title, done, total, task, score } = progress;
        const phase = tasks.length > 1 ? `${number}/${tasks.length} ${title}` : title;
        onProgress?.({ phase, done, total, unit: "items", task, score, detail: progressDetail(progress) });
      },
    },
    () => openBackend(source, { ...input, signal, hub, folder, threads, onNote }),
  );
  const { results, samples } = found;
  const scores = results.tasks.flatMap(({ task, protocol, scores: [main] }) =>
    main ? [{ ...main, task, protocol }] : [],
  );
  const unscored = results.tasks.filter(({ problems }) => problems.unscored > 0);
  return {
    scores,
    results,
    samples: Object.fromEntries(samples),
    failed,
    notes: [...notes, ...found.notes, ...scoreNotes(results)],
    warnings: [
      ...unscored.map(({ task, problems, items, answers }) => {
        const asked = plural(items * (answers?.repeats ?? 1), "answer");
        return `${task}: ${problems.unscored} of ${asked} have no verdict and are not in the score`;
      }),
      ...failed.map(({ problem }) => problem),
    ],
  };
}
