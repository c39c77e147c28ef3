import { type Command, Option } from "commander";
import { openModelSource } from "../../engine/index.js";
import { EXPORT_FORMATS } from "../../export/index.js";
import { usageError } from "../../kit/index.js";
import { OUTPUT_DTYPES, type RecipeInput } from "../../merge/index.js";
import { WEIGHTS_ARGUMENT } from "../shared/engine-run.js";
import { type ExportOptions, runExport, withEncodingOptions } from "../shared/export-run.js";
import { runMerge } from "../shared/merge-run.js";
import { withWorkOptions } from "../shared/output.js";

type Options = Omit<ExportOptions, "format"> & { readonly format: ExportOptions["format"] | "hf" };

/** A folder is what a merge writes: of one model, its own values. */
function folderRecipe(source: string, { type = "keep", tensorType }: Options): RecipeInput {
  const dtype = OUTPUT_DTYPES.find((one) => one === type);
  if (dtype === undefined) {
    throw usageError(`--type ${type} is not a type of hf. Choose one of ${OUTPUT_DTYPES.join(", ")}.`);
  }
  if (tensorType) throw usageError("--tensor-type is for --format gguf. Leave it out.");
  return { method: "soup", models: [source], dtype };
}

export function add(program: Command): void {
  const command = program
    .command("export")
    .description(
      "Write a model or a recipe as a GGUF file for llama.cpp, as an ONNX folder for transformers.js, or as a folder for " +
        "transformers. A recipe is merged while it is written, without a merged model on disk.",
    )
    .argument("<source>", WEIGHTS_ARGUMENT)
    .optionsGroup("Output:")
    .addOption(
      new Option("--format <format>", "file format").choices([...Object.keys(EXPORT_FORMATS), "hf"]).default("gguf"),
    );
  withEncodingOptions(command)
    .option("-o, --out <path>", "file or folder to write; it appears when it is complete")
    .option("--dry-run", "print the plan and exit; reads headers")
    .option("--ollama", "gguf: write a Modelfile beside it, OUT.Modelfile, for ollama create")
    .option("--resume", "gguf, hf: resume an interrupted run")
    .option("--force", "replace an existing export or interrupted run");
  withWorkOptions(command).action((source: string, options: Options) =>
    options.format === "hf"
      ? runMerge(folderRecipe(source, options), options)
      : runExport((hub) => openModelSource(source, { hub }), { ...options, format: options.format }),
  );
}
