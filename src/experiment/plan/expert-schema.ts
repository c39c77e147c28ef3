import { z } from "zod";
import { count, flag, formatLimit, MAX_CHECKPOINTS, mapping, name, ROLES, text, whole } from "./plan-values.js";

const trl = z.strictObject({
  python: text.optional().describe("Python interpreter with TRL and PEFT (default: python3)"),
  processes: count.optional().describe("processes of a run, usually one for each GPU (default: 1)"),
  precision: z
    .enum(["auto", "bfloat16", "mixed", "float32"], "must be auto, bfloat16, mixed or float32")
    .optional()
    .describe(
      "bfloat16 or float32 for weights, gradients and moments, or mixed: float32 with bfloat16 products (default: auto, bfloat16 on a GPU)",
    ),
  gradient_checkpointing: flag.optional().describe("recompute activations instead of keeping them"),
});

/** Fields of `training` and of a family of experts's `train`. */
export const common = {
  engine: z
    .enum(["embedded", "trl"], "must be embedded or trl")
    .optional()
    .describe("embedded: layergraft trains; trl: TRL on PyTorch (default: embedded)"),
  trl: trl.optional().describe("settings of engine trl"),
};

export const training = z.strictObject({
  from: text.optional().describe("expert or merge to start from; a merge is written once (default: the plan's base)"),
  like: z
    .union([name, z.array(name).min(1)], { error: "must be a name under `training`, or a list of them" })
    .optional()
    .describe(
      "settings under `training` to start from; later ones override earlier ones, the family's own override all",
    ),
  run: mapping.default({}).describe("fields of `layergraft train` for all runs; base and out are filled in"),
  runs: z
    .array(z.looseObject({ name: name.describe("name of the run; its other fields override the common ones") }))
    .min(1, "must list at least one run")
    .optional()
    .describe("runs that differ in some fields: for each a name and those fields, such as preset, seed or optimizer"),
  seeds: z
    .array(whole)
    .min(1, "must list at least one seed")
    .optional()
    .describe("one run for each seed; instead of `runs`"),
  ...common,
});

const selection = z.strictObject({
  top: count
    .max(MAX_CHECKPOINTS, `must be at most ${formatLimit(MAX_CHECKPOINTS)}`)
    .default(3)
    .describe("checkpoints to keep"),
  by: z
    .union([text, z.array(text).min(1)], {
      error: "must be a task or an average, or a list of them whose scores are averaged",
    })
    .describe(
      "task or average (by its name) whose score decides, or a list whose mean does; where it mixes percent and points such as BLEU, the mean of z-scores over the checkpoints",
    ),
  guards: z
    .array(
      z.strictObject({
        task: text.describe("task on which a checkpoint must not be worse than the base"),
        within: z
          .number("must be a number")
          .default(0)
          .describe("points that it may be below the base; negative: points that it must be above it"),
      }),
    )
    .default([])
    .describe("refuse checkpoints that lost more, or gained less, than so many points against the base"),
  one_per_run: flag.default(true).describe("keep at most one checkpoint of each run"),
});

export const expertFamily = z.strictObject({
  role: z
    .enum(ROLES, `must be one of ${ROLES.join(", ")}`)
    .describe("task: trained on the task; language: trained on a language; joint: trained on both; other"),
  language: name.optional().describe("language code of a language expert as task names use it, such as sw"),
  folders: z
    .union([z.array(text).min(1), z.record(z.string(), text)], {
      error: "must be a list of folders, or names with a folder each",
    })
    .optional()
    .describe("folders of existing experts: a list (named FAMILY-1, FAMILY-2, ...) or a mapping from names to folders"),
  train: training.optional().describe("experts to train; instead of `folders`"),
  select: selection
    .optional()
    .describe("how to choose among the checkpoints of all runs (default: the last of each run)"),
});
