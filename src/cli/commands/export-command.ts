import { type Command, Option } from "commander";
import { openModelSource } from "../../engine/index.js";
import { EXPORT_FORMATS } from "../../export/index.js";
import { WEIGHTS_ARGUMENT } from "../shared/engine-run.js";
import { type ExportOptions, runExport, withEncodingOptions } from "../shared/export-run.js";
import { withWorkOptions } from "../shared/output.js";

export function addExportCommand(program: Command): void {
  const command = program
    .command("export")
    .description(
      "Write a model or a recipe as a GGUF file for llama.cpp, or as an ONNX folder for transformers.js. A recipe is merged " +
        "while it is written, without a merged model on disk.",
    )
    .argument("<source>", WEIGHTS_ARGUMENT)
    .optionsGroup("Output:")
    .addOption(new Option("--format <format>", "file format").choices(Object.keys(EXPORT_FORMATS)).default("gguf"));
  withEncodingOptions(command)
    .option("-o, --out <path>", "file or folder to write; it appears when it is complete")
    .option("--dry-run", "print the plan and exit; reads headers")
    .option("--resume", "gguf: resume an interrupted run")
    .option("--force", "replace an existing export or interrupted run");
  withWorkOptions(command).action((source: string, options: ExportOptions) =>
    runExport((hub) => openModelSource(source, { hub }), options),
  );
}
