import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { KeptChange } from "../../kernels/index.js";
import { AppendLog, exists, requireOutside } from "../../kit/files/index.js";
import { CancelledError, LayergraftError, Random } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { wallClock } from "../../text/index.js";
import type { Run } from "../run/run-schema.js";
import { learningRateFactor } from "../run/schedule.js";
import { BackgroundStates } from "./background-states.js";
import { type CheckpointToWrite, writeCheckpoint } from "./checkpoint-writer.js";
import { Optimizer } from "./optimizer.js";
import { findState, type Progress, requireSameRun, restoreParameters, type StateToWrite, writeState } from "./state.js";
import { type BatchLoss, TrainableDecoder } from "./trainable.js";
import { RUN_FILES, readTrainingLog, TrainingFolder } from "./training-folder.js";
import type {
  JsonValue,
  Rates,
  TrainingBatch,
  TrainingStream,
  TrainOptions,
  TrainProgress,
  TrainResult,
} from "./training-types.js";

const NOTHING_YET = { step: 0, samples: 0, tokens: 0, best: null, sinceBest: 0 };

// Seconds between states, and at least this many times what writing one takes.
const STATE_SECONDS = 20;
const STATE_SHARE = 20;

/**
 * Trains.
 * @throws CancelledError if the signal fires; the state is saved, and `resume` continues to the same weights
 * @throws LayergraftError with code "diverged" if a loss or gradient is not finite; the last good checkpoint stays
 * @throws OutputError if the folder has another run, or another process uses it
 * @throws RecipeError if the run to resume differs in its configuration or inputs
 */
export async function train(options: TrainOptions): Promise<TrainResult> {
  const { source } = options;
  const folder = new TrainingFolder(options.out);
  const folders = [...source.sources.values()].flatMap(({ folder: one, adapter }) => [one, adapter?.path ?? one]);
  await requireOutside(folder.path, folders);
  return folder.locked(async () => {
    const trainer = await Trainer.open(options, folder);
    try {
      return await trainer.run();
    } finally {
      await trainer.close();
    }
  });
}

interface TrainerParts {
  readonly options: TrainOptions;
  readonly inputs: Readonly<Record<string, string>>;
  readonly folder: TrainingFolder;
  readonly model: TrainableDecoder;
  readonly optimizer: Optimizer;
  readonly log: AppendLog;
  readonly progress: Progress;
  readonly resumed: boolean;
  /** save_dtype of the run that is resumed. */
  readonly savedAs?: unknown;
}

class Trainer {
  readonly #parts: TrainerParts;
  readonly #start = performance.now();
  #progress: Progress;
  #loss = Number.NaN;
  /** The latest held-out loss, and after how many samples. */
  #measured: { readonly loss: number; readonly samples: number } | undefined;
  /** Samples after which this process wrote its latest checkpoint. */
  #written = -1;
  /** Of the latest checkpoint that this process wrote. */
  #kept: KeptChange | undefined;
  readonly #states: BackgroundStates;
  /** When the latest state was taken. */
  #stateTaken = performance.now();
  #stateProblem: unknown;
  #tokensHere = 0;

  private constructor(parts: TrainerParts) {
    this.#parts = parts;
    this.#progress = parts.progress;
    this.#states = new BackgroundStates(parts.folder.states);
  }

