// Extracts a LoRA adapter from a model and its base: the best low-rank approximation of each linear weight's change.

import { readSync } from "node:fs";
import { type FileHandle, open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  bytesPerElement,
  CancelledError,
  CheckpointError,
  elementCount,
  formatSome,
  groupBy,
  isFloatDType,
  MismatchError,
  RecipeError,
  type Shape,
  VERSION,
  writeFolder,
} from "../../core/index.js";
import {
  adapterConfig,
  compareParts,
  Evaluator,
  eachBlock,
  factorNames,
  InputFiles,
  type Job,
  type Part,
  peftName,
  peftTargets,
  type RunOptions,
  requireFloat,
  type TensorData,
  writeSafetensors,
} from "../../weights/index.js";
import { isLocated, type LocatedRecipe } from "../analysis/analysis.js";
import { columnName } from "../analysis/analysis-views.js";
import { checkFolderOutput, drawHeatmap } from "../analysis/write-analysis.js";
import type { Measured, Value } from "../expressions/expression.js";
import { Resolver } from "../expressions/resolve.js";
import { measureAll } from "../measurements/measure-all.js";
import type { SourceRecipe } from "../methods/fields.js";
import type { Operand, OperandTensor } from "../methods/operand.js";
import { OperandBuilder } from "../plan/operand-builder.js";
import { checkRecipe } from "../plan/recipe-file.js";
import { compareWeights } from "../plan/relatedness.js";
import { type LowRank, lowRank } from "./low-rank.js";

/** Rank of the adapter if neither rank nor energy is given. */
export const DEFAULT_RANK = 64;

export interface ExtractOptions extends Pick<RunOptions, "signal" | "onProgress" | "threads" | "memory"> {
  /** The model that the adapter will be added to: a folder, or the name of a model in the hub's cache. */
  readonly base: string;
  /** The fine-tune or merge: a folder, FOLDER+ADAPTER, or a recipe, which is computed on the fly. */
  readonly model: SourceRecipe | LocatedRecipe;
  /** Largest rank of a weight; 64 by default, without a limit if `energy` is given. */
  readonly rank?: number | undefined;
  /** Share of each weight's squared change to keep with the smallest rank that does, between 0 and 1. */
  readonly energy?: number | undefined;
  /** Leave weights that factors cannot hold at the base's; by default changed ones are saved whole. */
  readonly linearOnly?: boolean | undefined;
  /** Seed of the decomposition; 0 by default. */
  readonly seed?: number | undefined;
  /** Folder that relative paths start from; the working folder by default. */
  readonly folder?: string | undefined;
}

/** A linear weight of the adapter. */
export interface ExtractedModule {
  readonly module: string;
  readonly layer: number | null;
  readonly part: Part;
  /** As stored. */
  readonly shape: Shape;
  readonly rank: number;
  /** Squared Frobenius norm of the change. */
  readonly squaredChange: number;
  /** Share of `squaredChange` that the factors keep. */
  readonly share: number;
}

/** Share of the squared change that a part's weights keep, summed over them. */
export interface ExtractedPart {
  readonly part: Part;
  /** Number of changed weights. */
  readonly weights: number;
  readonly smallestRank: number;
  readonly largestRank: number;
  /** Share kept if each weight had at most the rank at this place in `Extraction.ranks`. */
  readonly shares: readonly number[];
}

/** What an adapter keeps of a model's change. The content of extraction.json. */
export interface Extraction {
  readonly format: 1;
  readonly layergraft: string;
  readonly base: string;
  readonly model: string;
  readonly seed: number;
  /** Powers of two up to the largest rank, and that rank. */
  readonly ranks: readonly number[];
  readonly parts: readonly ExtractedPart[];
  readonly total: Omit<ExtractedPart, "part">;
  readonly modules: readonly ExtractedModule[];
  /** Linear weights equal to the base's, which need no factors. */
  readonly unchanged: number;
  /** Changed tensors that are saved whole. */
  readonly saved: readonly string[];
  /** Changed tensors that stay the base's. */
  readonly left: readonly string[];
  /** Size of adapter_model.safetensors without its header. */
  readonly bytes: number;
  readonly warnings: readonly string[];
}

