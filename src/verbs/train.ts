import { basename, isAbsolute, join, resolve } from "node:path";
import { lossPage, reportPage } from "../figures/index.js";
import { exists, writeFileAtomically } from "../kit/files/index.js";
import type { Progress } from "../kit/index.js";
import { formatCount } from "../kit/printing/index.js";
import {
  CLOSED,
  checkRun,
  expectedNotes,
  type PreparedRun,
  prepareRun,
  type Run,
  type RunResult,
  readRun,
  readTrainingLog,
  runSchema,
  type TrainProgress as StepProgress,
  trainRun,
} from "../train/index.js";
import type { RunInput } from "./inputs.js";
import { showPlan, showResult, type TrainPlan, titleOf } from "./train-show.js";
import {
  type Controls,
  callVerb,
  type FieldText,
  type Located,
  type Verb,
  type VerbOptions,
  type WorkOptions,
} from "./verb.js";

/** Progress of a training run; `done` and `total` are optimizer steps. */
export interface TrainProgress extends Progress, Omit<StepProgress, "step" | "steps" | "secondsLeft"> {}

/** Result of `train`. */
export interface TrainResult extends RunResult {
  /** Pages with the loss over the steps. */
  readonly pictures: readonly string[];
}

/** The fields of a run, which its embedded engine and TRL share. */
export const runFields = {
  schema: runSchema,
  closed: CLOSED,
  check: (input: unknown): Run => checkRun(input),
  file: { kind: "run", read: readInput },
  fetch: "files",
} as const;

export const trainVerb: Verb<typeof runSchema, TrainResult, TrainProgress, TrainPlan> = {
  ...runFields,
  name: "train",
  description:
    "Fine-tune an expert from a run file, from flags, or from both. Each field of a run file is a flag, and a flag " +
    "overrides the file. Values are read as YAML. Relative paths in the file start from its folder, those in flags " +
    "from the working folder. Formats of data: docs/train-experts.md; all fields: docs/fields.md; files to copy: examples/train.",
  options: {
    resume: "resume an interrupted run; the weights are bit-identical",
    force: "replace an existing run in `out`",
  },
  async run(run, controls) {
    const { resume, force, onProgress, onNote, onPlan, hub, say } = controls;
    const at = placed(run, controls);
    const result = await trainRun({
      ...at,
      resume,
      force,
      say,
      onRead: hub.onProgress,
      onReady: (prepared) => onPlan?.(expecting(prepared, controls)),
      onResume: ({ step, steps }) =>
        onNote?.(
          step > 0
            ? `resuming after step ${step} of ${steps}`
            : `note: ${at.run.out} has no saved state, so training starts at step 0`,
        ),
      onProgress:
        onProgress &&
        (({ step, steps, secondsLeft: _, ...progress }) =>
          onProgress({ phase: "training", done: step, total: steps, unit: "steps", ...progress })),
    });
    return { ...result, pictures: await drawLoss(at.run.out, result.log) };
  },
  show: (result, _, seconds) => showResult(result, seconds),
  plan: {
    description: "open base and data, print what would be trained and the memory it needs, and exit",
    title: titleOf,
    run: async (run, controls) =>
      expecting(await prepareRun({ ...placed(run, controls), checkMemory: true }), controls),
    show: showPlan,
    json: summaryOf,
  },
  terminal: {
    positional: ["run"],
    least: ["base", "data", "out"],
    groups: {
      Run: ["dryRun", "preview", "resume", "force", "push"],
      "PyTorch (TRL):": ["engine", "gpus", "machines", "precision"],
      "Model and data": ["*"],
      LoRA: ["lora"],
      "Batches and length": [
        ...["sequence_length", "packing", "loss_on", "batch", "accumulation", "steps", "epochs", "samples"],
      ],
      "Optimizer (AdamW):": ["optimizer"],
      "Learning-rate schedule:": ["schedule"],
      Checkpoints: ["checkpoints", "save_dtype"],
      "Held-out data:": ["holdout", "early_stopping"],
      General: ["seed", "threads"],
    },
    waitsFor: "this step",
    detail: ({ loss, holdoutLoss, learningRate, gradientNorm, tokensPerSecond }) =>
      [
        `loss ${loss.toFixed(4)}`,
        ...(holdoutLoss === undefined ? [] : [`held-out loss ${holdoutLoss.toFixed(4)}`]),
        `lr ${learningRate.toExponential(1)}`,
        `|g| ${gradientNorm.toFixed(2)}`,
        `${formatCount(tokensPerSecond)} tokens/s`,
      ].join("  "),
    pushed: ({ merged, reverted, best, last }) => merged ?? reverted ?? best ?? last,
  },
};

