import { z } from "zod";
import { usageError } from "../../kit/index.js";
import { namedField } from "../../kit/settings/index.js";
import type { ExperimentInput } from "./plan-schema.js";

export const TUNE_METHODS = ["swap", "slerp", "ties"] as const;
export const TUNE_SEARCHES = ["cma-es", "random", "halving"] as const;

/** Folder that tune writes. */
export const TUNED = "tuned";

const LEAST = "must be at least 2";

/** What tune takes. */
export const tuneSchema = z.strictObject({
  task: namedField("source", "task expert"),
  language: namedField("source", "language expert"),
  base: namedField("source", "model both were fine-tuned from; ties needs it").optional(),
  on: namedField("task", "task that decides: a task file, or a name such as mgsm_sw"),
  limit: z.int().min(2, LEAST).optional().meta({ description: "items of the task", unset: "all" }),
  method: z
    .enum(TUNE_METHODS)
    .default("swap")
    .meta({ description: "swap: layers of each expert; slerp: share of each by layer; ties: density and lambda" }),
  how: z.enum(TUNE_SEARCHES).default("cma-es").meta({ description: "way to search" }),
  budget: z.int().min(2, LEAST).default(40).meta({ description: "configurations to evaluate" }),
  seed: z.int().min(0).default(0).meta({ description: "random seed" }),
  out: namedField("folder", "folder for the plan, results and report").default(TUNED),
});

export interface TuneSettings extends Omit<z.output<typeof tuneSchema>, "out"> {
  /** Of the task expert. */
  readonly layers: number;
}

/** Numbers of a gradient over the layers. */
const GRADIENT = 4;

/** Names of the experts, in recipes and in every table. */
const [TASK, LANGUAGE] = ["task-expert", "language-expert"];

/** @throws LayergraftError code `usage` if the method needs a base and there is none */
export function tunePlan(settings: TuneSettings): ExperimentInput {
  const { task, language, base, on, limit, method, how, budget, seed } = settings;
  if (method === "ties" && base === undefined)
    throw usageError("ties needs the base that both were fine-tuned from", { option: "base" });
  return {
    name: TUNED,
    out: "experiment",
    title: `The best ${method} of two experts`,
    base: base ?? task,
    experts: {
      [TASK]: { role: "other", folders: { [TASK]: task } },
      [LANGUAGE]: { role: "other", folders: { [LANGUAGE]: language } },
    },
    merges: [{ name: TUNED, ...mergeOf(settings) }],
    // Without a base, the plan's is the task expert, which has a row already.
    evaluate: {
      tasks: [
        {
          task: on,
          ...(limit === undefined ? {} : { limit }),
          ...(base === undefined ? { of: ["experts", "merges"] } : {}),
        },
      ],
    },
    search: { how, budget, seed },
  };
}

type TunedMerge = Pick<NonNullable<ExperimentInput["merges"]>[number], "recipe" | "space">;

function mergeOf({ method, layers }: TuneSettings): TunedMerge {
  if (method === "slerp") {
    return {
      recipe: { method, models: [TASK, LANGUAGE], t: 0.5 },
      space: { t: { from: 0, to: 1, gradient: GRADIENT } },
    };
  }
  if (method === "ties") {
    return {
      recipe: { method, base: "base", models: [TASK, LANGUAGE] },
      space: { density: { from: 0.05, to: 1 }, lambda: { from: 0.3, to: 2 } },
    };
  }
  const [bottom, top, transition] = [2, 4, 8].map((part) => Math.floor(layers / part)) as [number, number, number];
  const upTo = (to: number, field: string) => (to > 0 ? { [field]: { from: 0, to, whole: true } } : {});
  return {
    recipe: { method, task: TASK, language: LANGUAGE },
    space: {
      ...upTo(Math.max(1, bottom), "bottom"),
      ...upTo(top, "top"),
      ...upTo(Math.min(2, transition), "bottom_transition"),
      ...upTo(Math.min(2, transition), "top_transition"),
    },
  };
}
