import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { readdir, readFile, rm } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { plainFigures } from "../../figures/index.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { exists, LOCK_FILE, LockedFolder, waitWhileLocked, writeFileAtomically } from "../../kit/files/index.js";
import { LayergraftError, type Progress, RecipeError } from "../../kit/index.js";
import { parseWritten } from "../../kit/numbers/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { changedRowsOf, overlapOf, suggestRecipes, trainingSentences } from "../../merge/analysis/index.js";
import { checkRun, keptNotes, RUN_FILES, readTrainingLog, TRL_FILES } from "../../train/index.js";
import { VERBS } from "../../verbs/list/index.js";
import { analyzeVerb, checkInput, handOverVerb, startHandedOver, trainVerb } from "../../verbs/shared/index.js";
import { FileDigests } from "./file-digests.js";
import { type ModelPool, writeModel } from "./model-pool.js";
import { readResult, type StepResult, VALUE, writeResult } from "./result.js";
import { EVALUATION, runEvaluation } from "./run-evaluation.js";
import { type Planned, runVerb, type VerbHow } from "./run-verb.js";
import { type AnalyzeStep, type MergeStep, type Step, type TrainStep, type VerbStep, WRITTEN_MODEL } from "./step.js";
import { STEP_FILES, type StepOrder, type StepSettings, withFolders } from "./step-state.js";

export interface RunStepOptions {
  /** Models that stay open for the next step. Default: the step closes its own. */
  readonly models?: ModelPool | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called with the share done, from 0 to 1, and a detail. */
  readonly onProgress?: ((share: number, what: string) => void) | undefined;
  /** Called once with each note, which the result has, too. */
  readonly onNote?: ((note: string) => void) | undefined;
}

export interface StepContext extends RunStepOptions {
  /** The step's folder, absolute. */
  readonly folder: string;
  /** Folders of the models that the step names by identity. */
  readonly folders: Readonly<Record<string, string>>;
  readonly settings: StepSettings;
  /** Keeps what a person should know of the step. */
  readonly note: (text: string) => void;
  /** @throws LayergraftError code `changed` if the models or the data are no longer those that were identified */
  readonly checkInputs: () => Promise<void>;
}

/**
 * Runs the step of a folder, or resumes it, unless it is done.
 * @throws LayergraftError code `changed` if its models or data changed; what was made from them is removed
 * @throws whatever training, analysis or evaluation throws; then there is no result
 */
export async function runStepFolder(folder: string, options: RunStepOptions = {}): Promise<StepResult> {
  const { step, folders, settings } = parseWritten(await readFile(join(folder, STEP_FILES.order), "utf8")) as StepOrder;
  const done = await readResult(folder, step.kind);
  if (done) return done;
  // Its holder may be a job that Slurm no longer knows, or a process that has yet to notice that its runner is gone.
  const own = new LockedFolder(folder);
  await waitWhileLocked(() => own.lock(), {
    cancelled: "stopped while another process ran this step",
    signal: options.signal,
    onWait: () => options.onProgress?.(0, "waiting for another process that runs this step"),
  });
  try {
    // The step's lock covers the evaluation. A lock there is of a process that is gone.
    await rm(join(folder, EVALUATION, LOCK_FILE), { force: true });
    const known = await readResult(folder, step.kind); // of the process that held the lock
    if (known) return known;
    const watched = { folders, ...(step.kind === "train" ? { run: step.run, data: step.data } : {}) };
    await checkInputs(watched, settings.folder, "before");
    const checkAfter = () => checkInputs(watched, settings.folder, "after");
    const notes = new StepNotes(folder, options.onNote);
    const note = (text: string) => notes.add(text);
    const context: StepContext = {
      ...options,
      folder: resolve(folder),
      folders,
      settings,
      note,
      checkInputs: checkAfter,
    };
    const clock = new WorkClock(folder);
    try {
      const made = await runKind(step, context);
      const result = { ...made, seconds: clock.seconds(), ...notes.result() };
      await writeResult(folder, result);
      return result;
    } finally {
      clock.stop();
    }
  } finally {
    await own.close();
  }
}

