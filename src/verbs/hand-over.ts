// A training run as a folder for PyTorch: the same run, which TRL trains.
import { z } from "zod";
import { isObject, type Progress } from "../kit/index.js";
import { formatBytes, formatCount, plural, shellQuote } from "../kit/printing/index.js";
import {
  checkRun,
  handOverRun,
  prepareRun,
  runSchema,
  TRL_FILES,
  TRL_PRECISIONS,
  type TrlCluster,
} from "../train/index.js";
import { placed, runFields, trainVerb } from "./train.js";
import type { TrainPlan } from "./train-show.js";
import type { Noted, Verb } from "./verb.js";

const cluster = {
  gpus: z.int().min(1).optional().meta({ description: "processes per machine", unset: "1" }),
  machines: z.int().min(1).optional().meta({ description: "number of machines", unset: "1" }),
  precision: z
    .enum(TRL_PRECISIONS)
    .optional()
    .meta({ description: "type of weights", unset: "auto, bfloat16 on a GPU" }),
  gradient_checkpointing: z
    .boolean()
    .optional()
    .meta({ description: "recompute activations instead of keeping them", unset: "false" }),
};
const schema = z.strictObject({ ...runSchema.shape, ...cluster });
const clusterSchema = z.strictObject(cluster);

type Result = Awaited<ReturnType<typeof handOverRun>> & Noted;

export const handOverVerb: Verb<typeof schema, Result, Progress, TrainPlan> = {
  ...runFields,
  name: "train",
  description: "Write a training run as a folder that TRL trains in PyTorch.",
  schema,
  check(input) {
    const entries = Object.entries(isObject(input) ? input : {});
    const isCluster = ([name]: readonly [string, unknown]) => name in cluster;
    const run = checkRun(Object.fromEntries(entries.filter((entry) => !isCluster(entry))));
    return { ...run, ...clusterSchema.parse(Object.fromEntries(entries.filter(isCluster))) };
  },
  file: {
    kind: "run",
    read: (file, fields) => runFields.file.read(file, fields),
  },
  options: {},
  async run({ gpus, machines, precision, gradient_checkpointing: gradientCheckpointing, ...run }, controls) {
    const { onProgress, onPlan } = controls;
    let { notes, warnings }: Noted = { notes: [], warnings: [] };
    const written = await handOverRun({
      ...placed(run, controls),
      cluster: { processes: gpus, machines, precision, gradientCheckpointing } satisfies TrlCluster,
      onWritten: (done, total) => onProgress?.({ phase: "writing sequences", done, total, unit: "items" }),
      onReady: (prepared) => {
        ({ notes, warnings } = prepared);
        onPlan?.({ ...prepared, expected: [] });
      },
    });
    return { ...written, notes, warnings };
  },
  show({ folder, sequences, tokens, out, memory }) {
    const lines = [
      `Wrote ${folder}: ${plural(sequences, "sequence")}, ${formatCount(tokens)} tokens, ${TRL_FILES.entry}, ${TRL_FILES.accelerate}`,
      `Start it with: cd ${shellQuote(folder)} && accelerate launch --config_file ${TRL_FILES.accelerate} ${TRL_FILES.entry}`,
      `Checkpoints go to ${out}`,
      `Weights, gradients and moments take ${formatBytes(memory.bfloat16)} in bfloat16, the default on a GPU, or ${formatBytes(memory.float32)} with float32 weights (precision: mixed), plus activations`,
    ];
    return [{ kind: "text", lines }];
  },
  plan: {
    description: "",
    run: async (run, controls) => ({ ...(await prepareRun(placed(run, controls))), expected: [] }),
    show: (prepared, run) => trainVerb.plan?.show(prepared, run) ?? [],
    json: (prepared, run) => trainVerb.plan?.json?.(prepared, run),
  },
  terminal: { groups: {}, waitsFor: "this step" },
};

/** Trains what the verb has written, with the Python that has TRL. */
export { startTrlRun as startHandedOver } from "../train/index.js";