/** What an extraction would do, from headers alone. */
export interface ExtractionPlan {
  readonly base: string;
  readonly model: string;
  /** Linear weights that can get factors. */
  readonly linear: readonly { readonly module: string; readonly shape: Shape; readonly rank: number | null }[];
  /** Tensors that factors cannot hold. */
  readonly others: readonly string[];
  /** Bytes of the factors if all linear weights changed; null if the ranks follow from `energy`. */
  readonly bytes: number | null;
}

export interface ExtractionOutput {
  readonly out: string;
  /** Replace an earlier adapter that this command wrote. Default: false. */
  readonly force?: boolean | undefined;
}

/** Files of an extracted adapter. */
const FILES: readonly string[] = [
  "adapter_config.json",
  "adapter_model.safetensors",
  "extraction.json",
  "heatmap.svg",
  "heatmap.png",
];
// The name starts as those of a run's own files do, which are removed before the folder gets its final name.
const FACTORS_FILE = ".layergraft-factors";

/** A tensor of the base, and the model's value of it. */
interface Pair extends OperandTensor {
  readonly tensor: string;
  readonly model: OperandTensor;
}

interface Opened {
  readonly builder: OperandBuilder;
  readonly base: Operand;
  readonly model: string;
  readonly linear: readonly Pair[];
  readonly others: readonly Pair[];
  readonly warnings: readonly string[];
}

async function openModels(options: ExtractOptions): Promise<Opened> {
  const { base, model, folder = ".", rank, energy } = options;
  if (rank !== undefined && !(Number.isSafeInteger(rank) && rank >= 1))
    throw RecipeError.at({ field: "rank" }, "rank must be a whole number from 1");
  if (energy !== undefined && !(energy > 0 && energy <= 1))
    throw RecipeError.at({ field: "energy" }, "energy must be above 0 and at most 1");
  const builder = new OperandBuilder(folder);
  await builder.open(base, "base", { isBase: true });
  const [value, from] = isLocated(model) ? [model.recipe, model.folder] : [model, folder];
  const source: SourceRecipe = typeof value === "string" ? value : { ...checkRecipe(value) };
  await builder.open(source, "model", { folder: from });
  const root = builder.operand(base, "base");
  if (root.lead.checkpoint.adapter) {
    throw RecipeError.at(
      { field: "base" },
      `${base} is a base with an adapter, which no other adapter can be added to. Pass ${root.lead.checkpoint.folder} as the base, or write the sum to a folder first.`,
    );
  }
  await builder.requireCompatible(undefined, "extracted");
  const { unrelated } = compareWeights(builder.sources, (label) => builder.isBase(label));
  const operand = builder.operand(source, "model");
  if (operand.layerOrder?.some((from, to) => from !== to)) {
    throw new MismatchError("an adapter cannot reorder layers:", [
      "the recipe stacks or reorders layers of its sources",
    ]);
  }
  const pairs = [...root.tensors].flatMap(([tensor, own]): Pair[] => {
    const other = operand.tensors.get(tensor);
    const isNumber = other && isFloatDType(own.dtype) && isFloatDType(other.dtype) && elementCount(own.shape) > 0;
    return isNumber ? [{ ...own, tensor, model: other }] : [];
  });
  return {
    ...{ builder, base: root, warnings: unrelated },
    model: typeof source === "string" ? operand.lead.checkpoint.name : `a recipe (${source.method})`,
    linear: pairs.filter(isLinear),
    others: pairs.filter((pair) => !isLinear(pair)),
  };
}

// PEFT's linear modules: a router is a parameter in transformers 5, and an embedding is looked up.
function isLinear({ tensor, shape, layer, part }: Pair): boolean {
  const isRouter = part === "router" || part === "shared_expert_gate";
  return tensor.endsWith(".weight") && shape.length === 2 && (layer !== null || part === "lm_head") && !isRouter;
}

