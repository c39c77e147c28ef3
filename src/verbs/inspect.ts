import { z } from "zod";
import { right } from "../figures/index.js";
import {
  type Inspection,
  inspectCheckpoint,
  inspectTensors,
  openCheckpoint,
  type TensorInspection,
} from "../formats/checkpoint/index.js";
import { formatShape } from "../kit/index.js";
import { formatBytes, formatCount, formatRanges, plural } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import type { InspectInput } from "./inputs.js";
import { callVerb, type Noted, type Verb, type VerbOptions } from "./verb.js";

export const inspectSchema = z.strictObject({
  source: namedField(
    "source",
    "FOLDER, FOLDER+ADAPTER, or a model on the Hugging Face hub: org/model[/subfolder][@revision]",
  ),
  download: z.boolean().optional().meta({ description: "download models on the hub into the local cache first" }),
  tensors: z.boolean().optional().meta({ description: "list every tensor" }),
});

/** Result of `inspect`. */
export interface InspectResult extends Inspection, Noted {
  /** Every tensor, in the order of the files. */
  readonly allTensors: readonly TensorInspection[];
}

export const inspectVerb: Verb<typeof inspectSchema, InspectResult> = {
  name: "inspect",
  description:
    "Show the architecture, layers, parameters, dtypes and shards of a checkpoint. Reads only headers and configuration, " +
    "also from the Hugging Face hub.",
  schema: inspectSchema,
  fetch: "headers",
  options: {},
  async run({ source, download }, { folder = ".", hub }) {
    const checkpoint = await openCheckpoint(source, {
      base: folder,
      hub: download ? { ...hub, fetch: "files" } : hub,
    });
    return { ...inspectCheckpoint(checkpoint), allTensors: inspectTensors(checkpoint), warnings: [] };
  },
  show(inspection, { tensors: isListed }) {
    const { files, adapter, dtypes, parts, parameters, hiddenSize, vocabularySize, allTensors } = inspection;
    const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
    const types = Object.entries(dtypes).map(([dtype, n]) => `${dtype} ${formatCount(n)}`);
    const lines = [
      `architecture  ${inspection.architecture} (${inspection.modelType})`,
      `layers        ${inspection.layers}`,
      `parameters    ${formatCount(parameters)} in ${plural(allTensors.length, "tensor")}`,
      `dtypes        ${types.join(", ")}`,
      ...(hiddenSize === undefined ? [] : [`hidden size   ${hiddenSize}`]),
      ...(vocabularySize === undefined ? [] : [`vocabulary    ${vocabularySize}`]),
      `output head   ${inspection.tied ? "tied to the embedding" : "separate"}`,
      `weight files  ${plural(files.length, "file")}, ${formatBytes(bytes)}`,
      ...(adapter
        ? [`adapter       ${adapter.name}: ${plural(adapter.adapted, "tensor")} adapted, ${adapter.replaced} replaced`]
        : []),
    ];
    return [
      { kind: "text", lines: [inspection.name], tone: "bold" },
      { kind: "text", lines, isTight: true },
      {
        kind: "table",
        what: "part",
        columns: ["part", "layers", right("tensors"), right("parameters"), "shape", "dtype"],
        rows: parts.map(({ part, layers, tensors, parameters, shapes, dtypes }) => [
          part,
          layers.length > 0 ? formatRanges(layers) : "outside",
          String(tensors),
          formatCount(parameters),
          shapes.length > 2 ? `${shapes.length} shapes` : shapes.join(" "),
          dtypes.join(" "),
        ]),
      },
      ...(isListed ? [tensorTable(allTensors)] : []),
    ];
  },
  terminal: {
    positional: ["source"],
    groups: { Options: ["download"], Output: ["tensors"] },
    json: ({ allTensors, warnings: _, ...inspection }, _seconds, { tensors }) => ({
      ...inspection,
      ...(tensors ? { tensors: allTensors } : {}),
    }),
  },
};

const tensorTable = (tensors: readonly TensorInspection[]) => ({
  ...({ kind: "table", what: "tensor" } as const),
  columns: ["tensor", right("layer"), "part", "dtype", "shape", "adapter"],
  rows: tensors.map(({ name, dtype, shape, layer, part, rank }) => [
    name,
    layer === null ? "" : String(layer),
    part,
    dtype,
    formatShape(shape),
    rank === undefined ? "" : `+ rank ${rank}`,
  ]),
});

/**
 * Describes a checkpoint from its headers and configuration.
 * @throws RecipeError if the input is not valid, with every problem
 * @throws CheckpointError if the source is not a checkpoint
 * @throws FormatError if a weight file is broken
 */
export function inspect(input: InspectInput, options: VerbOptions = {}): Promise<InspectResult> {
  return callVerb(inspectVerb, input, options);
}