  static async open(options: TrainOptions, folder: TrainingFolder): Promise<Trainer> {
    const { run, source, trained, lora, streams, resume } = options;
    const saved = resume ? await findState(folder.states) : undefined;
    const { data, base } = options.inputs;
    if (saved) requireSameRun(saved, { configuration: run, inputs: { ...saved.inputs, ...data } });
    else await folder.requireFree(options);
    // The whole base is read: before a model is opened only where that may refuse it.
    const given = saved && { ...(await base()), ...data };
    if (saved && given) requireSameRun(saved, { configuration: run, inputs: given });
    const { threads } = run;
    const model = await TrainableDecoder.open(source, { trained, lora, threads, signal: options.signal });
    try {
      const inputs = given ?? { ...(await base()), ...data };
      const optimizer = new Optimizer(model.parameters, run.optimizer, await options.masks?.());
      if (saved) await restoreParameters(saved, optimizer.parameters);
      else await model.initialise(optimizer, run.seed);
      // Only now, so that a run that cannot start removes nothing.
      if (!saved) await folder.clear();
      const progress: Progress = saved?.progress ?? {
        ...NOTHING_YET,
        logBytes: 0,
        position: streams.map(({ batches }) => batches.position()),
      };
      for (const [i, position] of progress.position.entries()) streams[i]?.batches.seek(position);
      const log = new AppendLog(folder.log, progress.logBytes);
      const resumed = saved !== undefined;
      const { save_dtype: savedAs } = { ...(saved?.configuration as Partial<Run>) };
      return new Trainer({ options, inputs, folder, model, optimizer, log, progress, resumed, savedAs });
    } catch (error) {
      await model.close();
      throw error;
    }
  }

  async run(): Promise<TrainResult> {
    const { run, settings, signal, onProgress, resume } = this.#parts.options;
    if (resume) this.#parts.options.onResume?.({ step: this.#progress.step, steps: settings.steps });
    let stoppedEarly = this.#shouldStopEarly();
    // What is left to do of a run that was killed after its last state.
    if (this.#parts.resumed && (stoppedEarly || this.#progress.step === settings.steps)) await this.#finishAgain();
    while (this.#progress.step < settings.steps && !stoppedEarly) {
      await nextTurn();
      if (signal?.aborted) await this.#stop();
      const before = this.#progress.samples;
      const done = await this.#step();
      const reached = (every: number) => Math.floor(before / every) < Math.floor(this.#progress.samples / every);
      const isLast = this.#progress.step === settings.steps;
      if (isLast || reached(settings.evaluateEvery)) {
        await this.#measure();
        stoppedEarly = this.#shouldStopEarly();
      }
      onProgress?.({ ...done, ...this.#rates() });
      if (isLast || stoppedEarly || reached(run.checkpoints.every_samples)) await this.#checkpoint();
      else await this.#saveWhenDue();
    }
    return this.#result(stoppedEarly);
  }

  async close(): Promise<void> {
    await this.#states.close();
    this.#parts.log.close();
    await this.#parts.model.close();
  }

  /** One optimizer step, on batches of the stream whose turn it is. */
  async #step(): Promise<Omit<TrainProgress, keyof Rates>> {
    const { run, streams, settings } = this.#parts.options;
    const { step } = this.#progress;
    const stream = streams[step % streams.length] as TrainingStream;
    const batches = Array.from({ length: run.accumulation }, () => stream.batches.next());
    const losses: BatchLoss[] = [];
    for (const [i, batch] of batches.entries()) {
      const random = Random.of(run.seed, `dropout ${step} ${i}`);
      losses.push(await this.#parts.model.accumulate(batch, this.#parts.optimizer, { only: stream.trained, random }));
    }
    const labels = losses.reduce((sum, loss) => sum + loss.labels, 0);
    const loss = losses.reduce((sum, one) => sum + one.loss, 0) / labels;
    const learningRate = settings.learningRate * learningRateFactor(settings.schedule, step, settings.steps);
    if (!Number.isFinite(loss)) this.#diverged(`the loss is ${loss}`, batches, losses);
    const { gradientNorm, applied } = this.#parts.optimizer.step({ learningRate, scale: 1 / labels });
    if (!applied) this.#diverged(`the loss is ${loss}, and the norm of its gradient ${gradientNorm}`, batches);
    const tokens = batches.reduce((sum, batch) => sum + batch.tokens, 0);
    this.#tokensHere += tokens;
    this.#loss = loss;
    this.#progress = {
      ...this.#progress,
      step: step + 1,
      samples: this.#progress.samples + batches.reduce((sum, batch) => sum + batch.samples, 0),
      tokens: this.#progress.tokens + tokens,
      position: streams.map(({ batches: list }) => list.position()),
    };
    const { samples, tokens: total } = this.#progress;
    const name = streams.length > 1 ? { stream: stream.batches.name } : {};
    const measured = { loss, learningRate, gradientNorm };
    this.#parts.log.add({ step: step + 1, samples, tokens: total, ...name, ...measured });
    return { step: step + 1, steps: settings.steps, samples, ...measured };
  }

  #rates(): Rates {
    const seconds = (performance.now() - this.#start) / 1000;
    const tokensPerSecond = this.#tokensHere / seconds;
    const { step, tokens } = this.#progress;
    const stepsLeft = this.#parts.options.settings.steps - step;
    const secondsLeft = (stepsLeft * tokens) / Math.max(1, step) / tokensPerSecond;
    const measured = this.#measured === undefined ? {} : { holdoutLoss: this.#measured.loss };
    return { tokensPerSecond, secondsLeft, ...measured };
  }

  async #measure(): Promise<void> {
    const { run, holdout } = this.#parts.options;
    if (holdout.length === 0) return;
    let [sum, labels] = [0, 0];
    for (const batch of holdout) {
      await nextTurn();
      const found = await this.#parts.model.evaluate(batch, this.#parts.optimizer);
      if (!Number.isFinite(found.loss)) this.#diverged(`the held-out loss is ${found.loss}`, []);
      sum += found.loss;
      labels += found.labels;
    }
    const loss = sum / labels;
    const { best, samples, step, sinceBest } = this.#progress;
    this.#measured = { loss, samples };
    const isBetter = best === null || loss < best.score - (run.early_stopping?.least ?? 0);
    this.#progress = {
      ...this.#progress,
      best: isBetter ? { score: loss, samples } : best,
      sinceBest: isBetter ? 0 : sinceBest + 1,
    };
    this.#parts.log.add({ step, samples, holdoutLoss: loss });
    // The best may come between the checkpoints that are due.
    if (isBetter && run.checkpoints.keep !== "last") await this.#writeCheckpoint();
  }

  #shouldStopEarly(): boolean {
    const limit = this.#parts.options.run.early_stopping?.patience ?? Number.POSITIVE_INFINITY;
    return this.#progress.sinceBest >= limit;
  }

