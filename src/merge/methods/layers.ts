// Parses lists of layers: `0-4,30-31`, `all`, a number, or a list of these.

import { z } from "zod";
import { RecipeError } from "../../kit/index.js";
import { layerRanges } from "../layer-owner.js";

const text = z.string().regex(/^\s*(all|\d+(\s*-\s*\d+)?(\s*,\s*\d+(\s*-\s*\d+)?)*)\s*$/, {
  error: "must be layers such as 0-4,30-31, or all",
});
const one = z.int("must be a whole number").min(0, "must not be negative");

/** Layers, counted from 0 at the input, ends included. */
export const layersField = z
  .union([one, text, z.array(z.union([one, text])).min(1, "must name at least one layer")], {
    error: "must be layers such as 0-4,30-31, a list of numbers, or all",
  })
  .meta({ title: "layers" });

export type Layers = z.output<typeof layersField>;

/**
 * The distinct layers of a list.
 * @throws RecipeError if a layer does not exist in the model, or a range is in the wrong order
 */
export function parseLayers(written: Layers, layers: number, field: string): ReadonlySet<number> {
  return new Set(listLayers(written, layers, field));
}

/** The layers of a list in order, duplicates included. */
export function listLayers(written: Layers, layers: number, field: string): number[] {
  return (layerRanges(written, layers) ?? []).flatMap(([first, last]) => {
    if (first > last) {
      throw RecipeError.at({ field }, `${field}: ${first}-${last} is in the wrong order; write ${last}-${first}`);
    }
    if (last >= layers) {
      throw RecipeError.at(
        { field, expected: `at most ${layers - 1}`, actual: String(last) },
        `${field}: there is no layer ${last}; the model has ${layers}, counted 0 to ${layers - 1}`,
      );
    }
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  });
}