const mostRank = ({ rank, energy }: ExtractOptions) => rank ?? (energy === undefined ? DEFAULT_RANK : undefined);

const moduleOf = (tensor: string) => tensor.replace(/\.weight$/, "");

/**
 * Plans an extraction from headers.
 * @throws RecipeError if rank or energy is out of range, or the base has an adapter
 * @throws MismatchError if the models do not fit together
 */
export async function planExtraction(options: ExtractOptions): Promise<ExtractionPlan> {
  const { base, model, linear, others } = await openModels(options);
  const { energy } = options;
  const rank = mostRank(options);
  const planned = linear.map(({ tensor, shape }) => ({
    module: moduleOf(tensor),
    shape,
    rank: energy === undefined && rank !== undefined ? Math.min(rank, ...shape) : null,
  }));
  return {
    base: base.lead.checkpoint.name,
    model,
    linear: planned,
    others: others.map(({ tensor }) => tensor),
    bytes: planned.reduce<number | null>(
      (sum, { shape, rank: own }) =>
        sum === null || own === null ? null : sum + 4 * own * ((shape[0] ?? 0) + (shape[1] ?? 0)),
      0,
    ),
  };
}

/**
 * Extracts an adapter and writes it as PEFT does, with extraction.json and heatmap.svg and .png: float32 factors, equal
 * for any number of threads. One weight is in memory at a time.
 * @throws RecipeError if rank or energy is out of range, or the base has an adapter
 * @throws MismatchError if the models do not fit together, or a change cannot be in an adapter
 * @throws CheckpointError if nothing changed, or values are infinite or NaN
 * @throws OutputError if the folder exists and may not be replaced
 * @throws CancelledError if the signal fires
 */
export async function extractAdapter(options: ExtractOptions, output: ExtractionOutput): Promise<Extraction> {
  const opened = await openModels(options);
  const inputs = [...opened.builder.sources.values()].flatMap(({ folder, adapter }) => [
    folder,
    ...(adapter ? [adapter.path] : []),
  ]);
  await checkExtractionOutput(output, inputs);
  const { signal, onProgress, threads, memory } = options;
  const measurements = [...opened.builder.measurements.values()];
  const measured = await measureAll(measurements, opened.builder.sources, { signal, onProgress, threads, memory });
  return writeFolder(
    output.out,
    "the adapter",
    async (partial) => {
      const scratch = await open(join(partial, FACTORS_FILE), "wx+");
      try {
        return await extractInto(partial, scratch, opened, measured, options);
      } finally {
        await scratch.close();
      }
    },
    { replace: output.force ?? false },
  );
}

/** @throws OutputError if the folder is an input, or exists and may not be replaced */
export function checkExtractionOutput(output: ExtractionOutput, inputs: readonly string[]): Promise<void> {
  return checkFolderOutput(output, inputs, FILES);
}

