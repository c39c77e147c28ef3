// Writes a run as a folder for PyTorch: configuration, sequences in training order, and scripts on TRL and PEFT.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { readSpec } from "../../engine/model/index.js";
import { type TensorToWrite, writeSafetensors } from "../../formats/safetensors/index.js";
import { checkFolderOutput, namesIn, writeFolder } from "../../kit/files/index.js";
import {
  CancelledError,
  DTYPE_BY_TORCH_NAME,
  elementCount,
  groupBy,
  RecipeError,
  type Shape,
} from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import { yamlText } from "../../kit/settings/index.js";
import { factorsOf, initialFactors, type LoraModule, writeAdapter } from "../loop/lora.js";
import type { TokenBatch } from "../loop/trainable.js";
import type { TrainingStream, TrainOptions } from "../loop/training-types.js";
import { decaySteps, learningRateFactor } from "../run/schedule.js";

export type TrlRun = Pick<
  TrainOptions,
  "run" | "settings" | "source" | "streams" | "trained" | "lora" | "masks" | "holdout" | "revert"
>;

export interface WriteTrlOptions {
  readonly folder: string;
  /** Replace a run that was written there, and not trained. Default: false. */
  readonly force?: boolean | undefined;
  /** Options of `train`. The streams are read to the end of the run. */
  readonly training: TrlRun;
  readonly cluster?: TrlCluster | undefined;
  /** Id of padding, which no token attends to; default 0. */
  readonly pad?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((steps: { readonly done: number; readonly of: number }) => void) | undefined;
}

export interface TrlFolder {
  readonly folder: string;
  readonly sequences: number;
  readonly tokens: number;
  /** Folder of checkpoints and log. */
  readonly out: string;
  /** Bytes of weights, gradients and moments over all processes: if weights are bfloat16, and if they are float32. */
  readonly memory: { readonly bfloat16: number; readonly float32: number };
}

export const TRL_FILES = {
  run: "run.json",
  steps: "steps.json",
  data: "data.jsonl",
  holdout: "holdout.jsonl",
  adapter: "adapter",
  masks: "masks.safetensors",
  entry: "train.py",
  requirements: "requirements.txt",
  accelerate: "accelerate.yaml",
  out: "out",
} as const;

/**
 * Writes a run as a folder for TRL. The base must be a checkpoint on the disk.
 * @throws RecipeError with every field that TRL cannot follow
 * @throws OutputError if the folder cannot be written
 * @throws CancelledError if the signal fires; nothing is written then
 */
export async function writeTrlRun(options: WriteTrlOptions): Promise<TrlFolder> {
  const { training, cluster = {} } = options;
  const folder = resolve(options.folder);
  const base = requireSupported(training, cluster);
  await requireFree(folder, options.force);
  const fill = async (partial: string) => {
    const sequences = await writeSequences(partial, options);
    const { run, holdout, lora: plan } = training;
    const lines = holdout.map((batch) => rowsAsJson(batch, run.packing));
    if (lines.length > 0) await writeFile(join(partial, TRL_FILES.holdout), lines, { flush: true });
    if (plan) {
      // The factors before training, the same as in a run of layergraft itself.
      const factors = (module: LoraModule) => initialFactors(module, plan.settings.rank, run.seed);
      await mkdir(join(partial, TRL_FILES.adapter));
      await writeAdapter(join(partial, TRL_FILES.adapter), { plan, base, factors });
    }
    if (training.masks) {
      const bits = [...(await training.masks())].map(
        ([name, data]): TensorToWrite => ({ name, dtype: "U8", shape: [data.length], data }),
      );
      await writeSafetensors(join(partial, TRL_FILES.masks), bits);
    }
    const writeText = (name: string, text: string) => writeFile(join(partial, name), text);
    await writeText(TRL_FILES.run, `${JSON.stringify(describe(options, base, sequences), undefined, 1)}\n`);
    await writeText(TRL_FILES.entry, await readAsset("#trl-entry"));
    await writeText(TRL_FILES.requirements, await readAsset("#trl-requirements"));
    await writeText(TRL_FILES.accelerate, accelerateYaml(cluster));
    return sequences;
  };
  // It may replace an empty folder.
  const written = await writeFolder(folder, "the run", fill, { replace: true });
  const { sequences, tokens } = written;
  return { folder, out: join(folder, TRL_FILES.out), sequences, tokens, memory: memoryOf(training) };
}

