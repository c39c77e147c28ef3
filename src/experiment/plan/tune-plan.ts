import { usageError } from "../../kit/index.js";
import type { ExperimentInput } from "./plan-schema.js";

export const TUNE_METHODS = ["swap", "slerp", "ties"] as const;
export const TUNE_SEARCHES = ["cma-es", "random", "halving"] as const;

export interface TuneSettings {
  /** Paths, or names on the hub. */
  readonly task: string;
  readonly language: string;
  /** Default: the task expert, in a method that needs no base. */
  readonly base?: string | undefined;
  /** Task that decides: a name, or a file. */
  readonly on: string;
  /** Items of the task (default: all). */
  readonly limit?: number | undefined;
  readonly method: (typeof TUNE_METHODS)[number];
  readonly how: (typeof TUNE_SEARCHES)[number];
  readonly budget: number;
  readonly seed: number;
  readonly layers: number;
}

/** Numbers of a gradient over the layers. */
const GRADIENT = 4;

/** Names of the experts, in recipes and in every table. */
const [TASK, LANGUAGE] = ["task-expert", "language-expert"];

export const TUNED = "tuned";

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