const expecting = (prepared: PreparedRun, { say }: Pick<Controls, "say">): TrainPlan => ({
  ...prepared,
  expected: expectedNotes(prepared.kept, say),
});

/** Where the paths of a run start from. */
export function placed(
  run: Run,
  { folder, dataFolder, outFolder = folder ?? ".", hub, signal, started }: Omit<Controls<never, never>, "onProgress">,
) {
  const out = isAbsolute(run.out) || outFolder === "." ? run.out : join(outFolder, run.out);
  return { run: { ...run, out }, folder, dataFolder, hub, signal, started };
}

/** The run, and the folders its relative paths start from: the file's for its fields, the working folder for flags. */
async function readInput(file: string | undefined, fields: readonly FieldText[]): Promise<Located<Run>> {
  if (file === undefined) {
    return { input: checkRun({}, { fields }), folder: ".", dataFolder: ".", outFolder: "." };
  }
  const { run, folder } = await readRun(file, { fields });
  const startOf = (...names: string[]) => (fields.some(([field]) => names.includes(field)) ? "." : folder);
  const first = resolve(startOf("mask", "mask.from"), run.mask?.from ?? "");
  const mask = run.mask && (await exists(first)) ? { ...run.mask, from: first } : run.mask;
  return {
    input: {
      ...run,
      ...(mask ? { mask } : {}),
      out: isAbsolute(run.out) ? run.out : join(startOf("out"), run.out),
    },
    folder: startOf("base"),
    dataFolder: startOf("data", "partition"),
    outFolder: ".",
  };
}

function summaryOf(
  { settings, trained, lora, streams, memory, kept, notes, warnings }: PreparedRun,
  run: Run,
): unknown {
  return {
    run,
    settings,
    trained: [...trained],
    ...(lora ? { factors: lora.modules.map(({ module }) => module) } : {}),
    data: Object.fromEntries(streams.map(({ name, counts }) => [name, counts])),
    memory,
    kept,
    notes,
    warnings,
  };
}

async function drawLoss(out: string, log: string): Promise<string[]> {
  const entries = (await readTrainingLog(log)).filter(({ kept }) => !kept);
  if (entries.length < 2) return [];
  const file = join(out, "loss.html");
  await writeFileAtomically(file, await reportPage(lossPage(entries, `Loss of ${basename(out)}`)));
  return [file];
}

/** Options of `train`. */
export interface TrainOptions extends VerbOptions<TrainProgress>, Pick<WorkOptions, "resume" | "force"> {}

/**
 * Trains a model: all weights, some layers, or a LoRA adapter.
 * @param run what to train, with the fields of a run file; or the path of one, whose relative paths start from its folder
 * @returns the folders of the last and the best checkpoint, each a model that all other calls take
 * @throws RecipeError if the run is not valid, with every problem
 * @throws DataError or CheckpointError if the data or the base cannot be read
 * @throws OutputError if `out` holds another run
 * @throws CancelledError if the signal fires; the state is saved, and `resume` continues
 * @throws LayergraftError with code `diverged` if a loss or gradient is not finite
 */
export function train(run: RunInput | string, options: TrainOptions = {}): Promise<TrainResult> {
  return callVerb(trainVerb, run, options);
}