/**
 * Checks that a run can be written for TRL, before its data are read.
 * @throws OutputError if the folder has something else, or `force` is not set; checkpoints of TRL are never replaced
 */
export async function requireFree(folder: string, force: boolean | undefined): Promise<void> {
  const isEmpty = (await namesIn(folder))?.length === 0;
  const { out, ...files } = TRL_FILES;
  const names: readonly string[] = Object.values(files);
  await checkFolderOutput({ out: folder, force: force || isEmpty }, [], (path) =>
    names.includes(path.split("/")[0] ?? ""),
  );
}

/** A value that is trained has a gradient and two moments. */
function memoryOf(training: TrlRun): TrlFolder["memory"] {
  const count = (all: Iterable<{ readonly shape: Shape }>) =>
    [...all].reduce((sum, { shape }) => sum + elementCount(shape), 0);
  const [weights, trained] = [count(training.source.tensors.values()), count(parametersOf(training))];
  return training.lora
    ? { bfloat16: 2 * weights + 16 * trained, float32: 4 * weights + 16 * trained }
    : { bfloat16: 2 * weights + 6 * trained, float32: 4 * weights + 12 * trained };
}

/** @param name of the package's imports */
function readAsset(name: string): Promise<string> {
  return readFile(createRequire(import.meta.url).resolve(name), "utf8");
}

// Their masks of attention are made without positions, which say where a sample begins (transformers 5.24).
const WITHOUT_PACKING: readonly string[] = ["gpt_oss", "granitemoehybrid"];

/** @returns the base for `from_pretrained`. @throws RecipeError with every field that TRL cannot follow */
function requireSupported(training: TrlRun, { processes = 1, machines = 1 }: TrlCluster): string {
  const { run, source, streams } = training;
  const problems: string[] = [];
  const checkpoints = [...source.sources.values()];
  const [base] = checkpoints;
  if (!base || checkpoints.length > 1 || base.adapter) {
    problems.push(
      `base: it is made of several checkpoints or has an adapter. Write it first: ${commandLine`merge ${run.base} --out FOLDER`}`,
    );
  }
  const perStep = run.accumulation * (streams[0] ? rowsOf(streams) : 0);
  if (perStep % (processes * machines) !== 0) {
    problems.push(
      `batch and accumulation: ${processes * machines} processes cannot share the ${perStep} sequences of a step evenly`,
    );
  }
  const { modelType } = source.config;
  const hasState = readSpec(source.config, source.tensors.keys()).layers.some(({ weights }) => weights.mix);
  if (run.packing && (hasState || WITHOUT_PACKING.includes(modelType))) {
    problems.push(`packing: transformers does not keep packed samples of ${modelType} models apart; set it to false`);
  }
  const dtypes = dtypesToSave(training);
  if (dtypes.length > 1) {
    problems.push(
      `save_dtype: the base has tensors of ${dtypes.join(" and ")}, but a checkpoint of TRL has one type; name it`,
    );
  }
  if (!base || problems.length > 0) throw new RecipeError("TRL cannot follow this run:", problems);
  return base.folder;
}

const TORCH_NAMES: Readonly<Record<string, string>> = {
  F64: "float64",
  ...Object.fromEntries(Object.entries(DTYPE_BY_TORCH_NAME).map(([name, dtype]) => [dtype, name])),
};

/** Element types of checkpoints, as PyTorch names them; several if those of the base are kept. */
function dtypesToSave({ run, lora, source }: TrlRun): string[] {
  if (run.save_dtype !== "keep") return [run.save_dtype];
  if (lora) return ["float32"];
  return [...new Set([...source.tensors.values()].flatMap(({ dtype }) => TORCH_NAMES[dtype] ?? []))];
}

