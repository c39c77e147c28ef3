import { right, terminalLines } from "../../figures/index.js";
import { formatShape } from "../../kit/index.js";
import { formatBytes, formatCount, formatRanges, plural } from "../../kit/printing/index.js";
import { type InspectResult, inspect } from "../../verbs/index.js";
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
    const { allTensors, ...inspection } = await runWithProgress(options, (controls) =>
      inspect(source, { hub: hubAccess(options.download ? "files" : "headers", controls) }),
    );
    if (options.json) printJson({ ...inspection, ...(options.tensors ? { tensors: allTensors } : {}) });
    else print(describe({ ...inspection, allTensors }, options.tensors ?? false));
  });
}

function describe(inspection: InspectResult, listTensors: boolean): string[] {
  const palette = paletteFor(process.stdout);
  const { files, adapter, dtypes, parts, parameters, hiddenSize, vocabularySize, allTensors } = inspection;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const lines = [
    palette.bold(inspection.name),
    `architecture  ${inspection.architecture} (${inspection.modelType})`,
    `layers        ${inspection.layers}`,
    `parameters    ${formatCount(parameters)} in ${plural(allTensors.length, "tensor")}`,
    `dtypes        ${Object.entries(dtypes)
      .map(([dtype, n]) => `${dtype} ${formatCount(n)}`)
      .join(", ")}`,
    ...(hiddenSize === undefined ? [] : [`hidden size   ${hiddenSize}`]),
    ...(vocabularySize === undefined ? [] : [`vocabulary    ${vocabularySize}`]),
    `output head   ${inspection.tied ? "tied to the embedding" : "separate"}`,
    `weight files  ${plural(files.length, "file")}, ${formatBytes(bytes)}`,
    ...(adapter
      ? [`adapter       ${adapter.name}: ${plural(adapter.adapted, "tensor")} adapted, ${adapter.replaced} replaced`]
      : []),
    ...inspection.notes.map((note) => `note          ${note}`),
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
  const rows = allTensors.map(({ name, dtype, shape, layer, part, rank }) => [
    name,
    layer === null ? "" : String(layer),
    part,
    dtype,
    formatShape(shape),
    rank === undefined ? "" : `+ rank ${rank}`,
  ]);
  return [
    ...lines,
    "",
    ...terminalLines({ columns: ["tensor", right("layer"), "part", "dtype", "shape", "adapter"], rows }),
  ];
}
