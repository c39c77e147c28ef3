// Reads what a plan names and its steps depend on: models, data and tasks. Collects problems instead of throwing them.
import { resolve } from "node:path";
import { chatProtocolOf, type Item, MISSING_DATA, protocolTitle } from "../../evaluate/tasks/index.js";
import {
  type Checkpoint,
  foldersOf,
  type HubAccess,
  openCheckpoint,
  parameterCount,
} from "../../formats/checkpoint/index.js";
import { canonicalJson, exists } from "../../kit/files/index.js";
import { LayergraftError, messageOf, ProblemsError, type Progress } from "../../kit/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { loadChatTemplate, loadTokenizer } from "../../text/index.js";
import { bytesToDownload, type DataDeclaration, formatOfName, planSet } from "../../train/data/index.js";
import { type DataSample, dataOf, measureData, type Run, sampleWeights, settleRun } from "../../train/index.js";
import { taskData } from "../../verbs/shared/index.js";
import { KnownFacts, type TaskFacts } from "../expand/facts.js";
import { foldersIn, tasksIn } from "../plan/named-sources.js";
import type { ExperimentPlan, PlannedRun } from "../plan/plan-schema.js";
import { stepProblems, stepVerbs } from "../plan/plan-steps.js";
import { dataKey, runModel } from "../run/training-outlook.js";
import { FileDigests, setsOf } from "../steps/file-digests.js";
import { openTask, taskDigest } from "../steps/items.js";
import type { TaskRequest } from "../steps/step.js";
import { firstRowsErrors } from "./first-rows.js";

type Path = readonly PropertyKey[];

export interface ReadFactsOptions {
  /** Folder that relative paths start from. */
  readonly folder: string;
  /** Folder with the data sets of evaluation. */
  readonly data?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether to read models and data whole to identify them. Default: true. */
  readonly readsBytes?: boolean | undefined;
}

export interface FetchOptions {
  /** Called with bytes of all models together, and the model that is downloaded. */
  readonly onProgress?: ((progress: Progress & { readonly source: string }) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** What was read of a task, and its name in the plan. */
export interface AskedTask extends TaskFacts {
  readonly task: string;
}

export interface ReadPlan {
  /** If the base has a chat template, with chat protocols where the plan names none. */
  readonly plan: ExperimentPlan;
  readonly tasks: readonly AskedTask[];
  readonly problems: readonly Problem[];
}

export class ReadFacts extends KnownFacts {
  readonly problems: Problem[] = [];
  /** Tasks whose data are not in the folder of data sets, with the reason. */
  readonly missing = new Map<string, string>();
  /** Bytes to download of data sets on the hub that training runs read. */
  readonly dataSets = new Map<string, number>();
  readonly #read = new Map<string, readonly Problem[]>();
  /** What was asked for since the problems were taken. */
  readonly #asked = new Set<string>();
  readonly #options: ReadFactsOptions;
  readonly #digests: FileDigests;
  /** Data sets on the hub that are on this machine already. */
  readonly #cached = new Set<string>();
  readonly #samples = new Map<string, DataSample>();
  readonly #weights = new Map<Checkpoint, Float32Array | undefined>();

  constructor(options: ReadFactsOptions) {
    super();
    this.#options = options;
    this.#digests = new FileDigests(options.readsBytes);
  }

  /** Reads everything that a plan names. A problem that variants share is one of each. */
  async readPlan(written: ExperimentPlan): Promise<ReadPlan> {
    await this.readModel(written.base, ["base"]);
    const plan = await this.#withChats(written);
    for (const { source, path } of foldersIn(plan)) await this.readModel(source, path);
    for (const [group, { train }] of Object.entries(plan.experts)) {
      for (const run of train?.runs ?? []) await this.readRun(run, ["experts", group, "train", ...run.dataPath]);
    }
    for (const [name, verb] of await stepVerbs(plan)) this.verbs.set(name, verb);
    this.problems.push(...stepProblems(plan, this.verbs));
    const asked = tasksIn(plan);
    for (const { request, path } of asked) await this.readTask(request, path);
    const tasks = asked.flatMap(({ request }): AskedTask[] => {
      const read = this.tasks.get(canonicalJson(request));
      return read ? [{ ...read, task: request.task }] : [];
    });
    // The next variant that asks for the same has its problems, too.
    this.#asked.clear();
    return { plan, tasks, problems: this.problems.splice(0) };
  }

  /** Asks tasks as chats where the base has a template, so that all models of the plan are asked in the same way. */
  async #withChats(plan: ExperimentPlan): Promise<ExperimentPlan> {
    const base = this.models.get(plan.base);
    const template = base && (await loadChatTemplate(base.checkpoint.folder).catch(() => undefined));
    if (!template) return plan;
    const tasks = plan.evaluate.tasks.map((task) => ({
      ...task,
      protocol: task.protocol ?? chatProtocolOf(task.task),
    }));
    return { ...plan, evaluate: { ...plan.evaluate, tasks } };
  }

  /** Reads something once. An error is a problem at the path. */
  async #once(key: string, path: Path, read: () => Promise<void>): Promise<void> {
    if (this.#asked.has(key)) return;
    this.#asked.add(key);
    const known = this.#read.get(key);
    if (known) {
      this.problems.push(...known);
      return;
    }
    const before = this.problems.length;
    await read().catch((error: unknown) => this.#note(path, error));
    this.#read.set(key, this.problems.slice(before));
  }

  /**
   * Reads a model's headers and identifies its bytes. Of a model on the hub, the hub says their digests, and only its
   * configuration and tokenizer are downloaded. @param path of its name in the plan
   */
  async readModel(source: string, path: Path): Promise<void> {
    if (this.models.has(source)) return;
    await this.#once(canonicalJson([source, path.map(String)]), path, async () => {
      let checkpoint = await this.#open(source, { fetch: "plan" });
      // A small file may be stored in git, whose hash is another.
      if (checkpoint.files.some(({ remote }) => remote && remote.sha256.length !== 64)) {
        checkpoint = await this.#open(source, { fetch: "files" });
      }
      this.models.set(source, {
        identity: await this.#digests.ofModel(checkpoint),
        folder: foldersOf(checkpoint).join("+"),
        parameters: parameterCount(checkpoint),
        bytes: checkpoint.files.reduce((sum, { bytes }) => sum + bytes, 0),
        bytesToFetch: checkpoint.files.reduce((sum, { remote, bytes }) => sum + (remote ? bytes : 0), 0),
        layers: checkpoint.layers,
        checkpoint,
        path,
      });
    });
  }

