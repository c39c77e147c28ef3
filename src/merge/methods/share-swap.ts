// Share swap: takes each layer or module from the expert with the larger share of change there, or blends the two. Shin
// & Hwang, EACL 2026, arXiv 2601.22620.
import { z } from "zod";
import { defineCombination, type Totals } from "../../tensor/measurements/index.js";
import { defineMethod, sourceField } from "./method.js";
import { average, copyTensor, requireBase } from "./operand.js";
import { mergeByOwner, sharesOf, sizesOf, type Units, unitField } from "./weights-by-owner.js";

/** The expert whose share is larger by more than tau owns a unit, else the two are blended. `sizes[unit][expert]` */
export function weightsByShare(sizes: readonly (readonly number[])[], tau: number, alpha: number): number[] {
  return sharesOf(sizes).flatMap(([first = 0, second = 0]) => {
    const difference = first - second;
    return difference > tau ? [1, 0] : difference < -tau ? [0, 1] : [alpha, 1 - alpha];
  });
}

export const shareWeights = defineCombination(
  "share-weights",
  (totals: Totals, given: Units & { readonly tau: number; readonly alpha: number }) =>
    weightsByShare(sizesOf(totals, given), given.tau, given.alpha),
);

export const shareSwap = defineMethod({
  name: "share_swap",
  title: "Share swap",
  summary: "Takes each layer or module from the expert that changed it most in proportion, or blends the two.",
  formula:
    "share = s / sum(s), s of a layer = sum over its tensors of ||theta_i - theta_base|| / ||theta_base|| (of a module: root of the sum of squares); task where share_task - share_language > tau, language where < -tau, else, and outside: alpha theta_task + (1 - alpha) theta_language",
  reference: "Shin & Hwang, EACL 2026, arXiv 2601.22620",
  tag: "layer-swap",
  fields: () => ({
    task: sourceField("the task expert"),
    language: sourceField("the language expert"),
    base: sourceField("model that both were fine-tuned from"),
    by: unitField("module"),
    tau: z.number().min(0).default(0.001).describe("difference of shares above which one expert gives the whole unit"),
    alpha: z
      .number()
      .min(0)
      .max(1)
      .default(0.5)
      .describe("weight of the task expert where the two are blended or averaged"),
    outside: z
      .enum(["average", "task", "language"])
      .default("average")
      .describe("source of tensors outside the layers; `average` weights the experts by `alpha`"),
  }),
  example: { method: "share_swap", task: "math-expert", language: "swahili-expert", base: "base", by: "layer" },
  tensors: ({ by, tau, alpha, outside }, sources, context) => {
    const [task, language] = [sources.get("task"), sources.get("language")];
    const base = requireBase(sources.base, "a share swap needs");
    const id = `shares of ${task.label} and ${language.label} against ${base.label} by ${by}, tau ${tau}, alpha ${alpha}`;
    const weigh = (units: Units) => shareWeights.with({ ...units, tau, alpha });
    const sum = by === "layer" ? "sum" : "root";
    const terms = [
      { operand: task, weight: alpha },
      { operand: language, weight: 1 - alpha },
    ];
    const atAll = (name: string) =>
      outside === "average" ? average(name, terms, context) : copyTensor(name, sources.get(outside));
    return mergeByOwner([task, language], base, { id, by, sum, weigh }, atAll, context);
  },
  weighting: () => "by shares of change (measured first)",
});