/** Rows of a batch, from the next one of the first stream. */
function rowsOf([stream]: readonly TrainingStream[]): number {
  if (!stream) return 0;
  const position = stream.batches.position();
  const { rows } = stream.batches.next();
  stream.batches.seek(position);
  return rows;
}

interface Written {
  readonly sequences: number;
  readonly tokens: number;
  readonly sequencesPerStep: number;
  readonly rows: number;
}

/** Writes data.jsonl, a sequence a line, and steps.json. */
async function writeSequences(folder: string, options: WriteTrlOptions): Promise<Written> {
  const { training, signal, onProgress } = options;
  const { run, streams, settings } = training;
  const rows = rowsOf(streams);
  const samples: number[] = [];
  const tokens: number[] = [];
  const rates: number[] = [];
  const lines = async function* () {
    for (let step = 0; step < settings.steps; step++) {
      await nextTurn();
      if (signal?.aborted)
        throw new CancelledError(`stopped after step ${step} of ${settings.steps}; nothing is written`);
      const stream = streams[step % streams.length] as TrainingStream;
      const batches = Array.from({ length: run.accumulation }, () => stream.batches.next());
      for (const batch of batches) {
        if (batch.rows !== rows) throw new RangeError(`${batch.name} has ${batch.rows} rows, and others ${rows}`);
        yield rowsAsJson(batch, run.packing);
      }
      samples.push((samples.at(-1) ?? 0) + batches.reduce((sum, batch) => sum + batch.samples, 0));
      tokens.push((tokens.at(-1) ?? 0) + batches.reduce((sum, batch) => sum + batch.tokens, 0));
      rates.push(learningRateFactor(settings.schedule, step, settings.steps));
      onProgress?.({ done: step + 1, of: settings.steps });
    }
  };
  await writeFile(join(folder, TRL_FILES.data), lines(), { flush: true });
  await writeFile(join(folder, TRL_FILES.steps), `${JSON.stringify({ samples, tokens, rates })}\n`);
  const sequencesPerStep = rows * run.accumulation;
  return { sequences: sequencesPerStep * settings.steps, tokens: tokens.at(-1) ?? 0, sequencesPerStep, rows };
}

/** A line for each row, without padding. A label is beside the token before it here, and beside its own token in transformers. */
function rowsAsJson({ rows, time, ids, labels, positions, segments }: TokenBatch, packing: boolean): string {
  const lines = Array.from({ length: rows }, (_, row) => {
    const begin = row * time;
    let end = begin + time;
    while (end > begin + 1 && segments[end - 1] === 0) end--;
    if (!packing && segments.subarray(begin, end).some((segment) => segment > 1)) {
      throw new RangeError("a sequence holds several samples, but packing is false");
    }
    const shifted = Array.from(labels.subarray(begin, end - 1), (label) => (label < 0 ? IGNORED : label));
    return JSON.stringify({
      input_ids: [...ids.subarray(begin, end)],
      labels: [IGNORED, ...shifted],
      ...(packing ? { position_ids: [...positions.subarray(begin, end)] } : {}),
    });
  });
  return `${lines.join("\n")}\n`;
}

/** Between states that are no checkpoint's. They are large where PyTorch is needed, and training waits for them. */
const STATE_MINUTES = 10;

/** The label of tokens without a loss, in PyTorch. */
const IGNORED = -100;

