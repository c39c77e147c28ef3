import { type Command, Option } from "commander";
import { formatBytes, plural, usageError } from "../../core/index.js";
import { openModelSource } from "../../engine/index.js";
import { ENCODING_NAMES, EXPORT_FORMATS, type ExportPlan } from "../../export/index.js";
import { SOURCE_ARGUMENT } from "../shared/engine-run.js";
import { runWithHub } from "../shared/hub-access.js";
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

interface ExportOptions extends WorkOptions {
  readonly format: keyof typeof EXPORT_FORMATS;
  readonly type?: string;
  readonly tensorType?: string[];
  readonly out?: string;
  readonly dryRun?: boolean;
  readonly resume?: boolean;
  readonly force?: boolean;
}

export function addExportCommand(program: Command): void {
  const names = Object.keys(EXPORT_FORMATS);
  const types = Object.values(EXPORT_FORMATS).flatMap((format) => format.types);
  const command = program
    .command("export")
    .description(
      "Write a model or a recipe as a GGUF file for llama.cpp, or as an ONNX folder for transformers.js. A recipe is merged " +
        "while it is written, without a merged model on disk.",
    )
    .argument("<source>", SOURCE_ARGUMENT)
    .optionsGroup("Output:")
    .addOption(new Option("--format <format>", "file format").choices(names).default("gguf"))
    .addOption(
      new Option("--type <type>", "encoding of the weights (default: q8_0 for gguf, q8 for onnx)").choices(types),
    )
    .option(
      "--tensor-type <pattern=type...>",
      `gguf: encoding of tensors whose name a regular expression finds (${ENCODING_NAMES.join(", ")})`,
    )
    .option("-o, --out <path>", "file or folder to write; it appears when it is complete")
    .option("--dry-run", "print the plan and exit; reads headers")
    .option("--resume", "gguf: resume an interrupted run")
    .option("--force", "replace an existing export or interrupted run");
  withWorkOptions(command).action(exportModel);
}

async function exportModel(source: string, options: ExportOptions): Promise<void> {
  const start = performance.now();
  const { out, force, dryRun, resume, tensorType, format: name } = options;
  const format = EXPORT_FORMATS[name];
  const { type = format.defaultType } = options;
  if (!format.types.includes(type)) {
    throw usageError(`--type ${type} is not a type of ${name}. Choose one of ${format.types.join(", ")}.`);
  }
  if (name === "onnx" && tensorType) throw usageError("--tensor-type is for --format gguf. Leave it out.");
  if (name === "onnx" && resume) throw usageError("--resume is for --format gguf. Repeat the command without it.");
  if (out === undefined && !dryRun) {
    throw usageError("Missing --out. Pass --out PATH to write the model, or --dry-run to print the plan.");
  }
  const opened = await runWithHub(options, ({ hub }) => openModelSource(source, { hub }));
  const plan = await format.plan(opened, type, tensorType);
  const notes = [...opened.notes, ...plan.notes];
  const { identity, digest, bytes, encodings, tensors } = plan;
  const summary = { ...identity, digest, type, bytes, encodings, notes };
  const described = describe(opened.name, type, plan);
  if (dryRun || out === undefined) {
    if (options.json) printJson({ ...summary, tensors });
    else print([...described, ...notes.map((note) => `note: ${note}`)]);
    return;
  }
  info(options, described.join("\n"));
  for (const note of notes) info(options, `note: ${note}`);
  const written = await runWithProgress(options, (controls) => plan.write({ out, force, resume, ...controls }));
  for (const warning of written.warnings) warn(warning);
  if (options.json) {
    printJson({ ...summary, ...written, seconds: (performance.now() - start) / 1000 });
    return;
  }
  print(`${written.resumed ? "Resumed and wrote" : "Wrote"} ${out}: ${formatBytes(written.bytes)}, ${elapsed(start)}`);
}

function describe(name: string, type: string, { target, encodings, bytes }: ExportPlan): string[] {
  const parts = Object.entries(encodings).map(
    ([encoding, { tensors, bytes: size }]) =>
      `${encoding.toLowerCase()} ${plural(tensors, "tensor")} (${formatBytes(size)})`,
  );
  return [`Export ${name} as ${type} for ${target}: ${formatBytes(bytes)}`, `  ${parts.join(", ")}`];
}