async function extractInto(
  folder: string,
  scratch: FileHandle,
  opened: Opened,
  measured: Measured,
  options: ExtractOptions,
): Promise<Extraction> {
  const { linear, others, base } = opened;
  const { energy, seed = 0, signal, onProgress } = options;
  const rank = mostRank(options);
  const reader = new ChangeReader([...linear, ...others], opened, measured);
  const bytesOf = ({ shape }: Pair) => 4 * elementCount(shape);
  const totalBytes = [...linear, ...others].reduce((sum, pair) => sum + bytesOf(pair), 0);
  let doneBytes = 0;
  const report = () => onProgress?.({ phase: "extracting", doneBytes, totalBytes });
  const onTurn = () => {
    if (signal?.aborted) throw new CancelledError("stopped while the adapter was extracted");
    report();
  };
  try {
    const changed = new Map<string, { pair: Pair; squares: number }>();
    for (const pair of others) {
      onTurn();
      const squares = squaredNorm(reader.change(pair), pair);
      if (squares > 0) changed.set(pair.tensor, { pair, squares });
      doneBytes += bytesOf(pair);
    }
    const rest = [...changed.values()].map(({ pair }) => pair);
    const saved = options.linearOnly ? [] : rest;
    if (saved.length > 0) requireSavable(saved, opened);

    const modules: (ExtractedModule & { readonly squares: Float64Array; readonly at: number; readonly pair: Pair })[] =
      [];
    let written = 0;
    for (const pair of linear) {
      onTurn();
      const [rows = 0, columns = 0] = pair.shape;
      const change = reader.change(pair);
      const squaredChange = squaredNorm(change, pair);
      if (squaredChange > 0) {
        const found = await lowRank(change, rows, columns, { rank, energy, seed, label: pair.tensor, onTurn });
        const { first, second } = factorsOf(found, { rows, columns }, pair.transposed === true);
        await scratch.writev([first, second], written);
        const { tensor, layer, part, shape } = pair;
        const kept = sumOf(found.squares) / squaredChange;
        modules.push({
          ...{ module: moduleOf(tensor), layer, part, shape, rank: found.rank, squaredChange },
          ...{ share: Math.min(1, kept), squares: found.squares, at: written, pair },
        });
        written += first.byteLength + second.byteLength;
      }
      doneBytes += bytesOf(pair);
      report();
    }
    if (modules.length === 0) {
      throw new CheckpointError(
        `${opened.model} and ${base.lead.checkpoint.name} have equal linear weights, so there is nothing to extract.`,
      );
    }
    const isTransposed = modules.some(({ pair }) => pair.transposed);
    if (isTransposed && modules.some(({ pair }) => !pair.transposed)) {
      throw new MismatchError("PEFT stores the factors of a model in one orientation:", [
        "some changed matrices are stored [in, out], others [out, in]",
      ]);
    }
    const factors = modules.flatMap(({ module, pair, rank: r, at }): TensorData[] => {
      const names = factorNames({ module });
      const [rows = 0, columns = 0] = pair.shape;
      const [out, input] = pair.transposed ? [columns, rows] : [rows, columns];
      return [
        { name: names.a, dtype: "F32", shape: [r, input], ...stored(scratch, at, 4 * r * input) },
        { name: names.b, dtype: "F32", shape: [out, r], ...stored(scratch, at + 4 * r * input, 4 * r * out) },
      ];
    });
    const adapted = new Set(modules.map(({ module }) => module));
    const linearModules = new Set(linear.map(({ tensor }) => moduleOf(tensor)));
    const isBias = ({ tensor }: Pair) => linearModules.has(savedModule(tensor));
    const savedModules = new Set(saved.filter((pair) => !isBias(pair)).map(({ tensor }) => savedModule(tensor)));
    const whole = saved.map(
      (pair): TensorData => ({
        name: savedName(pair, adapted),
        dtype: pair.model.dtype,
        shape: pair.shape,
        get data() {
          return reader.value(pair);
        },
      }),
    );
    await writeSafetensors(join(folder, "adapter_model.safetensors"), [...factors, ...whole]);

    const ranks = modules.map((one) => one.rank);
    const commonRank = Math.max(...ranks);
    const pattern = Object.fromEntries(
      modules.flatMap((one) => (one.rank === commonRank ? [] : [[one.module, one.rank] as const])),
    );
    const config = adapterConfig({
      base: base.lead.checkpoint.name,
      rank: commonRank,
      alpha: commonRank,
      rankPattern: pattern,
      alphaPattern: pattern,
      targets: peftTargets(modules, base.tensors),
      modulesToSave: savedModules.size === 0 ? null : [...savedModules],
      hasBiases: saved.some(isBias),
      isTransposed,
    });
    await writeFile(join(folder, "adapter_config.json"), `${JSON.stringify(config, undefined, 2)}\n`);

    const shownRanks = ranksUpTo(commonRank);
    const summary = (of: typeof modules): Omit<ExtractedPart, "part"> => {
      const total = sumOf(of.map((one) => one.squaredChange));
      return {
        weights: of.length,
        smallestRank: Math.min(...of.map((one) => one.rank)),
        largestRank: Math.max(...of.map((one) => one.rank)),
        shares: shownRanks.map((most) =>
          Math.min(1, sumOf(of.map((one) => sumOf(one.squares.subarray(0, most)))) / total),
        ),
      };
    };
    const extraction: Extraction = {
      format: 1,
      layergraft: VERSION,
      ...{ base: base.lead.checkpoint.name, model: opened.model, seed, ranks: shownRanks },
      parts: [...groupBy(modules, ({ part }) => part)]
        .map(([part, of]) => ({ part, ...summary(of) }))
        .sort((a, b) => compareParts(a.part, b.part)),
      total: summary(modules),
      modules: modules.map(({ squares: _, at: __, pair: ___, ...module }) => module),
      unchanged: linear.length - modules.length,
      saved: saved.map(({ tensor }) => tensor),
      left: options.linearOnly ? rest.map(({ tensor }) => tensor) : [],
      bytes: [...factors, ...saved.map(({ shape, model }) => ({ shape, dtype: model.dtype }))].reduce(
        (sum, { shape, dtype }) => sum + elementCount(shape) * bytesPerElement(dtype),
        0,
      ),
      warnings: opened.warnings,
    };
    await writeFile(join(folder, "extraction.json"), `${JSON.stringify(extraction, null, 1)}\n`);
    await drawHeatmap(folder, sharesHeatmap(extraction, base.layers));
    return extraction;
  } finally {
    reader.close();
  }
}

