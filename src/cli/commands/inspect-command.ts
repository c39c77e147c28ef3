import type { Command } from "commander";
import {
  elementCount,
  formatBytes,
  formatCount,
  formatRanges,
  formatShape,
  groupBy,
  plural,
} from "../../core/index.js";
import { right, terminalLines } from "../../report/index.js";
import { type Checkpoint, compareParts, openCheckpoint, type Part, parameterCount } from "../../weights/index.js";
import { type CommonOptions, paletteFor, print, printJson, withCommonOptions } from "../shared/output.js";

interface InspectOptions extends CommonOptions {
  readonly tensors?: boolean;
}

export function addInspectCommand(program: Command): void {
  const command = program
    .command("inspect")
    .description(
      "Show the architecture, layers, parameters, dtypes and shards of a checkpoint. Reads only headers and configuration.",
    )
    .argument("<source>", "FOLDER, FOLDER+ADAPTER, or a name in the Hugging Face cache")
    .optionsGroup("Output:")
    .option("--tensors", "list every tensor");
  withCommonOptions(command).action(async (source: string, options: InspectOptions) => {
    const checkpoint = await openCheckpoint(source);
    if (options.json) printJson(inspection(checkpoint, options.tensors ?? false));
    else print(describe(checkpoint, options.tensors ?? false));
  });
}

interface PartRow {
  readonly part: Part;
  readonly layers: readonly number[];
  readonly tensors: number;
  readonly parameters: number;
  readonly shapes: readonly string[];
  readonly dtypes: readonly string[];
}

/** Tensors grouped by part, those in layers apart from those outside. */
function partRows(checkpoint: Checkpoint): PartRow[] {
  const groups = groupBy(checkpoint.tensors.values(), ({ layer, part }) => `${layer === null} ${part}`);
  const rows = [...groups.values()].map((tensors) => ({
    part: tensors[0]?.part ?? "other",
    layers: [...new Set(tensors.flatMap(({ layer }) => layer ?? []))].sort((a, b) => a - b),
    tensors: tensors.length,
    parameters: tensors.reduce((sum, { shape }) => sum + elementCount(shape), 0),
    shapes: [...new Set(tensors.map(({ shape }) => formatShape(shape)))],
    dtypes: [...new Set(tensors.map(({ dtype }) => dtype))],
  }));
  return rows.sort((a, b) => compareParts(a.part, b.part));
}

function countByDType(checkpoint: Checkpoint): [string, number][] {
  const counts = new Map<string, number>();
  for (const { dtype, shape } of checkpoint.tensors.values())
    counts.set(dtype, (counts.get(dtype) ?? 0) + elementCount(shape));
  return [...counts];
}

function inspection(checkpoint: Checkpoint, listTensors: boolean): unknown {
  const { name, folder, architecture, config, layers, tied, digest, files, adapter, notes } = checkpoint;
  return {
    name,
    folder,
    architecture,
    modelType: config.modelType,
    layers,
    parameters: parameterCount(checkpoint),
    vocabularySize: config.vocabularySize,
    hiddenSize: config.hiddenSize,
    tied,
    dtypes: Object.fromEntries(countByDType(checkpoint)),
    digest,
    files: files.map(({ path, bytes, tensors }) => ({ path, bytes, tensors: tensors.length })),
    ...(adapter
      ? { adapter: { path: adapter.path, adapted: adapter.deltas.size, replaced: adapter.replacements.size } }
      : {}),
    parts: partRows(checkpoint),
    notes,
    ...(listTensors
      ? {
          tensors: [...checkpoint.tensors.values()].map(({ name, dtype, shape, layer, part, lowRank }) => ({
            name,
            dtype,
            shape,
            layer,
            part,
            adapted: lowRank !== undefined,
          })),
        }
      : {}),
  };
}

function describe(checkpoint: Checkpoint, listTensors: boolean): string[] {
  const palette = paletteFor(process.stdout);
  const { config, files, adapter } = checkpoint;
  const total = countByDType(checkpoint);
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const lines = [
    palette.bold(checkpoint.name),
    `architecture  ${checkpoint.architecture} (${config.modelType})`,
    `layers        ${checkpoint.layers}`,
    `parameters    ${formatCount(parameterCount(checkpoint))} in ${plural(checkpoint.tensors.size, "tensor")}`,
    `dtypes        ${total.map(([dtype, n]) => `${dtype} ${formatCount(n)}`).join(", ")}`,
    ...(config.hiddenSize === undefined ? [] : [`hidden size   ${config.hiddenSize}`]),
    ...(config.vocabularySize === undefined ? [] : [`vocabulary    ${config.vocabularySize}`]),
    `output head   ${checkpoint.tied ? "tied to the embedding" : "separate"}`,
    `weight files  ${plural(files.length, "file")}, ${formatBytes(bytes)}`,
    ...(adapter
      ? [
          `adapter       ${adapter.name}: ${plural(adapter.deltas.size, "tensor")} adapted, ${adapter.replacements.size} replaced`,
        ]
      : []),
    ...checkpoint.notes.map((note) => `note          ${note}`),
    "",
    ...terminalLines({
      columns: ["part", "layers", right("tensors"), right("parameters"), "shape", "dtype"],
      rows: partRows(checkpoint).map(({ part, layers, tensors, parameters, shapes, dtypes }) => [
        part,
        layers.length > 0 ? formatRanges(layers) : "outside",
        String(tensors),
        formatCount(parameters),
        shapes.length > 2 ? `${shapes.length} shapes` : shapes.join(" "),
        dtypes.join(" "),
      ]),
    }),
  ];
  if (!listTensors) return lines;
  const rows = [...checkpoint.tensors.values()].map(({ name, dtype, shape, layer, part, lowRank }) => [
    name,
    layer === null ? "" : String(layer),
    part,
    dtype,
    formatShape(shape),
    lowRank ? `+ rank ${lowRank.rank}` : "",
  ]);
  return [
    ...lines,
    "",
    ...terminalLines({ columns: ["tensor", right("layer"), "part", "dtype", "shape", "adapter"], rows }),
  ];
}
