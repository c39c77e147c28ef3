// Executes a plan: measures, streams tensors, writes companion files, renames the finished folder.

import { stat, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { foldersOf, requireUnchanged } from "../../formats/checkpoint/index.js";
import type { FolderLayout } from "../../formats/safetensors/index.js";
import { Converter, type KeptChange, Rounding } from "../../kernels/index.js";
import { digestOfJson } from "../../kit/files/index.js";
import { MismatchError, OutputError } from "../../kit/index.js";
import type { Measured } from "../../tensor/expressions/index.js";
import { measurementsOf, packBits, packMeasured, Resolver, unpackBits } from "../../tensor/expressions/index.js";
import type { KeptShare, MeasureGates } from "../../tensor/measurements/index.js";
import { keptShares, placeholders } from "../../tensor/measurements/index.js";
import {
  cutIntoPieces,
  type Job,
  type Program,
  type RunResult,
  requireThreadMemory,
  resultsByJob,
  type StreamOptions,
} from "../../tensor/streaming/index.js";
import { PROVENANCE_FILE } from "../model-plan.js";
import { type AdapterPlan, planAdapter } from "../plan/adapter-plan.js";
import { pinsOf } from "../plan/open-plan.js";
import { type OpenedPlan, toWrite } from "../plan/planner.js";
import type { Plan } from "../recipe/recipe.js";
import { factorBytes, tensorBytes, writeFactors } from "./adapter-factors.js";
import { markCloned } from "./clone.js";
import { digestCompanions, writeAdapterCompanions, writeCompanions } from "./companion-files.js";
import { compileWrite, layOut } from "./compile.js";
import { equalSource } from "./equal-source.js";
import { type RunState, requireRecordable } from "./journal.js";
import { modelCard } from "./model-card.js";
import { explainNonFinite, type NonFinite, nonFiniteSteps, nonFiniteWarnings, requireFinite } from "./non-finite.js";
import { OutputFolder } from "./output-folder.js";
import { placeOf, provenanceOf } from "./provenance.js";
import { changedShare } from "./summary.js";

/** Options of a merge that is written. */
export interface ExecuteOptions extends StreamOptions {
  /** Folder to write. It appears under this name when it is complete. */
  readonly out: string;
  /** Resume an interrupted run into `out`; start over if there is none. Default: false. */
  readonly resume?: boolean | undefined;
  /** Replace an earlier output, discard an interrupted run. Default: false. */
  readonly force?: boolean | undefined;
  /** Merge models that look unrelated. Default: false. */
  readonly allowUnrelated?: boolean | undefined;
  /** Write values that the merge made infinite or NaN, such as those beyond the range of the dtype. Default: false. */
  readonly allowNonFinite?: boolean | undefined;
  /** Computes routers of a mixture of experts. */
  readonly gates?: MeasureGates | undefined;
}

/** A merge that was written. */
export interface ExecuteResult {
  /** Absolute path of the folder. */
  readonly out: string;
  /** Names of the weight files, in order. */
  readonly files: readonly string[];
  /** Bytes read from the sources, measurements included. */
  readonly bytesRead: number;
  /** Bytes of tensors written. */
  readonly bytesWritten: number;
  /** Bytes of weights that this run fetched from the hub. */
  readonly bytesFetched: number;
  /** Results by measurement; for a mask the number of selected rows and of all rows, for gates how many numbers. */
  readonly measured: Readonly<Record<string, readonly number[]>>;
  /** What thresholds keep, by the models whose changes they cut: more than asked for where changes equal the threshold. */
  readonly kept: readonly KeptShare[];
  /** For revert: share of the parameters that stay the expert's. Null for other methods. */
  readonly changedShare: number | null;
  /**
   * How much of the change from the base rounding to a 16-bit type keeps, of the tensors that this run rounded; null if nothing that
   * was more exact was rounded, or the base is unknown.
   */
  readonly rounding: KeptChange | null;
  /** Name of a source on the disk with the same weights, bit for bit: the merge changed nothing. Null for others. */
  readonly equalTo: string | null;
  /** Whether an interrupted run was resumed. */
  readonly resumed: boolean;
  /** Whether the folder was already complete and nothing was written. */
  readonly alreadyComplete: boolean;
  /**
   * Tensors with infinite and NaN values in what this run read or copied to write: those that a source holds, with `model`, and
   * those that the merge made, which need `allowNonFinite`. Blocks that a file system clones are not read.
   */
  readonly nonFinite: readonly NonFinite[];
  /** Problems with the values, such as infinite ones. */
  readonly warnings: readonly string[];
}

/**
 * Executes a plan into `out`.
 *
 * `memory` limits memory use for models of any size. A run stopped by its signal, a disk error or a kill leaves
 * `OUT.partial`, which `resume` completes to the same bytes.
 * @throws OutputError if the output cannot be written there, or the disk fills up
 * @throws CancelledError if the signal fires
 * @throws LayergraftError if a source changes during the run, or the run to resume had another plan; code `not-finite` if
 *   values become infinite or NaN although the sources are finite there, without `allowNonFinite`
 */
export async function executePlan(opened: OpenedPlan, options: ExecuteOptions): Promise<ExecuteResult> {
  return new Execution(opened, options).run();
}

/**
 * Checks that a plan's output can be written: folder, existing content, free space. Writes nothing.
 * @throws OutputError if not
 */
export async function checkOutput(opened: OpenedPlan, options: ExecuteOptions): Promise<void> {
  await new Execution(opened, options).check();
}

/** What rounding kept, from the results of the pieces that were written. */
function roundingOf(outcome: RunResult, jobs: readonly Job[]): Rounding {
  const rounding = new Rounding(new Converter());
  for (const [i, pieces] of resultsByJob(outcome, jobs.length).entries()) {
    const job = jobs[i];
    if (job?.kind !== "write" || !job.base) continue;
    const dtype = job.to.dtype as "BF16" | "F16";
    for (const piece of pieces) rounding.addSums(dtype, [...piece.subarray(2)], job.isNorm);
  }
  return rounding;
}

class Execution {
  readonly #opened: OpenedPlan;
  readonly #plan: Plan;
  readonly #options: ExecuteOptions;
  readonly #folder: OutputFolder;
  /** For an adapter with measured weights, an upper bound until they are measured. */
  #layout: FolderLayout;
  #adapter: AdapterPlan | undefined;
  readonly #digest: string;
  readonly #fetchedBefore: number;

  constructor(planned: OpenedPlan, options: ExecuteOptions) {
    const opened = toWrite(planned);
    this.#opened = opened;
    this.#plan = opened.plan;
    this.#options = options;
    this.#folder = new OutputFolder(options.out);
    this.#fetchedBefore = this.#fetched();
    const { recipe, sources, steps } = this.#plan;
    if (recipe.as === "adapter") this.#adapter = planAdapter(opened);
    this.#layout = layOut(opened, this.#adapter);
    // Includes source paths, as models of one family have the same headers.
    const places = sources.map(({ id, folder, adapter, digest }) => [
      id,
      ...[folder, adapter].map((path) => path && placeOf(path, this.#folder.path)),
      digest,
    ]);
    const { vocabulary, blocks } = this.#plan;
    this.#digest = digestOfJson([recipe, places, steps, vocabulary?.digest, ...(blocks ? [blocks] : [])]);
  }

  async run(): Promise<ExecuteResult> {
    const { earlier, isComplete } = await this.check();
    if (isComplete) return this.#result(new Map(), { alreadyComplete: true });

    // Times at which headers were read: files may have changed since planning.
    const inputs = this.#plannedTimes();
    await this.#checkInputs();
    await this.#folder.open({ resume: earlier !== undefined });
    const begun = { plan: this.#digest, inputs, pins: Object.fromEntries(pinsOf(this.#plan)) };
    try {
      const known = { ...begun, measured: earlier?.measured ?? {}, done: "" };
      const { measurements } = this.#plan;
      const measured = await this.#folder.journal.measure(measurements, this.#opened.sources, known, this.#options);
      if (this.#adapter) {
        this.#adapter = planAdapter(this.#opened, measured);
        this.#layout = layOut(this.#opened, this.#adapter);
      }
      const { program, done } = await this.#prepare(measured, earlier?.done);
      const state = { ...begun, measured: packMeasured(measured), done };
      const outcome = await this.#folder.journal.run(program, state, this.#options);
      const { factors = [], whole: steps = this.#plan.steps } = this.#adapter ?? {};
      const rounding = roundingOf(outcome, program.jobs);
      const { allowNonFinite = false, signal } = this.#options;
      const found = nonFiniteSteps(outcome, program.jobs, steps);
      const nonFinite = await explainNonFinite(found, this.#opened.sources, measured, signal);
      nonFinite.push(...(await this.#writeFactors(rounding)));
      await this.#checkInputs();
      const halves = new Set([...steps, ...factors].flatMap(({ tensor, dtype }) => (dtype === "F16" ? [tensor] : [])));
      requireFinite(nonFinite, allowNonFinite, (tensor) => halves.has(tensor));
      const warnings = [...this.#folder.notes, ...nonFiniteWarnings(nonFinite), ...(await this.#finish(measured))];
      const names = this.#layout.shards.map(({ name }) => name);
      const equalTo = this.#adapter ? null : await equalSource(this.#opened, measured, this.#folder.path, names);
      const bytesRead = factors.reduce((sum, step) => sum + factorBytes(step), outcome.bytesRead);
      const bytesWritten = factors.reduce((sum, step) => sum + tensorBytes(step), outcome.bytesWritten);
      const resumed = earlier !== undefined;
      return this.#result(measured, {
        rounding: rounding.result() ?? null,
        nonFinite,
        warnings,
        equalTo,
        bytesRead,
        bytesWritten,
        resumed,
      });
    } catch (error) {
      throw await this.#folder.abandon(error);
    }
  }

  /** Whether the output can be written, and the state to resume from. Writes nothing. */
  async check(): Promise<{ earlier: RunState | undefined; isComplete: boolean }> {
    const { resume = false, force = false, allowUnrelated = false } = this.#options;
    await this.#folder.recover();
    const earlier = await this.#folder.earlierRun(this.#digest, {
      ...this.#options,
      check: ({ inputs }) => this.#checkInputs(inputs),
    });
    if (resume && earlier === undefined) {
      const obstacle = await this.#obstacle();
      if (obstacle === undefined) return { earlier, isComplete: true };
      const { path } = this.#folder;
      if (obstacle !== "missing" && !force) {
        throw new OutputError(`${path} is complete, so there is nothing to resume, but ${obstacle}`, {
          file: path,
          option: "force",
        });
      }
    }
    const { unrelated = [] } = this.#plan;
    if (unrelated.length > 0 && !allowUnrelated && !earlier) {
      throw new MismatchError("These models look unrelated. Check the paths:", unrelated, { option: "allowUnrelated" });
    }
    await this.#folder.check([...this.#opened.sources.values()].flatMap(foldersOf), force);
    await this.#folder.checkSpace(this.#layout.shards.reduce((sum, shard) => sum + shard.bytes, 0));
    requireRecordable(PROVENANCE_FILE, this.#plan);
    this.#checkMemory();
    return { earlier, isComplete: false };
  }

  /** Before anything is measured. */
  #checkMemory(): void {
    const { measurements } = this.#plan;
    if (measurements.length === 0) return;
    const steps = this.#adapter?.whole ?? this.#plan.steps;
    const computed = steps.filter(({ value }) => measurementsOf(value).length > 0);
    const resolver = new Resolver(this.#opened.sources, placeholders(measurements));
    const jobs = computed.map(({ tensor, value }): Job => {
      return { kind: "delta", name: tensor, value: resolver.evaluation(value) };
    });
    requireThreadMemory({ inputs: resolver.inputs, outputs: [], jobs }, this.#options.memory);
  }

  /** Why the output is not this plan's, complete; undefined if it is, `missing` if there is none of ours. */
  async #obstacle(): Promise<string | undefined> {
    const { planDigest } = await this.#folder.record();
    if (planDigest === undefined) return "missing";
    if (planDigest !== this.#digest) return "another recipe, other options or other sources wrote it";
    // Newer sources may have other values under the same headers.
    const { mtimeMs } = await stat(join(this.#folder.path, PROVENANCE_FILE));
    const newer = Object.entries(this.#plannedTimes()).find(([, modified]) => modified > mtimeMs);
    if (newer) return `${newer[0]} was saved after it`;
    // The sizes of an adapter are not known before its weights are measured.
    return this.#folder.damaged(this.#adapter ? [] : this.#layout.shards);
  }

  /** Modification times of the input files on the disk when they were opened. A commit on the hub never changes. */
  #plannedTimes(): Record<string, number> {
    const files = [...this.#opened.sources.values()].flatMap(({ files }) => files).filter(({ remote }) => !remote);
    return Object.fromEntries(files.map(({ path, modified }) => [path, modified]));
  }

  /** @throws LayergraftError if an input file changed */
  #checkInputs(then?: Readonly<Record<string, number>>): Promise<void> {
    const consequence = "its output would mix old and new. Start again.";
    return requireUnchanged(this.#opened.sources.values(), consequence, then);
  }

  /** Bytes fetched of all remote files so far. */
  #fetched(): number {
    const files = new Set([...this.#opened.sources.values()].flatMap(({ files }) => files));
    return [...files].reduce((sum, { remote }) => sum + (remote?.fetched ?? 0), 0);
  }

  /** @param earlier pieces that an interrupted run has done */
  async #prepare(measured: Measured, earlier = ""): Promise<{ program: Program; done: string }> {
    const { shards } = this.#layout;
    const files: Awaited<ReturnType<OutputFolder["prepareShard"]>>[] = [];
    for (const shard of shards) files.push(await this.#folder.prepareShard(shard));
    const steps = this.#adapter?.whole ?? this.#plan.steps;
    const paths = files.map(({ path }) => path);
    const program = compileWrite(steps, this.#opened.sources, measured, this.#layout, paths);
    const isResumed = files.every(({ wasThere }) => wasThere);
    const done = unpackBits(isResumed ? earlier : "", cutIntoPieces(program.jobs).length);
    const clones = shards.map(({ cloneOf }, i) => (files[i]?.isClone ? cloneOf : undefined));
    markCloned(program, clones, done);
    return { program, done: packBits(done) };
  }

  /** Writes the factors of an adapter, which are few; a resumed run writes them again. */
  async #writeFactors(rounding: Rounding): Promise<NonFinite[]> {
    const [shard] = this.#layout.shards;
    if (!this.#adapter || !shard) return [];
    const path = join(this.#folder.partial, shard.name);
    return writeFactors(path, this.#adapter.factors, shard.tensors, { ...this.#options, rounding });
  }

  async #finish(measured: Measured): Promise<string[]> {
    const { partial, path } = this.#folder;
    const { sources } = this.#opened;
    const { index } = this.#layout;
    if (index) await writeFile(join(partial, index.name), index.content);
    const warnings = this.#adapter
      ? await writeAdapterCompanions(this.#plan, sources, this.#adapter.config, partial)
      : await writeCompanions(this.#plan, sources, partial);
    await writeFile(join(partial, "README.md"), await modelCard(this.#plan, sources, basename(path)));
    const companions = await digestCompanions(
      partial,
      this.#layout.shards.map(({ name }) => name),
    );
    const provenance = provenanceOf(this.#plan, this.#digest, measured, companions, path);
    await writeFile(join(partial, PROVENANCE_FILE), provenance);
    await this.#folder.commit({ replace: this.#options.force ?? false });
    return warnings;
  }

  #result(found: Measured, of: Partial<ExecuteResult>): ExecuteResult {
    const measured = [...found].map(([id, result]): [string, readonly number[]] => {
      if (result instanceof Float32Array) return [id, [result.length]];
      if (result instanceof Uint8Array) return [id, [result.reduce((sum, mark) => sum + mark, 0), result.length]];
      return [id, result];
    });
    return {
      out: this.#folder.path,
      files: this.#layout.shards.map(({ name }) => name),
      bytesRead: 0,
      bytesWritten: 0,
      bytesFetched: this.#fetched() - this.#fetchedBefore,
      measured: Object.fromEntries(measured),
      kept: keptShares(this.#plan.measurements, found),
      changedShare: changedShare(this.#plan, found),
      rounding: null,
      equalTo: null,
      resumed: false,
      alreadyComplete: false,
      nonFinite: [],
      warnings: [],
      ...of,
    };
  }
}