/** Layers by parts, each cell the share that the factors keep. */
function sharesHeatmap({ parts, modules, model }: Extraction, layers: number) {
  const columns = parts
    .map(({ part }) => part)
    .filter((part) => modules.some((one) => one.part === part && one.layer !== null));
  const cells = Array.from({ length: layers }, (_, layer) =>
    columns.map((part) => {
      const own = modules.filter((one) => one.layer === layer && one.part === part);
      const total = sumOf(own.map((one) => one.squaredChange));
      return own.length === 0 ? null : sumOf(own.map((one) => one.share * one.squaredChange)) / total;
    }),
  );
  return {
    title: "Share of the squared change that the adapter keeps",
    legend: "share kept",
    columns: columns.map(columnName),
    panels: [{ title: model, cells }],
  };
}

// Not modules that PEFT can save beside factors in every version of transformers.
const UNSAVABLE: readonly Part[] = ["router", "shared_expert_gate", "vision"];

/** @throws MismatchError for changed tensors that PEFT cannot save beside factors */
function requireSavable(saved: readonly Pair[], { base }: Opened): void {
  const embedding = base.lead.checkpoint.tied ? saved.find(({ part }) => part === "embed_tokens") : undefined;
  const odd = saved.filter(
    ({ tensor, shape, part }) => shape.length > 2 || UNSAVABLE.includes(part) || !/\.(weight|bias)$/.test(tensor),
  );
  const problems = [
    ...(embedding
      ? [`${embedding.tensor} changed and is tied to the output head, which PEFT would leave at the base's`]
      : []),
    ...(odd.length > 0
      ? [`changed, but neither factors nor saved modules hold them: ${formatSome(odd.map(({ tensor }) => tensor))}`]
      : []),
  ];
  if (problems.length > 0) {
    throw new MismatchError(
      "an adapter cannot hold every change. Pass --linear-only to leave these tensors at the base's:",
      problems,
    );
  }
}

const savedModule = (tensor: string) => tensor.replace(/\.(weight|bias)$/, "");

/** PEFT's name for a tensor that is saved whole; it moves the bias of a module with factors into `base_layer`. */
function savedName({ tensor }: Pair, modules: ReadonlySet<string>): string {
  const module = savedModule(tensor);
  return peftName(modules.has(module) ? `${module}.base_layer.bias` : tensor);
}

