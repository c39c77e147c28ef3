// Reads configurations of bakllama, mergekit's older tool for stacks of layers, from their fields; none of its code is used.
import { z } from "zod";
import { isObject } from "../../kit/index.js";
import { checkSchema, type Problem } from "../../kit/settings/index.js";
import { listed, type Path, reference, type Strictness, unknownProblems } from "./mergekit-schema.js";

const slice = z.object({
  model: reference,
  start: z.int().min(0),
  end: z.int().min(1),
  scale: z.number().nullish(),
});

const schema = z.object({
  layer_slices: listed(slice, "layer_slices"),
  embedding_source: z.string().nullish(),
  lm_head_source: z.string().nullish(),
});

export function isBakllama(value: unknown): value is object {
  return isObject(value) && "layer_slices" in value && !("merge_method" in value) && !("method" in value);
}

/** The same stack as a configuration of mergekit-yaml, and notes on what has no effect. */
export function asConfiguration(
  value: object,
  strictness: Strictness,
): { readonly configuration?: object; readonly problems: readonly Problem[]; readonly notes: readonly string[] } {
  const { value: written, problems } = checkSchema(schema, value);
  const notes = unknownProblems(value, schema, strictness);
  if (!written) return { problems, notes };
  for (const field of ["embedding_source", "lm_head_source"] as const) {
    if (written[field] != null)
      notes.push(`${field} is ignored, as in mergekit: the first and the last slice give them`);
  }
  const slices = written.layer_slices.map(({ model, start, end, scale }) => ({
    sources: [
      {
        model,
        layer_range: [start, end],
        ...(scale == null ? {} : { parameters: { scale: [{ filter: "down_proj", value: scale }] } }),
      },
    ],
  }));
  return { configuration: { merge_method: "passthrough", slices }, problems, notes };
}

/** The place in a bakllama file of a place in its configuration: `slices[0].sources[0].layer_range`. */
export function placeOf([, index, , , field]: Path): Path {
  const own = { layer_range: "end", parameters: "scale" }[String(field)] ?? field;
  return ["layer_slices", ...(index === undefined ? [] : [index]), ...(own === undefined ? [] : [own])];
}
