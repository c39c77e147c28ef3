// Writes a model for another program: a GGUF file for llama.cpp, an ONNX folder for transformers.js.

import { basename } from "node:path";
import { type Command, Option } from "commander";
import type { ModelSource } from "../../engine/index.js";
import { ENCODING_NAMES, EXPORT_FORMATS, type ExportPlan } from "../../export/index.js";
import type { HubAccess } from "../../formats/checkpoint/index.js";
import { writeFileAtomically } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { formatBytes, plural, shellQuote } from "../../kit/printing/index.js";
import { OUTPUT_DTYPES } from "../../merge/index.js";
import { runWithHub } from "./hub-access.js";
import { elapsed, info, print, printJson, runWithProgress, type WorkOptions, warn } from "./output.js";

export interface ExportOptions extends WorkOptions {
  readonly format: keyof typeof EXPORT_FORMATS;
  readonly type?: string;
  readonly tensorType?: string[];
  readonly out?: string;
  readonly dryRun?: boolean;
  readonly ollama?: boolean;
  readonly resume?: boolean;
  readonly force?: boolean;
}

export function withEncodingOptions(command: Command): Command {
  const types = [...Object.values(EXPORT_FORMATS).flatMap((format) => format.types), ...OUTPUT_DTYPES];
  return command
    .addOption(
      new Option(
        "--type <type>",
        "encoding of the weights (default: q8_0 for gguf, q8 for onnx, for hf that of the source)",
      ).choices(types),
    )
    .option(
      "--tensor-type <pattern=type...>",
      `gguf: encoding of tensors whose name a regular expression finds (${ENCODING_NAMES.join(", ")})`,
    );
}

export async function runExport(open: (hub: HubAccess) => Promise<ModelSource>, options: ExportOptions): Promise<void> {
  const start = performance.now();
  const { out, force, dryRun, resume, tensorType, format: name } = options;
  const format = EXPORT_FORMATS[name];
  const { type = format.defaultType } = options;
  if (!format.types.includes(type)) {
    throw usageError(`--type ${type} is not a type of ${name}. Choose one of ${format.types.join(", ")}.`);
  }
  if (name === "onnx" && tensorType) throw usageError("--tensor-type is for --format gguf. Leave it out.");
  if (name === "onnx" && options.ollama) throw usageError("--ollama is for --format gguf. Leave it out.");
  if (name === "onnx" && resume) throw usageError("--resume is for --format gguf. Repeat the command without it.");
  if (out === undefined && !dryRun) {
    throw usageError("Missing --out. Pass --out PATH to write the model, or --dry-run to print the plan.");
  }
  const opened = await runWithHub(options, ({ hub }) => open(hub));
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
  if (options.ollama) await writeFileAtomically(`${out}.Modelfile`, `FROM ./${basename(out)}\n`);
  if (options.json) {
    printJson({ ...summary, ...written, seconds: (performance.now() - start) / 1000 });
    return;
  }
  print(`${written.resumed ? "Resumed and wrote" : "Wrote"} ${out}: ${formatBytes(written.bytes)}, ${elapsed(start)}`);
  if (options.ollama) info(options, `Run it with: ollama create my-model -f ${shellQuote(`${out}.Modelfile`)}`);
}

function describe(name: string, type: string, { target, encodings, bytes }: ExportPlan): string[] {
  const parts = Object.entries(encodings).map(
    ([encoding, { tensors, bytes: size }]) =>
      `${encoding.toLowerCase()} ${plural(tensors, "tensor")} (${formatBytes(size)})`,
  );
  return [`Export ${name} as ${type} for ${target}: ${formatBytes(bytes)}`, `  ${parts.join(", ")}`];
}
