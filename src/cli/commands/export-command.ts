import { type Command, Option } from "commander";
import { formatBytes, LayergraftError, plural } from "../../core/index.js";
import { openModelSource } from "../../engine/index.js";
import {
  ENCODING_NAMES,
  FILE_TYPE_NAMES,
  type FileType,
  type GgufPlan,
  planGguf,
  writeGguf,
} from "../../export/index.js";
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
  readonly type: FileType;
  readonly tensorType?: string[];
  readonly out?: string;
  readonly dryRun?: boolean;
  readonly resume?: boolean;
  readonly force?: boolean;
}

export function addExportCommand(program: Command): void {
  const command = program
    .command("export")
    .description(
      "Write a model or a recipe as a GGUF file for llama.cpp. A recipe is merged while it is written, without a merged " +
        "model on disk.",
    )
    .argument("<source>", SOURCE_ARGUMENT)
    .optionsGroup("Output:")
    .addOption(new Option("--format <format>", "file format").choices(["gguf"]).default("gguf"))
    .addOption(new Option("--type <type>", "encoding of the weights").choices(FILE_TYPE_NAMES).default("q8_0"))
    .option(
      "--tensor-type <pattern=type...>",
      `encoding of tensors whose name a regular expression finds (${ENCODING_NAMES.join(", ")})`,
    )
    .option("-o, --out <file>", "file to write; it appears when it is complete")
    .option("--dry-run", "print the plan and exit; reads headers")
    .option("--resume", "resume an interrupted run")
    .option("--force", "replace an existing file or interrupted run");
  withWorkOptions(command).action(exportModel);
}

async function exportModel(source: string, options: ExportOptions): Promise<void> {
  const start = performance.now();
  const { type, tensorType, out, resume, force, dryRun } = options;
  if (out === undefined && !dryRun) {
    throw new LayergraftError(
      "usage",
      "Missing --out. Pass --out FILE to write the model, or --dry-run to print the plan.",
    );
  }
  const opened = await runWithHub(options, ({ hub }) => openModelSource(source, { hub }));
  const plan = await planGguf(opened, { type, tensorTypes: tensorType });
  const notes = [...opened.notes, ...plan.notes];
  const summary = {
    architecture: plan.architecture,
    type,
    digest: plan.digest,
    bytes: plan.layout.bytes,
    encodings: plan.encodings,
    notes,
  };
  if (dryRun || out === undefined) {
    if (options.json) {
      const tensors = plan.tensors.map(({ name, shape, encoding }) => ({ name, shape, encoding }));
      printJson({ ...summary, tensors });
    } else print([...describe(plan), ...notes.map((note) => `note: ${note}`)]);
    return;
  }
  info(options, describe(plan).join("\n"));
  for (const note of notes) info(options, `note: ${note}`);
  const written = await runWithProgress(options, (controls) => writeGguf(plan, { out, resume, force, ...controls }));
  for (const warning of written.warnings) warn(warning);
  if (options.json) {
    printJson({ ...summary, ...written, seconds: (performance.now() - start) / 1000 });
    return;
  }
  print(`${written.resumed ? "Resumed and wrote" : "Wrote"} ${out}: ${formatBytes(written.bytes)}, ${elapsed(start)}`);
}

function describe({ source, architecture, type, encodings, layout }: GgufPlan): string[] {
  const parts = Object.entries(encodings).map(
    ([encoding, { tensors, bytes }]) =>
      `${encoding.toLowerCase()} ${plural(tensors, "tensor")} (${formatBytes(bytes)})`,
  );
  return [
    `Export ${source.name} as ${type} for llama.cpp (${architecture}): ${formatBytes(layout.bytes)}`,
    `  ${parts.join(", ")}`,
  ];
}
