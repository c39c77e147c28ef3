// Writes a model for another program: a GGUF file for llama.cpp, an ONNX folder for transformers.js.

import { basename } from "node:path";
import { type Command, Option } from "commander";
import { ENCODING_NAMES, EXPORT_FORMATS, type FileType } from "../../export/index.js";
import { writeFileAtomically } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { formatBytes, plural, shellQuote } from "../../kit/printing/index.js";
import { OUTPUT_DTYPES, type RecipeInput } from "../../merge/index.js";
import type { ModelInput } from "../../verbs/index.js";
import { planExport } from "../../verbs/shared/index.js";
import { runWithHub } from "../shared/hub-access.js";
import { type MergeOptions, runMerge } from "../shared/merge-run.js";
import { WEIGHTS_ARGUMENT } from "../shared/model-flags.js";
import {
  elapsed,
  info,
  print,
  printJson,
  runWithProgress,
  type WorkOptions,
  warn,
  withWorkOptions,
} from "../shared/output.js";

export interface ExportFlags extends WorkOptions, Pick<MergeOptions, "out" | "dryRun" | "resume" | "force"> {
  readonly format: keyof typeof EXPORT_FORMATS;
  readonly type?: string;
  readonly tensorType?: string[];
  readonly ollama?: boolean;
}

type Options = Omit<ExportFlags, "format"> & { readonly format: ExportFlags["format"] | "hf" };

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
  withEncodingOptions(command, OUTPUT_DTYPES)
    .option("-o, --out <path>", "file or folder to write; it appears when it is complete")
    .option("--dry-run", "print the plan and exit; reads headers")
    .option("--ollama", "gguf: write a Modelfile beside it, OUT.Modelfile, for ollama create")
    .option("--resume", "gguf, hf: resume an interrupted run")
    .option("--force", "replace an existing export or interrupted run");
  withWorkOptions(command).action((source: string, options: Options) =>
    options.format === "hf"
      ? runMerge(folderRecipe(source, options), options, (_, value) => `Pass --type ${value}`)
      : runExport(source, { ...options, format: options.format }),
  );
}

/** @param folderTypes those of folders for transformers, where they are written */
export function withEncodingOptions(command: Command, folderTypes: readonly string[] = []): Command {
  const types = [...Object.values(EXPORT_FORMATS).flatMap((format) => format.types), ...folderTypes];
  const folders = folderTypes.length > 0 ? ", for hf that of the source" : "";
  return command
    .addOption(
      new Option("--type <type>", `encoding of the weights (default: q8_0 for gguf, q8 for onnx${folders})`).choices(
        types,
      ),
    )
    .option(
      "--tensor-type <pattern=type...>",
      `gguf: encoding of tensors whose name a regular expression finds (${ENCODING_NAMES.join(", ")})`,
    );
}

export async function runExport(source: ModelInput, options: ExportFlags): Promise<void> {
  const start = performance.now();
  const { out, force, dryRun, resume, tensorType: tensorTypes, format } = options;
  if (format === "onnx" && options.ollama) throw usageError("--ollama is for --format gguf. Leave it out.");
  if (out === undefined && !dryRun) {
    throw usageError("Missing --out. Pass --out PATH to write the model, or --dry-run to print the plan.");
  }
  // The verb checks the type.
  const type = options.type as FileType | undefined;
  const plan = await runWithHub(options, ({ hub }) => planExport({ source, format, type, tensorTypes, resume, hub }));
  const { identity, digest, bytes, encodings, notes, tensors } = plan;
  const summary = { ...identity, digest, type: plan.type, bytes, encodings, notes };
  const parts = Object.entries(encodings).map(
    ([encoding, { tensors: count, bytes: size }]) =>
      `${encoding.toLowerCase()} ${plural(count, "tensor")} (${formatBytes(size)})`,
  );
  const described = [
    `Export ${plan.name} as ${plan.type} for ${plan.target}: ${formatBytes(bytes)}`,
    `  ${parts.join(", ")}`,
    ...notes.map((note) => `note: ${note}`),
  ];
  if (dryRun || out === undefined) return options.json ? printJson({ ...summary, tensors }) : print(described);
  info(options, described.join("\n"));
  const written = await runWithProgress(options, (controls) => plan.write({ out, force, resume, ...controls }));
  for (const warning of written.warnings) warn(warning);
  if (options.ollama) await writeFileAtomically(`${out}.Modelfile`, `FROM ./${basename(out)}\n`);
  if (options.json) return printJson({ ...summary, ...written, seconds: (performance.now() - start) / 1000 });
  print(`${written.resumed ? "Resumed and wrote" : "Wrote"} ${out}: ${formatBytes(written.bytes)}, ${elapsed(start)}`);
  if (options.ollama) info(options, `Run it with: ollama create my-model -f ${shellQuote(`${out}.Modelfile`)}`);
}