/** Milliseconds between what a killed attempt leaves of its duration. */
const CLOCK_INTERVAL = 5000;

/** Seconds of work on a step, with those of attempts that were interrupted: what is left to a resumed one says little. */
class WorkClock {
  readonly #file: string;
  readonly #before: number;
  readonly #began = performance.now();
  readonly #timer: NodeJS.Timeout;

  constructor(folder: string) {
    this.#file = join(folder, STEP_FILES.worked);
    const before = existsSync(this.#file) ? Number(readFileSync(this.#file, "utf8")) : 0;
    this.#before = Number.isFinite(before) ? before : 0;
    this.#timer = setInterval(() => this.#save(), CLOCK_INTERVAL).unref();
  }

  seconds(): number {
    return this.#before + (performance.now() - this.#began) / 1000;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#save();
  }

  #save(): void {
    try {
      writeFileSync(this.#file, this.seconds().toFixed(3));
    } catch {
      // A disk that is full fails the step itself.
    }
  }
}

/** The notes of a step in its folder, where an interrupted attempt leaves its own. */
class StepNotes {
  readonly #file: string;
  readonly #notes: Set<string>;
  readonly #onNote: RunStepOptions["onNote"];

  constructor(folder: string, onNote: RunStepOptions["onNote"]) {
    this.#file = join(folder, STEP_FILES.notes);
    this.#onNote = onNote;
    const before = existsSync(this.#file) ? readFileSync(this.#file, "utf8").split("\n") : [];
    this.#notes = new Set(before.filter((line) => line !== ""));
  }

  add(text: string): void {
    const line = text.replace(/\s+/g, " ").trim();
    if (line === "" || this.#notes.has(line)) return;
    this.#notes.add(line);
    appendFileSync(this.#file, `${line}\n`);
    this.#onNote?.(line);
  }

  result(): { readonly notes?: string[] } {
    return this.#notes.size > 0 ? { notes: [...this.#notes] } : {};
  }
}

interface Watched {
  /** By identity: absolute, or FOLDER+ADAPTER. */
  readonly folders: Readonly<Record<string, string>>;
  /** Of a training step: its run, and the identity of the run's data. */
  readonly run?: Readonly<Record<string, unknown>>;
  readonly data?: string | undefined;
}

/**
 * Checks that models and data have the contents that the experiment identified.
 * @param base folder that the plan's relative paths start from
 * @throws LayergraftError code `changed` if they have others
 */
async function checkInputs(watched: Watched, base: string, when: "before" | "after"): Promise<void> {
  const others = await otherInputs(watched, base);
  const [first] = others;
  if (first === undefined) return;
  const names = formatSome(others.map((path) => basename(path)));
  throw new LayergraftError(
    "changed",
    when === "before"
      ? `${names} changed since the experiment was started or resumed. Run it again; it reads everything again.`
      : `${names} changed while the step ran, so its result was discarded. Run the experiment again to compute it.`,
    { file: first },
  );
}

/** Models and data with other contents than those that were identified, or none. */
async function otherInputs({ folders, run, data }: Watched, base: string): Promise<string[]> {
  const digests = new FileDigests();
  const others: string[] = [];
  // Output of a step has the step's key as its identity.
  for (const [identity, folder] of Object.entries(folders).filter(([known]) => known.startsWith("sha256:"))) {
    const found = openCheckpoint(folder, { base }).then((checkpoint) => digests.ofModel(checkpoint));
    if ((await found.catch(() => undefined)) !== identity) others.push(folder);
  }
  if (run && data !== undefined) {
    const found = digests.ofData(run, checkRun({ ...run, out: "out" }), base).catch(() => undefined);
    if ((await found) !== data) others.push("the training data");
  }
  return others;
}

function runKind(step: Step, context: StepContext): Promise<StepResult> {
  if (step.kind === "train") return runTraining(step, context);
  if (step.kind === "merge") return runMerge(step, context);
  if (step.kind === "verb") return runOther(step, context);
  return step.kind === "analyze" ? runAnalysis(step, context) : runEvaluation(step, context);
}

/** Removes what a step made if its models or its data changed meanwhile. @throws LayergraftError code `changed` */
async function keepIfUnchanged({ checkInputs }: StepContext, out: string): Promise<void> {
  await checkInputs().catch(async (error: unknown) => {
    if (error instanceof LayergraftError && error.code === "changed") await rm(out, { recursive: true, force: true });
    throw error;
  });
}

async function runMerge(step: MergeStep, context: StepContext): Promise<StepResult> {
  const { folder, folders, settings, signal, onProgress } = context;
  const out = join(folder, WRITTEN_MODEL);
  await writeModel(withFolders(step.model, folders), {
    out,
    resume: true,
    threads: settings.threads,
    signal,
    onProgress: ({ done, total, phase }) => onProgress?.(done / Math.max(1, total), phase),
    onNote: context.note,
  });
  await keepIfUnchanged(context, out);
  return { kind: "merge" };
}

async function runOther({ verb: name, input }: VerbStep, context: StepContext): Promise<StepResult> {
  const verb = await VERBS.find((one) => one.name === name)?.load();
  if (!verb) throw new LayergraftError("result", `${name} is a command of another version of layergraft.`);
  const { folder, folders } = context;
  const out = typeof input.out === "string" ? join(folder, input.out) : undefined;
  const given = { ...(withFolders(input as never, folders) as object), ...(out === undefined ? {} : { out }) };
  const { resume, force } = verb.options;
  const begun = performance.now();
  const result = await runVerb(verb, given, context, {
    ...(resume === undefined ? {} : { resume: true }),
    ...(resume !== undefined || force === undefined ? {} : { force: true }),
  });
  await keepIfUnchanged(context, out ?? join(folder, VALUE));
  const seconds = (performance.now() - begun) / 1000;
  const checked = checkInput(verb, given);
  const value = verb.terminal.json ? verb.terminal.json(result, seconds, checked) : result;
  await writeFileAtomically(join(folder, VALUE), `${JSON.stringify(value, null, 2)}\n`);
  const figures = plainFigures(verb.show(result, checked, seconds));
  return {
    kind: "verb",
    ...(out === undefined ? {} : { out: String(input.out) }),
    figures: structuredClone(figures) as Extract<StepResult, { kind: "verb" }>["figures"],
  };
}

async function runTraining(step: TrainStep, context: StepContext): Promise<StepResult> {
  const { folder, folders, settings } = context;
  const out = join(folder, "run");
  const fields = {
    ...(withFolders(step.run as never, folders) as unknown as Record<string, unknown>),
    out,
    ...(settings.threads === undefined ? {} : { threads: settings.threads }),
  };
  const run = checkRun(fields);
  /** Before the first step, so that no hour is spent on a run that leaves its expert at the base. */
  const onPlan = ({ settings: { warmupProblem }, notes, warnings }: Planned<typeof trainVerb>) => {
    if (warmupProblem !== undefined) throw RecipeError.at({ field: "schedule.warmup" }, warmupProblem);
    for (const text of [...notes, ...warnings]) context.note(text);
  };
  if (step.trl) {
    await trainWithTrl(step.trl, fields, { ...context, onPlan });
  } else {
    const isBegun = await exists(join(out, RUN_FILES.states));
    await runVerb(trainVerb, fields, context, {
      onPlan,
      resume: isBegun,
      force: !isBegun,
      detail: ({ loss, tokensPerSecond }) =>
        `loss ${loss.toFixed(3)}, ${Math.round(tokensPerSecond).toLocaleString("en-US")} tokens/s`,
    });
  }
  await keepIfUnchanged(context, out);
  const isAdapter = run.method === "lora" && !run.lora?.merge;
  const made = step.trl ? TRL_FILES.out : "";
  const checkpoints = await checkpointsIn(join(out, made), join("run", made));
  if (step.trl) {
    const { kept } = (await readTrainingLog(join(out, made, RUN_FILES.log))).findLast((entry) => entry.kept) ?? {};
    for (const text of keptNotes(kept)) context.note(text);
  }
  const last = checkpoints.at(-1);
  if (!last)
    throw new LayergraftError("result", `the training run in ${out} ended without a checkpoint`, { file: out });
  // The saved state is three times the model, and no longer needed.
  await rm(join(out, made, RUN_FILES.states), { recursive: true, force: true });
  // A merged or reverted model replaces the checkpoints.
  const product = run.lora?.merge ? "merged" : run.revert ? RUN_FILES.reverted : undefined;
  const found = product === undefined ? checkpoints : [{ path: join("run", made, product), samples: last.samples }];
  return { kind: "train", checkpoints: found.map((one) => ({ ...one, ...(isAdapter ? { isAdapter } : {}) })) };
}

/** Writes the run for TRL, unless an earlier attempt did, and runs it. */
async function trainWithTrl(
  trl: NonNullable<TrainStep["trl"]>,
  run: Readonly<Record<string, unknown>> & { readonly out: string },
  context: StepContext & Pick<VerbHow<typeof handOverVerb>, "onPlan">,
): Promise<void> {
  const { python, processes, precision, gradient_checkpointing } = trl;
  const { signal, onProgress, onPlan } = context;
  if (!(await exists(join(run.out, TRL_FILES.entry)))) {
    const input = { ...run, gpus: processes, precision, gradient_checkpointing };
    const detail = ({ phase, done, total }: Progress) => `${phase}, ${Math.round((100 * done) / total)}%`;
    // Writing is nothing to training.
    await runVerb(
      handOverVerb,
      input,
      { ...context, onProgress: (_, what) => onProgress?.(0, what) },
      { onPlan, detail },
    );
  }
  await startHandedOver({
    folder: run.out,
    python,
    processes,
    signal,
    onStep: (step, steps, loss) => onProgress?.(step / steps, `loss ${loss}`),
  });
}

async function checkpointsIn(out: string, name: string): Promise<{ path: string; samples: number }[]> {
  return (await readdir(out))
    .flatMap((entry) => {
      const samples = /^checkpoint-(\d+)$/.exec(entry)?.[1];
      return samples === undefined ? [] : [{ path: join(name, entry), samples: Number(samples) }];
    })
    .sort((a, b) => a.samples - b.samples);
}

async function runAnalysis(step: AnalyzeStep, context: StepContext): Promise<StepResult> {
  const { base, experts, threshold } = step;
  const input = { base, experts, ...(threshold === undefined ? {} : { thresholds: [threshold] }) };
  const analysis = await runVerb(analyzeVerb, input, context);
  await context.checkInputs();
  const named = analysis.training.map((one) => ({ ...one, expert: step.names?.[one.expert] ?? one.expert }));
  for (const sentence of trainingSentences(named)) context.note(sentence);
  const shares = analysis.total.experts.map((expert) => expert.shares[0] ?? 0);
  if (Object.keys(experts).length === 1) {
    const [value = 0] = analysis.thresholds[0]?.values ?? [];
    return {
      kind: "analyze",
      suggested: [],
      changed: { threshold: value, ...changedRowsOf(analysis), total: shares[0] ?? 0 },
    };
  }
  const suggested = suggestRecipes({ analysis, sources: { base: "base", task: "task", language: "language" } });
  return {
    kind: "analyze",
    suggested: suggested.map(({ name, reason, recipe }) => ({ name, reason, recipe: { ...recipe } })),
    overlap: { ...overlapOf(analysis), total: analysis.total.pairs[0]?.overlap[0] ?? null, shares },
  };
}
