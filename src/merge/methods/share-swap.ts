// Share swap: layers or modules go to the expert for which they hold the larger share of its whole change; where the
// shares are alike, they are blended. Shin & Hwang, EACL 2026, arXiv 2601.22620.
import { z } from "zod";
import { blockOf } from "../../checkpoint/architectures.js";
import { groupBy } from "../../core/group.js";
import { sourceField } from "../fields.js";
import { defineMethod } from "../method.js";
import { average, isMeasurable, type OperandTensor, requireBase, take, tensorOf } from "../operand.js";

const schema = z.strictObject({
  method: z.literal("share_swap"),
  task: sourceField("the task expert"),
  language: sourceField("the language expert"),
  base: sourceField("the model both were fine-tuned from"),
  by: z
    .enum(["layer", "module"])
    .default("module")
    .describe("what is decided as one: a layer, or the attention and the feed-forward of each layer by themselves"),
  tau: z.number().min(0).default(0.001).describe("difference of shares from which one expert owns the whole"),
  alpha: z.number().min(0).max(1).default(0.5).describe("the task expert's weight in a blend"),
  outside: z.enum(["average", "task", "language"]).default("average").describe("where tensors in no layer come from"),
});

export const shareSwap = defineMethod({
  name: "share_swap",
  title: "Share swap",
  summary: "Each layer or module from the expert for which it holds the larger share of the change, else a blend.",
  formula:
    "share = s / sum(s), s of a layer = sum over its tensors of ||theta_i - theta_base|| / ||theta_base|| (of a module: root of the sum of squares); task where share_task - share_language > tau, language where < -tau, else alpha theta_task + (1 - alpha) theta_language",
  reference: "Shin & Hwang, EACL 2026, arXiv 2601.22620",
  tag: "layer-swap",
  schema,
  example: { method: "share_swap", task: "math-expert", language: "swahili-expert", base: "base", by: "layer" },
  tensors: ({ by, tau, alpha, outside }, sources, context) => {
    const [task, language] = [sources.get("task"), sources.get("language")];
    const base = requireBase(sources.base, "a share swap needs");
    const groupOf = ({ layer, part }: OperandTensor) => (by === "layer" ? `${layer}` : `${layer} ${blockOf(part)}`);
    const measurable = [...task.tensors].filter(([, tensor]) => tensor.layer !== null && isMeasurable(tensor));
    const groups = groupBy(measurable, ([, tensor]) => groupOf(tensor));
    const { measured } = context.measure({
      id: `shares of ${task.label} and ${language.label} against ${base.label} by ${by}, tau ${tau}, alpha ${alpha}`,
      kind: "ownership",
      label: "shares",
      groups: [...groups].map(([name, tensors]) => ({
        name: `layer ${name}`,
        tensors: tensors.map(([tensor]) => ({
          base: tensorOf(base, tensor).value,
          experts: [tensorOf(task, tensor).value, tensorOf(language, tensor).value],
        })),
      })),
      rule: { kind: "share", tau, alpha },
      sum: by === "layer" ? "sum" : "root",
    });
    const order = [...groups.keys()];
    return new Map(
      [...task.tensors].map(([name, tensor]) => {
        const at = tensor.layer === null ? -1 : order.indexOf(groupOf(tensor)) * 2;
        if (at < 0 && outside !== "average") return [name, take(name, sources.get(outside))];
        const weights =
          at < 0
            ? [alpha, 1 - alpha]
            : [
                { measured, at },
                { measured, at: at + 1 },
              ];
        const terms = [task, language].map((operand, i) => ({ operand, weight: weights[i] ?? 0 }));
        return [name, average(name, terms, context)];
      }),
    );
  },
  headline: ({ by, tau, alpha }) => `Share swap by ${by}: tau ${tau}, alpha ${alpha}`,
  describe: ({ by, tau, alpha }, name, layers) =>
    `A share swap of ${layers} layers, ${by} by ${by}, of the task expert ${name("task")} and the language expert ${name("language")} ` +
    `(tau ${tau}, alpha ${alpha}). Method: Shin & Hwang, EACL 2026, [arXiv 2601.22620](https://arxiv.org/abs/2601.22620).`,
  weighting: () => "by shares of change (measured first)",
});