  async #checkpoint(): Promise<void> {
    await this.#writeCheckpoint();
    await this.#saveState();
    // After the state, as the one before it may need the checkpoints that are removed.
    await this.#removeOthers();
    const { options, folder } = this.#parts;
    const { step, samples } = this.#progress;
    await options.onCheckpoint?.(folder.checkpoint(samples), { step, steps: options.settings.steps });
  }

  /** What is left of a run that had made its last step: its last checkpoint once more if it is to be saved otherwise. */
  async #finishAgain(): Promise<void> {
    const { savedAs, options, folder } = this.#parts;
    if (savedAs === options.run.save_dtype) return this.#removeOthers();
    const { samples } = this.#progress;
    for (const entry of await readTrainingLog(folder.log)) {
      if (entry.samples !== samples) continue;
      this.#loss = entry.loss ?? this.#loss;
      if (entry.holdoutLoss !== undefined) this.#measured = { loss: entry.holdoutLoss ?? Number.NaN, samples };
    }
    await this.#checkpoint();
  }

  /** Removes the checkpoints that the rule does not keep, and links the last and the best. */
  async #removeOthers(): Promise<void> {
    const { samples } = this.#progress;
    const best = await this.#best();
    if (this.#parts.options.run.checkpoints.keep !== "all")
      await this.#parts.folder.keepOnly(new Set([samples, best ?? samples]));
    await this.#parts.folder.link("last", samples);
    await this.#parts.folder.link("best", best);
  }

  /** Samples of the best checkpoint; undefined if it was not kept. */
  async #best(): Promise<number | undefined> {
    const { best } = this.#progress;
    if (best === null || this.#parts.options.run.checkpoints.keep === "last") return undefined;
    return (await exists(this.#parts.folder.checkpoint(best.samples))) ? best.samples : undefined;
  }

  async #writeCheckpoint(): Promise<void> {
    const { samples } = this.#progress;
    if (this.#written === samples) return;
    const holdoutLoss = this.#measured?.samples === samples ? this.#measured.loss : null;
    const found = { loss: finite(this.#loss), holdoutLoss };
    this.#kept = await this.#write(this.#parts.folder.checkpoint(samples), { lora: this.#parts.options.lora }, found);
    this.#written = samples;
    if (this.#kept) this.#parts.log.add({ step: this.#progress.step, samples, kept: this.#kept });
  }

  async #write(path: string, what: Pick<CheckpointToWrite, "lora" | "reverted">, found: object) {
    const { run, base, baseName, stopIds } = this.#parts.options;
    const { parameters } = this.#parts.optimizer;
    const { step, samples, tokens } = this.#progress;
    const provenance = { step, samples, tokens, ...found, configuration: run };
    return writeCheckpoint(path, { ...what, base, baseName, dtype: run.save_dtype, parameters, stopIds, provenance });
  }

  async #saveWhenDue(): Promise<void> {
    if (this.#stateProblem) throw this.#stateProblem;
    const seconds = (performance.now() - this.#stateTaken) / 1000;
    if (this.#states.isWriting || seconds <= Math.max(STATE_SECONDS, STATE_SHARE * this.#states.seconds)) return;
    await this.#states.write(this.#takeState(), (problem) => {
      this.#stateProblem = problem;
    });
  }

  async #saveState(): Promise<void> {
    await this.#states.finish();
    if (this.#stateProblem) throw this.#stateProblem;
    await writeState(this.#parts.folder.states, this.#takeState());
  }

  #takeState(): StateToWrite {
    this.#stateTaken = performance.now();
    const { started } = this.#parts.options;
    this.#progress = { ...this.#progress, logBytes: this.#parts.log.flush() };
    return {
      progress: this.#progress,
      configuration: this.#parts.options.run as JsonValue,
      inputs: this.#parts.inputs,
      started: started && wallClock(started),
      parameters: this.#parts.optimizer.parameters.values(),
    };
  }

  async #stop(): Promise<never> {
    await this.#saveState();
    const { out, settings } = this.#parts.options;
    throw new CancelledError(`stopped after step ${this.#progress.step} of ${settings.steps}`, {
      file: out,
      option: "resume",
    });
  }

  #diverged(what: string, batches: readonly TrainingBatch[], losses: readonly BatchLoss[] = []): never {
    const { out } = this.#parts.options;
    const { step } = this.#progress;
    const isBad = (_: unknown, i: number) => !Number.isFinite(losses[i]?.loss ?? Number.NaN);
    const names = batches.filter(isBad).map(({ name }) => name);
    const where = names.length > 0 ? `at step ${step + 1}` : `after step ${step}`;
    throw new LayergraftError(
      "diverged",
      `${where} ${what}${names.length > 0 ? `, in ${formatSome(names, 2)}; the step was not made` : ""}. Earlier checkpoints stay in ${out}. Lower the learning rate, warm up longer, clip gradients, or check these samples.`,
      { file: out, actual: what },
    );
  }

  async #result(stoppedEarly: boolean): Promise<TrainResult> {
    const { out, revert } = this.#parts.options;
    const { step, samples, tokens } = this.#progress;
    const reverted = revert ? join(out, RUN_FILES.reverted) : null;
    if (reverted && revert) await this.#write(reverted, { reverted: revert }, { reverted: [...revert] });
    const best = await this.#best();
    return {
      steps: step,
      samples,
      tokens,
      stoppedEarly,
      reverted,
      resumed: this.#parts.resumed,
      last: this.#parts.folder.checkpoint(samples),
      best: best === undefined ? null : this.#parts.folder.checkpoint(best),
      loss: finite(this.#loss),
      bestLoss: this.#progress.best?.score ?? null,
      kept: this.#kept ?? null,
      log: this.#parts.folder.log,
      seconds: (performance.now() - this.#start) / 1000,
    };
  }
}

function finite(x: number): number | null {
  return Number.isFinite(x) ? x : null;
}