function describe({ training, cluster = {}, pad = 0 }: WriteTrlOptions, base: string, written: Written): object {
  const { run, settings, streams, lora, masks, holdout, revert } = training;
  const { optimizer, early_stopping: stopping } = run;
  const { schedule, steps } = settings;
  const { kind, warmup, floor, decay_share: decayShare, decay_shape: decayShape } = schedule;
  return {
    base,
    out: TRL_FILES.out,
    lora: lora !== undefined,
    masks: masks !== undefined,
    groups: groupsOf(training),
    streams: streams.map(({ batches }) => batches.name),
    steps,
    batch: written.rows,
    sequences_per_step: written.sequencesPerStep,
    learning_rate: settings.learningRate,
    schedule: {
      kind,
      decayShare,
      decayShape,
      floor,
      warmup,
      ...(kind === "wsd" ? { decaySteps: decaySteps(schedule, steps) } : {}),
    },
    optimizer: { betas: optimizer.betas, eps: optimizer.eps, decay: optimizer.decay, clip: optimizer.clip || null },
    packing: run.packing,
    pad,
    holdout: holdout.length > 0,
    evaluate_every: settings.evaluateEvery,
    patience: stopping?.patience ?? null,
    least: stopping?.least ?? 0,
    checkpoint_every: run.checkpoints.every_samples,
    state_minutes: STATE_MINUTES,
    keep: run.checkpoints.keep,
    save_dtype: dtypesToSave(training)[0] ?? "float32",
    reverted: [...(revert ?? [])],
    seed: run.seed,
    threads: run.threads ?? null,
    precision: cluster.precision ?? "auto",
    gradient_checkpointing: cluster.gradientCheckpointing ?? false,
    configuration: run,
  };
}

function parametersOf({ source, trained, lora }: TrlRun): { name: string; shape: Shape }[] {
  return lora
    ? lora.modules.flatMap((module) => Object.values(factorsOf(module, lora.settings.rank)))
    : [...source.tensors].flatMap(([name, { shape }]) => (trained.has(name) ? [{ name, shape }] : []));
}

/** Parameters by weight decay and streams. */
function groupsOf(training: TrlRun): object[] {
  const { run, streams } = training;
  const { decay: rate, decay_all: decayAll } = run.optimizer;
  const parameters = parametersOf(training);
  const keyOf = ({ name, shape }: (typeof parameters)[number]) => {
    const own = streams.flatMap((stream, i) => ((stream.trained?.has(name) ?? true) ? [i] : []));
    return JSON.stringify({ decay: decayAll || shape.length > 1 ? rate : 0, streams: own });
  };
  return [...groupBy(parameters, keyOf)].map(([key, some]) => {
    return { ...JSON.parse(key), names: some.map(({ name }) => name) };
  });
}

/**
 * Types of weights, gradients and moments: all bfloat16, or all float32. In `mixed`, only the matrix products are bfloat16.
 * Factors of LoRA are always float32.
 */
export const TRL_PRECISIONS = ["auto", "bfloat16", "mixed", "float32"] as const;
export type TrlPrecision = (typeof TRL_PRECISIONS)[number];

/** Machines and settings of a run for TRL. */
export interface TrlCluster {
  /** Processes per machine, usually one per GPU; default 1. */
  readonly processes?: number | undefined;
  /** Machines; default 1. */
  readonly machines?: number | undefined;
  /** Default auto: bfloat16 on a GPU, float32 without. */
  readonly precision?: TrlPrecision | undefined;
  /** Recompute activations instead of keeping them; default false. */
  readonly gradientCheckpointing?: boolean | undefined;
}

/** The configuration of accelerate: one process, or parameters sharded over all of them (FSDP 2). */
export function accelerateYaml({ processes = 1, machines = 1, precision = "auto" }: TrlCluster): string {
  const total = processes * machines;
  return yamlText({
    compute_environment: "LOCAL_MACHINE",
    distributed_type: total > 1 ? "FSDP" : "NO",
    mixed_precision: precision === "mixed" ? "bf16" : "no",
    num_machines: machines,
    num_processes: total,
    machine_rank: 0,
    main_training_function: "main",
    ...(total > 1
      ? {
          fsdp_config: {
            fsdp_version: 2,
            fsdp_auto_wrap_policy: "TRANSFORMER_BASED_WRAP",
            fsdp_reshard_after_forward: true,
            fsdp_offload_params: false,
            fsdp_state_dict_type: "FULL_STATE_DICT",
            fsdp_cpu_ram_efficient_loading: false,
          },
        }
      : {}),
  });
}