/** A and B as PEFT stores them; the stored matrix is (B A)^T if it is [in, out]. */
function factorsOf(
  { rank, left, right }: LowRank,
  { rows, columns }: { readonly rows: number; readonly columns: number },
  isTransposed: boolean,
): { readonly first: Uint8Array; readonly second: Uint8Array } {
  const bytes = (values: Float64Array) => new Uint8Array(Float32Array.from(values).buffer);
  return isTransposed
    ? { first: bytes(transpose(left, rows, rank)), second: bytes(transpose(right, rank, columns)) }
    : { first: bytes(right), second: bytes(left) };
}

function transpose(values: Float64Array, rows: number, columns: number): Float64Array {
  const out = new Float64Array(values.length);
  for (let i = 0; i < rows; i++)
    for (let j = 0; j < columns; j++) out[j * rows + i] = values[i * columns + j] as number;
  return out;
}

/** Bytes of a scratch file, read when they are needed. */
function stored(scratch: FileHandle, at: number, length: number): { readonly data: Uint8Array } {
  return {
    get data() {
      const data = new Uint8Array(length);
      for (let done = 0; done < length; ) done += readSync(scratch.fd, data, done, length - done, at + done);
      return data;
    },
  };
}

/** 1, 2, 4, ... below a rank, and the rank. */
function ranksUpTo(rank: number): number[] {
  const powers = Array.from({ length: Math.ceil(Math.log2(Math.max(1, rank))) }, (_, i) => 2 ** i);
  return [...powers, rank];
}

function sumOf(values: readonly number[] | Float64Array): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum;
}

/** @throws CheckpointError if a value is infinite or NaN */
function squaredNorm(change: Float32Array, { tensor }: Pair): number {
  let sum = 0;
  for (let i = 0; i < change.length; i++) sum += (change[i] as number) ** 2;
  if (Number.isFinite(sum)) return sum;
  throw new CheckpointError(
    `the change of ${tensor} has infinite or NaN values, so it has no low-rank approximation. Find them with diff.`,
    { tensor },
  );
}

/** Computes changes and values of tensors, one in memory at a time. */
class ChangeReader {
  readonly #changes = new Map<string, Job & { kind: "write" }>();
  readonly #values = new Map<string, Job & { kind: "write" }>();
  readonly #files: InputFiles;
  readonly #evaluator: Evaluator;

  constructor(pairs: readonly Pair[], { builder }: Opened, measured: Measured) {
    const resolver = new Resolver(builder.sources, measured);
    const job = (name: string, value: Value, dtype: Pair["dtype"]): Job & { kind: "write" } => ({
      ...{ kind: "write", name, value: resolver.evaluation(value), to: { file: 0, offset: 0, dtype } },
    });
    for (const { tensor, value, model } of pairs) {
      const change: Value = {
        sum: [
          { weight: 1, value: model.value },
          { weight: -1, value },
        ],
      };
      this.#changes.set(tensor, job(tensor, change, "F32"));
      this.#values.set(tensor, job(tensor, model.value, model.dtype));
    }
    const jobs = [...this.#changes.values(), ...this.#values.values()];
    const program = { inputs: resolver.inputs, outputs: [], jobs };
    this.#files = new InputFiles(program.inputs, { read: 0, written: 0 });
    this.#evaluator = new Evaluator(program, this.#files);
  }

  /** model - base in float32. */
  change({ tensor }: Pair): Float32Array {
    return new Float32Array(this.#compute(this.#changes.get(tensor)).buffer);
  }

  /** The model's values, in its dtype. */
  value({ tensor }: Pair): Uint8Array {
    return this.#compute(this.#values.get(tensor));
  }

  close(): void {
    this.#files.close();
  }

  #compute(job: (Job & { kind: "write" }) | undefined): Uint8Array {
    if (!job) throw new Error("unknown tensor");
    const dtype = requireFloat(job.to.dtype);
    const bytes = new Uint8Array(job.value.elements * bytesPerElement(dtype));
    eachBlock(job, 0, job.value.elements, (from, to) => {
      bytes.set(this.#evaluator.round(job.value, from, to, dtype).bytes, from * bytesPerElement(dtype));
    });
    return bytes;
  }
}