  #open(source: string, hub: HubAccess): Promise<Checkpoint> {
    const { folder, signal } = this.#options;
    return openCheckpoint(source, { base: folder, hub: { ...hub, signal: hub.signal ?? signal } });
  }

  /**
   * Downloads the models that are not on this machine, from whose cache steps run them.
   * @throws LayergraftError code `changed` if a model on the hub is another one by now
   */
  async fetchModels({ onProgress, signal }: FetchOptions = {}): Promise<void> {
    const missing = [...this.models].filter(([, { bytesToFetch }]) => bytesToFetch > 0);
    const total = missing.reduce((sum, [, { bytesToFetch }]) => sum + bytesToFetch, 0);
    let before = 0;
    for (const [source, known] of missing) {
      const hub: HubAccess = {
        fetch: "files",
        signal,
        onProgress: (progress) => onProgress?.({ ...progress, source, done: before + progress.done, total }),
      };
      const checkpoint = await this.#open(source, hub);
      before += known.bytesToFetch;
      if ((await this.#digests.ofModel(checkpoint)) !== known.identity) {
        throw new LayergraftError("changed", `${source} changed on the hub while it was downloaded. Run it again.`);
      }
      this.models.set(source, { ...known, checkpoint, bytesToFetch: 0 });
    }
  }

  /** Reads the items of a task. @param path of its name in the plan */
  async readTask(request: TaskRequest, path: Path = []): Promise<void> {
    const key = canonicalJson(request);
    const read = async () => {
      const task = await openTask(request, this.#options.folder);
      const { data, signal } = this.#options;
      const { items, notes } = await task.load(taskData(data), { limit: request.limit, signal });
      const [headline] = task.metrics;
      this.tasks.set(key, {
        name: task.name,
        title: task.title,
        protocol: protocolTitle(task),
        items: items.length,
        example: exampleOf(items[0]),
        digest: taskDigest(task, items),
        scale: headline?.scale ?? "share",
        isMean: headline?.by === "mean",
        executes: task.executes,
        metric: headline,
        ...(headline?.by === "group mean" ? { groups: items.map(({ group }) => group) } : {}),
        ...(request.prompts === undefined ? {} : { notes }),
        choices: items.flatMap((item) => (item.kind === "choose" ? [{ id: item.id, choices: item.choices }] : [])),
      });
    };
    const note = (error: unknown) => {
      const isMissing = error instanceof LayergraftError && error.code === MISSING_DATA;
      if (isMissing && this.#options.data !== undefined) this.missing.set(request.task, error.message);
      else this.#note(path, error, `task ${request.task}: `);
    };
    await this.#once(key, path, () => read().catch(note));
  }

  /**
   * Identifies the data of a training run that is valid, and checks the first rows of its files, and that its data sets on the
   * hub can be read. @param path of the data in the plan
   */
  async readRun({ fields, settings }: Pick<PlannedRun, "fields" | "settings">, path: Path): Promise<void> {
    if (!settings) return;
    const { folder } = this.#options;
    const declared = canonicalJson([fields.data, fields.partition]);
    await this.#once(declared, path, async () => {
      for (const { source } of setsOf(settings)) {
        if (!isFileName(source) || (await exists(resolve(folder, source)))) continue;
        this.problems.push({ path, message: `${source} does not exist` });
      }
      this.data.set(declared, await this.#digests.ofData(fields, settings, folder));
    });
    for (const data of dataOf(settings)) {
      await this.#once(canonicalJson(["check", data]), path, () => this.#checkData(data, path));
    }
  }

  async #checkData(data: DataDeclaration, path: Path): Promise<void> {
    const { folder } = this.#options;
    for (const error of await firstRowsErrors(data, this.#options)) this.#note(path, error);
    for (const { source, config, split, revision, files, exclude } of data.sets.map(planSet)) {
      const set = { source, config, split, revision, files, exclude };
      const key = canonicalJson(set);
      if (this.dataSets.has(key) || isFileName(source) || (await exists(resolve(folder, source)))) continue;
      this.dataSets.set(key, 0);
      try {
        const bytes = await bytesToDownload(set, this.#options);
        this.dataSets.set(key, bytes);
        if (bytes === 0) this.#cached.add(source);
      } catch (error) {
        this.#note(path, error);
      }
    }
  }

  /**
   * Measures what dry runs estimate by: some weights of a base that is here, for `weightsOf`, and the first rows of the training runs
   * whose data are here, too, for `rowsOf`. Their problems are known.
   */
  async measureRuns(plan: ExperimentPlan): Promise<void> {
    const base = this.models.get(plan.base);
    if (!base || this.#options.readsBytes === false) return;
    const { checkpoint } = base;
    if (!this.#weights.has(checkpoint))
      this.#weights.set(checkpoint, await sampleWeights(checkpoint.tensors.values()).catch(() => undefined));
    for (const { settings } of Object.values(plan.experts).flatMap(({ train }) => train?.runs ?? [])) {
      const key = settings && dataKey(settings);
      if (!settings || key === undefined || this.#samples.has(key)) continue;
      try {
        if (!(await this.#isHere(settings))) continue;
        const { sequenceLength } = settleRun(settings, runModel(base), { samples: 1, sequences: 1 });
        const tokenizer = await loadTokenizer(base.checkpoint.folder);
        const chatTemplate = await loadChatTemplate(base.checkpoint.folder);
        const options = { ...this.#options, tokenizer, chatTemplate, sequenceLength };
        this.#samples.set(key, await measureData(settings, options));
      } catch (error) {
        // What is wrong with the data is a problem already.
        if (!(error instanceof Error)) throw error;
      }
    }
  }

  weightsOf = (base: Checkpoint): Float32Array | undefined => this.#weights.get(base);

  rowsOf = (run: Run): DataSample | undefined => this.#samples.get(dataKey(run));

  async #isHere(run: Run): Promise<boolean> {
    for (const { source } of setsOf(run)) {
      if (!this.#cached.has(source) && !(await exists(resolve(this.#options.folder, source)))) return false;
    }
    return true;
  }

  #note(path: Path, error: unknown, prefix = ""): void {
    if (!(error instanceof Error)) throw error;
    const message =
      error instanceof ProblemsError ? `${error.summary} ${error.problems.join("; ")}`.trim() : messageOf(error);
    this.problems.push({ path, message: `${prefix}${message}` });
  }
}

const exampleOf = (item: Item | undefined) =>
  item?.prompt.form === "text" ? item.prompt.own : item?.prompt.messages.at(-1)?.content;

const isFileName = (source: string) => /^[.~/]|\.gz$/.test(source) || formatOfName(source) !== undefined;
