// Revert: restores layers, parts, little-changed rows, or a share of an expert to the base. Bandarkar et al., arXiv 2410.01335,
// section 3.3; "train everything, then revert" of arXiv 2505.18356.

import { z } from "zod";
import { elementCount, RecipeError } from "../../kit/index.js";
import type { Value } from "../../tensor/expressions/index.js";
import { hasRows, rowLayout } from "../../tensor/measurements/index.js";
import { layersField, parseLayers } from "./layers.js";
import { defineMethod, sourceField } from "./method.js";
import { copyTensor, type Operand, type OperandTensor, tensorOf } from "./operand.js";
import { matcher } from "./parameter.js";

const fields = () => ({
  expert: sourceField("expert to restore a part of"),
  base: sourceField("model that it was fine-tuned from"),
  layers: layersField.optional().describe("layers to restore; default all layers and the tensors outside"),
  parts: z
    .union([z.string(), z.array(z.string()).min(1, "must name at least one part")])
    .optional()
    .describe("parts to restore, such as `attention`, `mlp`, `outside` or `[q_proj, k_proj]`; default all"),
  rows_below: z
    .number()
    .positive("must be a positive number")
    .optional()
    .describe("restore only rows with a mean absolute change below this; default whole tensors"),
  rows: z.enum(["input", "output"]).default("input").describe("a row is an input feature or an output feature"),
  keep_share: z
    .number()
    .min(0, "must be from 0 to 1")
    .max(1, "must be from 0 to 1")
    .optional()
    .describe(
      "share of the chosen parameters, or layers, that stay the expert's; the rest is restored in the order of `from`",
    ),
  // Without a default, which would change the identity of recipes without it.
  from: z
    .enum(["smallest", "bottom", "middle", "top"], "must be smallest, bottom, middle or top")
    .optional()
    .describe(
      "keep_share: what is restored first, the rows that changed least (smallest, the default) or whole layers from the bottom, middle or top",
    ),
  keep: z.boolean().default(false).describe("invert the choice: keep what is chosen and restore everything else"),
});

export const revert = defineMethod({
  name: "revert",
  title: "Revert",
  summary: "Restores part of an expert from its base: layers, parts, the rows that changed little, or all but a share.",
  formula: "theta_base where chosen, else theta_expert; a row is chosen where mean|theta_expert - theta_base| < T",
  reference: "Bandarkar et al., ICLR 2025, arXiv 2410.01335, section 3.3; Bandarkar & Peng, arXiv 2505.18356",
  tag: "sparsification",
  fields,
  example: { method: "revert", expert: "math-expert", base: "base", layers: "0-1,7" },
  tensors: (recipe, sources, context) => {
    const { parts, rows, keep, keep_share: share } = recipe;
    requireChoice(recipe);
    const [expert, base] = [sources.get("expert"), sources.get("base")];
    const layers = share === undefined || !isByLayer(recipe) ? recipe.layers : restoredLayers(recipe, share, expert);
    // The matcher needs at least one layer.
    const isNone = Array.isArray(layers) && layers.length === 0;
    const isAll = layers === undefined && parts === undefined;
    const isChosen = isNone ? () => false : isAll ? () => true : matcher({ layers, parts }, "", expert);
    const [chosenFrom, otherFrom] = keep ? [expert, base] : [base, expert];
    const isMeasured = ([name, { dtype, shape }]: readonly [string, OperandTensor]) =>
      isChosen(name) && hasRows(dtype, shape);
    const cut =
      share === undefined || isByLayer(recipe)
        ? undefined
        : context.measure({
            id: `cut of ${expert.label} that keeps ${share} of ${describePlace(recipe)} (${rows})`,
            kind: "row-cut",
            label: `rows of ${expert.label}`,
            axis: rows,
            share,
            tensors: [...expert.tensors].filter(isMeasured).map(([name, { shape, value }]) => {
              return { tensor: name, shape, value, base: tensorOf(base, name).value };
            }),
          }).measured;
    const threshold = cut ?? recipe.rows_below;

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
        tensor: name,
        shape: tensor.shape,
        value,
        base: from,
        axis: rows,
        threshold,
      });
      const { matrices, axis } = rowLayout({ tensor: name, ...tensor }, rows);
      const select: Value = {
        op: "select",
        // The mask selects changed rows: they stay the expert's, or with keep become the base's.
        of: keep ? [from, value] : [value, from],
        mask: measurement.measured,
        axis: axis === "columns" ? "columns" : "rows",
        matrix: elementCount(tensor.shape) / matrices,
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

type RevertRecipe = z.output<z.ZodObject<ReturnType<typeof fields>>>;

const isByLayer = ({ from = "smallest" }: RevertRecipe) => from !== "smallest";

/** @throws RecipeError if nothing is chosen, or in two ways */
function requireChoice(recipe: RevertRecipe): void {
  const { layers, parts, rows_below, keep_share, from, keep } = recipe;
  if (keep_share === undefined) {
    if (from !== undefined)
      throw RecipeError.at({ field: "from" }, "from needs keep_share: it orders what is restored.");
    if (layers !== undefined || parts !== undefined || rows_below !== undefined) return;
    throw RecipeError.at(
      { field: "layers" },
      "layers, parts, rows_below and keep_share are all missing. Set at least one to choose what to restore.",
    );
  }
  const other = rows_below !== undefined ? "rows_below" : keep ? "keep" : undefined;
  if (other === undefined) return;
  throw RecipeError.at({ field: other }, `${other} and keep_share both say what is kept. Remove one of them.`);
}

/** The layers to restore: of those chosen, the first ones in the recipe's order; half a layer is rounded up to a kept one. */
function restoredLayers({ layers = "all", from }: RevertRecipe, share: number, { layers: count }: Operand): number[] {
  const chosen = [...parseLayers(layers, count, "layers")].sort((a, b) => a - b);
  const middle = (chosen.length - 1) / 2;
  const places = chosen.map((_, place) => place);
  const order =
    from === "top"
      ? places.reverse()
      : from === "bottom"
        ? places
        : places.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
  return order.slice(0, chosen.length - Math.round(share * chosen.length)).map((place) => chosen[place] as number);
}

function describeChoice(recipe: RevertRecipe): string {
  const { rows_below, rows, keep_share, from } = recipe;
  const where = describePlace(recipe);
  const of = where === "" ? "" : ` of ${where}`;
  if (keep_share !== undefined) {
    const order =
      from === undefined || from === "smallest" ? `the ${rows} rows that changed least` : `layers from the ${from}`;
    return `all but a share of ${keep_share}${of}, ${order} first,`;
  }
  return rows_below === undefined ? where : `${rows} rows that changed by less than ${rows_below}${of}`;
}

function describePlace({ layers, parts }: RevertRecipe): string {
  const where = [
    ...(layers === undefined ? [] : [`layers ${[layers].flat().join(",")}`]),
    ...(parts === undefined ? [] : [[parts].flat().join(", ")]),
  ];
  return where.join(" of ");
}
