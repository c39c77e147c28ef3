import { basename, resolve } from "node:path";
import { z } from "zod";
import { openModelSource } from "../engine/index.js";
import { ENCODING_NAMES, EXPORT_FORMATS, type ExportPlan } from "../export/index.js";
import { digestOfJson, writeFileAtomically } from "../kit/files/index.js";
import { DTYPE_BITS, elementCount, own, type Progress, usageError } from "../kit/index.js";
import { formatBytes, formatDuration, plural, shellQuote } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import { OUTPUT_DTYPES } from "../merge/index.js";
import { writeNotes } from "../merge/output/index.js";
import type { ExportInput } from "./inputs.js";
import { engineSource, type ModelInput, modelField, type WithModel } from "./model.js";
import { MergePlan, planMerge } from "./plan-merge.js";
import { type Controls, callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

const TYPES = new Set([...Object.values(EXPORT_FORMATS).flatMap(({ types }) => types), ...OUTPUT_DTYPES]);

export const exportSchema = z.strictObject({
  source: modelField("FOLDER, FOLDER+ADAPTER, a recipe file, or a model on the hub"),
  format: z.enum(["gguf", "onnx", "hf"]).default("gguf").meta({ description: "file format" }),
  type: z
    .enum([...TYPES])
    .optional()
    .meta({ description: "encoding of the weights", unset: "q8_0 for gguf, q8 for onnx, for hf that of the source" }),
  tensorTypes: z
    .array(z.string())
    .optional()
    .meta({
      description: `gguf: PATTERN=TYPE, encoding of tensors whose name a regular expression finds (${ENCODING_NAMES.join(", ")})`,
    }),
  ollama: z
    .boolean()
    .optional()
    .meta({ description: "gguf: write a Modelfile beside it, OUT.Modelfile, for ollama create" }),
  out: namedField("file", "file or folder to write; it appears when it is complete"),
});

/** Result of `exportModel`. */
export interface ExportResult extends Noted {
  /** What the program calls the model; of ONNX its `family`. */
  readonly architecture?: string;
  readonly family?: string;
  /** Equal for equal weights: a digest of the sources, the configuration and the options; for GGUF of the tokenizer, too. */
  readonly digest: string;
  /** Encoding of the weights, as llama.cpp, transformers.js or transformers names it. */
  readonly type: string;
  readonly bytes: number;
  /** Number and bytes of tensors by encoding. */
  readonly encodings: Readonly<Record<string, { readonly tensors: number; readonly bytes: number }>>;
  /** Absolute path of the file or folder. */
  readonly out: string;
  /** Whether an interrupted run was resumed; ONNX exports cannot be. */
  readonly resumed?: boolean;
}

/** An export that is planned, and what was read and chosen for it. */
interface PlannedExport extends ExportPlan {
  /** The model's name. */
  readonly name: string;
  readonly type: string;
}

type Input = z.output<typeof exportSchema>;

export const exportVerb: Verb<typeof exportSchema, ExportResult, Progress, PlannedExport> = {
  name: "export",
  function: "exportModel",
  description:
    "Write a model or a recipe as a GGUF file for llama.cpp, as an ONNX folder for transformers.js, or as a folder for " +
    "transformers. A recipe is merged while it is written, without a merged model on disk.",
  schema: exportSchema,
  shown: ["format", "type"],
  fetch: "stream",
  options: {
    threads: "physical cores",
    memory: "256MB",
    resume: "gguf, hf: resume an interrupted run",
    force: "replace an existing export or interrupted run",
  },
  async run(input, controls) {
    const { folder = "", force, resume, signal, onProgress, threads, memory, onPlan } = controls;
    const planned = await planExport(input, controls);
    onPlan?.(planned);
    const out = resolve(folder, input.out);
    const work = { out, force, resume, signal, onProgress, threads, memory };
    const { notes = [], ...written } = await planned.write(work);
    if (input.ollama) await writeFileAtomically(`${out}.Modelfile`, `FROM ./${basename(out)}\n`);
    return { ...summaryOf(planned), ...written, notes: [...planned.notes, ...notes] };
  },
  show: ({ resumed, bytes }, { out }, seconds) => [
    {
      kind: "text",
      lines: [`${resumed ? "Resumed and wrote" : "Wrote"} ${out}: ${formatBytes(bytes)}, ${formatDuration(seconds)}`],
    },
  ],
  plan: {
    description: "print the plan and exit; reads headers",
    // Its first line.
    title: () => "",
    run: planExport,
    show({ name, type, target, bytes, encodings, notes }) {
      const parts = Object.entries(encodings).map(
        ([encoding, { tensors, bytes: size }]) =>
          `${encoding.toLowerCase()} ${plural(tensors, "tensor")} (${formatBytes(size)})`,
      );
      const lines = [`Export ${name} as ${type} for ${target}: ${formatBytes(bytes)}`, `  ${parts.join(", ")}`];
      return [{ kind: "text", lines: [...lines, ...notes.map((note) => `note: ${note}`)] }];
    },
    json: (planned) => ({ ...summaryOf(planned), tensors: planned.tensors }),
  },
  terminal: {
    positional: ["source"],
    groups: { Output: ["format", "type", "tensorTypes", "out", "dryRun", "ollama", "resume", "force"] },
    flags: {
      format: { value: "format" },
      type: { value: "type" },
      tensorTypes: { flag: "tensor-type", value: "pattern=type..." },
      out: { value: "path" },
    },
    writes: "the model",
    json: (result, seconds) => ({ ...result, seconds }),
    closing: (_, { ollama, out }) =>
      ollama ? [`Run it with: ollama create my-model -f ${shellQuote(`${out}.Modelfile`)}`] : [],
  },
};

const summaryOf = ({ identity, digest, type, bytes, encodings, notes }: PlannedExport) => ({
  ...identity,
  digest,
  type,
  bytes,
  encodings,
  notes,
});

/** Plans an export. Reads headers. */
export async function planExport(
  { source, format: name, type, tensorTypes, ollama }: Omit<Input, "out">,
  { folder, hub, resume, signal, say }: Pick<Controls, "folder" | "hub" | "resume" | "signal" | "say">,
): Promise<PlannedExport> {
  if (name !== "gguf" && tensorTypes) {
    throw usageError(`${name} has no encodings of single tensors.`, { option: "tensorTypes" });
  }
  if (name !== "gguf" && ollama) throw usageError(`ollama is for gguf, not for ${name}. Leave it out.`);
  if (name === "onnx" && resume) throw usageError("onnx exports cannot be resumed. Repeat it without resume.");
  const format = own(EXPORT_FORMATS, name);
  const types = format?.types ?? OUTPUT_DTYPES;
  const chosen = type ?? format?.defaultType ?? "keep";
  if (!types.includes(chosen)) {
    throw usageError(`type ${chosen} is not a type of ${name}. Choose one of ${types.join(", ")}.`);
  }
  if (!format) return planFolder(source, chosen as (typeof OUTPUT_DTYPES)[number], { folder, hub, signal, say });
  const opened = await openModelSource(engineSource(source), { folder, hub });
  const plan = await format.plan(opened, chosen, tensorTypes);
  return { ...plan, name: opened.name, type: chosen, notes: [...opened.notes, ...plan.notes] };
}

/** A folder for transformers is what a merge writes: of one model, its own values. */
async function planFolder(
  source: ModelInput,
  dtype: (typeof OUTPUT_DTYPES)[number],
  { say, ...options }: Pick<Controls, "folder" | "hub" | "signal" | "say">,
): Promise<PlannedExport> {
  const isPlan = source instanceof MergePlan;
  const recipe = isPlan ? { ...source.recipe, dtype } : ({ method: "soup", models: [source], dtype } as const);
  const plan = isPlan && dtype === "keep" ? source : await planMerge(recipe, options);
  const { architecture, sources, steps, notes, summary } = plan;
  const encodings: Record<string, { tensors: number; bytes: number }> = {};
  for (const { dtype: encoding, shape } of steps) {
    const { tensors, bytes } = encodings[encoding] ?? { tensors: 0, bytes: 0 };
    const size = Math.ceil((elementCount(shape) * DTYPE_BITS[encoding]) / 8);
    encodings[encoding] = { tensors: tensors + 1, bytes: bytes + size };
  }
  return {
    name: sources.map(({ name }) => name).join(", "),
    type: dtype,
    target: `transformers (${architecture})`,
    identity: { architecture },
    digest: digestOfJson(plan.toJSON()),
    bytes: summary.bytesToWrite,
    encodings,
    notes,
    tensors: steps.map(({ tensor, shape, dtype: encoding }) => ({ name: tensor, shape, encoding })),
    async write(work) {
      const written = await plan.write(work);
      const { out, resumed, warnings } = written;
      return { out, bytes: summary.bytesToWrite, resumed, warnings, notes: writeNotes(written, plan.toJSON(), say) };
    },
  };
}

/** Options of `exportModel`. */
export interface ExportOptions extends VerbOptions, WorkOptions {}

/**
 * Writes a model as a GGUF file for llama.cpp, as an ONNX folder for transformers.js, or as a folder for transformers. A
 * recipe is merged while it is written.
 * @throws CheckpointError if the model's family is not supported, or llama.cpp has no such tokenizer
 * @throws RecipeError if the input is not valid, with every problem; or if a recipe is not valid
 * @throws MismatchError if models of a recipe do not fit together
 * @throws OutputError if `out` exists and `force` is not set, or the disk fills up
 * @throws CancelledError if the signal fires
 */
export function exportModel(input: WithModel<ExportInput>, options: ExportOptions = {}): Promise<ExportResult> {
  return callVerb(exportVerb, input, options);
}
