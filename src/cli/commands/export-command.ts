import { type Command, Option } from "commander";
import { formatBytes, plural, usageError } from "../../core/index.js";
import { type ModelSource, openModelSource } from "../../engine/index.js";
import {
  ENCODING_NAMES,
  FILE_TYPE_NAMES,
  type FileType,
  ONNX_TYPES,
  type OnnxType,
  planGguf,
  planOnnx,
  writeGguf,
  writeOnnx,
} from "../../export/index.js";
import { SOURCE_ARGUMENT } from "../shared/engine-run.js";
import { runWithHub } from "../shared/hub-access.js";
import {
  elapsed,
  info,
  print,
  printJson,
  runWithProgress,
  type WorkControls,
  type WorkOptions,
  warn,
  withWorkOptions,
} from "../shared/output.js";

interface ExportOptions extends WorkOptions {
  readonly format: keyof typeof FORMATS;
  readonly type?: string;
  readonly tensorType?: string[];
  readonly out?: string;
  readonly dryRun?: boolean;
  readonly resume?: boolean;
  readonly force?: boolean;
}

/** A planned export in any format. */
interface Prepared {
  /** Program that reads it, and what it calls the model. */
  readonly target: string;
  /** For --json. */
  readonly summary: Readonly<Record<string, unknown>>;
  readonly tensors: readonly { readonly name: string; readonly shape: readonly number[]; readonly encoding: string }[];
  readonly bytes: number;
  readonly encodings: Readonly<Record<string, { readonly tensors: number; readonly bytes: number }>>;
  readonly notes: readonly string[];
  write(
    target: { out: string; force: boolean | undefined },
    controls: WorkControls,
  ): Promise<{ bytes: number; warnings: readonly string[]; resumed?: boolean }>;
}

type Prepare = (source: ModelSource, type: string, options: ExportOptions) => Promise<Prepared>;

interface Format {
  readonly types: readonly string[];
  readonly type: string;
  readonly prepare: Prepare;
}

const FORMATS: Readonly<Record<"gguf" | "onnx", Format>> = {
  gguf: { types: FILE_TYPE_NAMES, type: "q8_0", prepare: prepareGguf },
  onnx: { types: Object.keys(ONNX_TYPES), type: "q8", prepare: prepareOnnx },
};

export function addExportCommand(program: Command): void {
  const names = Object.keys(FORMATS);
  const types = Object.values(FORMATS).flatMap((format) => format.types);
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
  const { out, force, dryRun, format: name } = options;
  const format = FORMATS[name];
  const type = options.type ?? format.type;
  if (!format.types.includes(type)) {
    throw usageError(`--type ${type} is not a type of ${name}. Choose one of ${format.types.join(", ")}.`);
  }
  if (out === undefined && !dryRun) {
    throw usageError("Missing --out. Pass --out PATH to write the model, or --dry-run to print the plan.");
  }
  const opened = await runWithHub(options, ({ hub }) => openModelSource(source, { hub }));
  const prepared = await format.prepare(opened, type, options);
  const notes = [...opened.notes, ...prepared.notes];
  const { bytes, encodings, tensors } = prepared;
  const summary = { ...prepared.summary, type, bytes, encodings, notes };
  const described = describe(opened.name, type, prepared);
  if (dryRun || out === undefined) {
    if (options.json) printJson({ ...summary, tensors });
    else print([...described, ...notes.map((note) => `note: ${note}`)]);
    return;
  }
  info(options, described.join("\n"));
  for (const note of notes) info(options, `note: ${note}`);
  const written = await runWithProgress(options, (controls) => prepared.write({ out, force }, controls));
  for (const warning of written.warnings) warn(warning);
  if (options.json) {
    printJson({ ...summary, ...written, seconds: (performance.now() - start) / 1000 });
    return;
  }
  print(`${written.resumed ? "Resumed and wrote" : "Wrote"} ${out}: ${formatBytes(written.bytes)}, ${elapsed(start)}`);
}

async function prepareGguf(source: ModelSource, type: string, options: ExportOptions): Promise<Prepared> {
  const plan = await planGguf(source, { type: type as FileType, tensorTypes: options.tensorType });
  const { architecture, digest, tensors, layout, encodings, notes } = plan;
  return {
    target: `llama.cpp (${architecture})`,
    summary: { architecture, digest },
    tensors: tensors.map(({ name, shape, encoding }) => ({ name, shape, encoding })),
    bytes: layout.bytes,
    encodings,
    notes,
    write: (target, controls) => writeGguf(plan, { ...target, resume: options.resume, ...controls }),
  };
}

async function prepareOnnx(source: ModelSource, type: string, options: ExportOptions): Promise<Prepared> {
  if (options.tensorType) throw usageError("--tensor-type is for --format gguf. Leave it out.");
  if (options.resume) throw usageError("--resume is for --format gguf. Repeat the command without it.");
  const plan = planOnnx(source, { type: type as OnnxType });
  const { family, digest, tensors, bytes, encodings, notes } = plan;
  return {
    target: `transformers.js (${family})`,
    summary: { family, digest },
    tensors: tensors.map(({ step: { tensor, shape }, plain, quantized }) => {
      const encoding = [plain?.dtype, quantized && type.toUpperCase()].filter(Boolean).join(" and ");
      return { name: tensor, shape, encoding };
    }),
    bytes,
    encodings,
    notes,
    write: (target, controls) => writeOnnx(plan, { ...target, ...controls }),
  };
}

function describe(name: string, type: string, { target, encodings, bytes }: Prepared): string[] {
  const parts = Object.entries(encodings).map(
    ([encoding, { tensors, bytes: size }]) =>
      `${encoding.toLowerCase()} ${plural(tensors, "tensor")} (${formatBytes(size)})`,
  );
  return [`Export ${name} as ${type} for ${target}: ${formatBytes(bytes)}`, `  ${parts.join(", ")}`];
}
