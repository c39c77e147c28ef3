// Revert: restores layers, parts or little-changed rows of an expert to the base. Bandarkar et al., arXiv 2410.01335,
// section 3.3; "train everything, then revert" of arXiv 2505.18356.

import { z } from "zod";
import { RecipeError } from "../../core/index.js";
import type { Value } from "../expressions/expression.js";
import { rowsAlong } from "../measurements/row-changes.js";
import { hasRows } from "../measurements/rows.js";
import { sourceField } from "./fields.js";
import { layersField } from "./layers.js";
import { defineMethod } from "./method.js";
import { copyTensor, type OperandTensor, tensorOf } from "./operand.js";
import { matcher } from "./parameter.js";

const schema = z.strictObject({
  method: z.literal("revert"),
  expert: sourceField("expert to restore a part of"),
  base: sourceField("model that it was fine-tuned from"),
  layers: layersField.optional().describe("layers to restore; default all layers and the tensors outside"),
  parts: z
    .union([z.string(), z.array(z.string()).min(1, "must name at least one part")])
    .optional()
    .describe("parts to restore, such as `attention`, `mlp`, `outside` or `[q_proj, k_proj]`; default all"),
  rows_below: z
    .number()
    .positive("must be positive")
    .optional()
    .describe("restore only rows with a mean absolute change below this; default whole tensors"),
  rows: z.enum(["input", "output"]).default("input").describe("a row is an input feature or an output feature"),
  keep: z.boolean().default(false).describe("invert the choice: keep what is chosen and restore everything else"),
});

export const revert = defineMethod({
  name: "revert",
  title: "Revert",
  summary: "Restores part of an expert from its base: layers, parts, or the rows that changed little.",
  formula: "theta_base where chosen, else theta_expert; a row is chosen where mean|theta_expert - theta_base| < T",
  reference: "Bandarkar et al., ICLR 2025, arXiv 2410.01335, section 3.3; Bandarkar & Peng, arXiv 2505.18356",
  tag: "sparsification",
  schema,
  example: { method: "revert", expert: "math-expert", base: "base", layers: "0-2,15" },
  tensors: (recipe, sources, context) => {
    const { layers, parts, rows_below: threshold, rows, keep } = recipe;
    if (layers === undefined && parts === undefined && threshold === undefined) {
      throw RecipeError.at(
        { field: "layers" },
        "layers, parts and rows_below are all missing. Set at least one to choose what to restore.",
      );
    }
    const [expert, base] = [sources.get("expert"), sources.get("base")];
    const isChosen = layers === undefined && parts === undefined ? () => true : matcher({ layers, parts }, "", expert);
    const [chosenFrom, otherFrom] = keep ? [expert, base] : [base, expert];

    const selected = (name: string, tensor: OperandTensor): OperandTensor => {
      // A tensor without rows to measure (integer or empty) is taken whole.
      if (threshold === undefined || !hasRows(tensor.dtype, tensor.shape)) {
        if (threshold !== undefined && tensor.dtype.startsWith("F")) {
          context.note(
            `tensors of dtype ${tensor.dtype} have no rows to measure and are taken whole from ${chosenFrom.label}`,
          );
        }
        return copyTensor(name, chosenFrom);
      }
      const [value, from] = [tensor.value, tensorOf(base, name).value];
      const measurement = context.measure({
        id: `rows of ${name} of ${expert.label} from ${threshold} (${rows})`,
        kind: "rows",
        label: `rows of ${expert.label}`,
        ...{ tensor: name, shape: tensor.shape, value, base: from, axis: rows, threshold },
      });
      const select: Value = {
        op: "select",
        // The mask selects changed rows: they stay the expert's, or with keep become the base's.
        of: keep ? [from, value] : [value, from],
        mask: measurement.measured,
        axis: tensor.shape.length < 2 ? "rows" : rowsAlong(rows, tensor.transposed === true),
        matrix: tensor.shape.slice(-2).reduce((product, extent) => product * extent, 1),
      };
      return { ...tensor, value: select, origin: [expert.label, base.label] };
    };
    return new Map(
      [...expert.tensors].map(([name, tensor]) => [
        name,
        isChosen(name) ? selected(name, tensor) : copyTensor(name, otherFrom),
      ]),
    );
  },
  headline: (recipe) =>
    `Revert: ${describeChoice(recipe)} ${recipe.keep ? "kept, the rest" : ""} back to the base`.replace("  ", " "),
  describe: (recipe, name, layers) =>
    `${name("expert")}, a model of ${layers} layers, with ${describeChoice(recipe)} ` +
    `${recipe.keep ? `kept and all else back at ${name("base")}` : `back at its base ${name("base")}`}.`,
});

function describeChoice({ layers, parts, rows_below, rows }: z.output<typeof schema>): string {
  const where = [
    ...(rows_below === undefined ? [] : [`${rows} rows that changed by less than ${rows_below}`]),
    ...(layers === undefined ? [] : [`layers ${[layers].flat().join(",")}`]),
    ...(parts === undefined ? [] : [[parts].flat().join(", ")]),
  ];
  return where.join(" of ");
}
