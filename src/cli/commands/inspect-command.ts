import { right, terminalLines } from "../../figures/index.js";
import { type Checkpoint, inspectCheckpoint, inspectTensors, openCheckpoint } from "../../formats/checkpoint/index.js";
import { formatShape } from "../../kit/index.js";
import { formatBytes, formatCount, formatRanges, plural } from "../../kit/printing/index.js";
import { DOWNLOAD_HELP, hubAccess } from "../shared/hub-access.js";
import { paletteFor, print, printJson, runWithProgress, withCommonOptions } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("inspect")
    .description(
      "Show the architecture, layers, parameters, dtypes and shards of a checkpoint. Reads only headers and configuration, " +
        "also from the Hugging Face hub.",
    )
    .argument(
      "<source>",
      "FOLDER, FOLDER+ADAPTER, or a model on the Hugging Face hub: org/model[/subfolder][@revision]",
    )
    .option("--download", DOWNLOAD_HELP)
    .optionsGroup("Output:")
    .option("--tensors", "list every tensor");
  withCommonOptions(command).action(async (source, options) => {
    const checkpoint = await runWithProgress(options, (controls) =>
      openCheckpoint(source, { hub: hubAccess(options.download ? "files" : "headers", controls) }),
    );
    const tensors = options.tensors ? { tensors: inspectTensors(checkpoint) } : {};
    if (options.json) printJson({ ...inspectCheckpoint(checkpoint), ...tensors });
    else print(describe(checkpoint, options.tensors ?? false));
  });
}

function describe(checkpoint: Checkpoint, listTensors: boolean): string[] {
  const palette = paletteFor(process.stdout);
  const { config, files, adapter } = checkpoint;
  const { dtypes, parts, parameters } = inspectCheckpoint(checkpoint);
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const lines = [
    palette.bold(checkpoint.name),
    `architecture  ${checkpoint.architecture} (${config.modelType})`,
    `layers        ${checkpoint.layers}`,
    `parameters    ${formatCount(parameters)} in ${plural(checkpoint.tensors.size, "tensor")}`,
    `dtypes        ${Object.entries(dtypes)
      .map(([dtype, n]) => `${dtype} ${formatCount(n)}`)
      .join(", ")}`,
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
      rows: parts.map(({ part, layers, tensors, parameters, shapes, dtypes }) => [
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
  const rankOf = (name: string) => {
    const { lowRank } = checkpoint.tensors.get(name) ?? {};
    return lowRank ? `+ rank ${lowRank.rank}` : "";
  };
  const rows = inspectTensors(checkpoint).map(({ name, dtype, shape, layer, part }) => [
    name,
    layer === null ? "" : String(layer),
    part,
    dtype,
    formatShape(shape),
    rankOf(name),
  ]);
  return [
    ...lines,
    "",
    ...terminalLines({ columns: ["tensor", right("layer"), "part", "dtype", "shape", "adapter"], rows }),
  ];
}
