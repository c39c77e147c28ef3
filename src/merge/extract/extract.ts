// Extracts a LoRA adapter from a model and its base: the best low-rank approximation of each linear weight's change.

import { rm, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { heatmapSvg } from "../../figures/index.js";
import {
  ADAPTER_CONFIG,
  ADAPTER_WEIGHTS,
  adapterConfig,
  factorNames,
  foldersOf,
  inMemoryOf,
  type Part,
  peftName,
  peftTargets,
  requireUnchanged,
} from "../../formats/checkpoint/index.js";
import { layoutFolder } from "../../formats/safetensors/index.js";
import { largestOf } from "../../kit/arrays/index.js";
import { checkFolderOutput, withFile, writeFolder } from "../../kit/files/index.js";
import { CheckpointError, elementCount, MismatchError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { type Measured, Resolver } from "../../tensor/expressions/index.js";
import { measureAll } from "../../tensor/measurements/index.js";
import { runProgram, type StreamOptions } from "../../tensor/streaming/index.js";
import { compileWrite } from "../output/compile.js";
import { extractionCard } from "../output/model-card.js";
import { type ChangedPair, decompose, measureChanges, type StoredFactors } from "./decompose.js";
import { type Extraction, sharesHeatmap, summarize } from "./extraction.js";
import {
  type ExtractOptions,
  isEmbedding,
  moduleOf,
  type OpenedModels,
  openModels,
  type Pair,
} from "./plan-extraction.js";

export interface ExtractionOutput {
  /** Folder to write. */
  readonly out: string;
  /** Replace an existing adapter that `extract` wrote. Default: false. */
  readonly force?: boolean | undefined;
}

const FILES: readonly string[] = [ADAPTER_CONFIG, ADAPTER_WEIGHTS, "README.md", "extraction.json", "heatmap.svg"];
const FACTORS_FILE = "factors";
const SMALL_ELEMENTS = 2 ** 20;

/**
 * Extracts an adapter and writes it as PEFT does, with a model card, extraction.json and heatmap.svg: float32 factors, equal
 * for any number of threads. Weights are streamed, so memory holds sketches of them and their factors.
 * @throws RecipeError if the base has an adapter
 * @throws MismatchError if the models do not fit together, or a change cannot be in an adapter
 * @throws CheckpointError if nothing changed, or values are infinite or NaN
 * @throws OutputError if the folder exists and may not be replaced
 * @throws CancelledError if the signal fires
 */
export async function extractAdapter(options: ExtractOptions, output: ExtractionOutput): Promise<Extraction> {
  const opened = await openModels(options);
  const inputs = [...opened.builder.sources.values()].flatMap(foldersOf);
  await checkFolderOutput(output, inputs, (path) => FILES.includes(path));
  const { signal, onProgress, threads, memory } = options;
  const measurements = [...opened.builder.measurements.values()];
  const measured = await measureAll(measurements, opened.builder.sources, { signal, onProgress, threads, memory });
  const fill = async (partial: string) => {
    const extraction = await extractInto(partial, opened, measured, options);
    await requireUnchanged(opened.builder.sources.values(), "the adapter would mix old and new. Run it again.");
    const base = opened.base.lead.checkpoint;
    const models = [...opened.builder.sources.values()].filter((model) => model !== base);
    const { largestRank: rank, shares } = extraction.total;
    const card = await extractionCard({ base, models, rank, share: shares.at(-1) ?? 1 }, basename(resolve(output.out)));
    await writeFile(join(partial, "README.md"), card);
    return extraction;
  };
  return writeFolder(output.out, "the adapter", fill, { replace: output.force ?? false });
}

interface Module {
  readonly pair: ChangedPair;
  readonly name: string;
  readonly factors: StoredFactors;
}

async function extractInto(
  folder: string,
  opened: OpenedModels,
  measured: Measured,
  options: ExtractOptions,
): Promise<Extraction> {
  const { linear, others, base, builder } = opened;
  const { seed = 0, linearOnly = false, signal, onProgress, threads, memory } = options;
  const controls = { signal, onProgress, threads, memory };
  const resolver = new Resolver(builder.sources, measured);
  // What an adapter cannot hold is read first, norms and routers before embeddings and experts, as it may refuse the whole model.
  const bySize = others.toSorted((a, b) => elementCount(a.shape) - elementCount(b.shape));
  const small = bySize.filter(({ shape }) => elementCount(shape) <= SMALL_ELEMENTS);
  const rest: ChangedPair[] = [];
  for (const some of [small, bySize.slice(small.length)]) {
    rest.push(...(await measureChanges(some, resolver, controls)));
    if (!linearOnly && rest.length > 0) requireSavable(rest, opened);
  }
  const saved = linearOnly ? [] : rest;
  const weights = await measureChanges(linear, resolver, controls);
  if (weights.length === 0) {
    throw new CheckpointError(
      `${opened.model} and ${base.lead.checkpoint.name} have equal linear weights, so there is nothing to extract.`,
    );
  }
  const isTransposed = requireOneOrientation(weights);

  const scratch = join(folder, FACTORS_FILE);
  const stored = await decompose(weights, scratch, resolver, options);
  const modules = weights.map((pair, i): Module => {
    return { pair, name: moduleOf(pair.tensor), factors: stored[i] as StoredFactors };
  });
  const bytes = await writeWeights(folder, scratch, modules, saved, opened, measured, controls);
  await rm(scratch);
  const { modules: modulesToSave, hasBiases } = savedModules(saved, linear);
  // PEFT renames tensors as transformers does, but not what adapter_config.json names.
  const inMemory = inMemoryOf(base.lead.checkpoint.config.json.model_type);
  const rank = largestOf(modules.map(({ factors }) => factors.rank));
  const pattern = Object.fromEntries(
    modules.flatMap(({ name, factors }) => (factors.rank === rank ? [] : [[inMemory(name), factors.rank] as const])),
  );
  const config = adapterConfig({
    base: base.lead.checkpoint.name,
    rank,
    alpha: rank,
    rankPattern: pattern,
    alphaPattern: pattern,
    targets: peftTargets(
      modules.map(({ name, pair }) => ({ module: name, layer: pair.layer })),
      base.tensors,
      inMemory,
    ),
    modulesToSave: modulesToSave.length === 0 ? null : modulesToSave.map(inMemory),
    hasBiases,
    isTransposed,
  });
  await writeFile(join(folder, ADAPTER_CONFIG), `${JSON.stringify(config, undefined, 2)}\n`);
  const extraction = summarize(
    modules.map(({ name, factors: { gains }, pair: { layer, part, shape, squaredChange } }) => {
      return { module: name, layer, part, shape, squaredChange, gains };
    }),
    {
      base: base.lead.checkpoint.name,
      model: opened.model,
      seed,
      unchanged: linear.length - modules.length,
      saved: saved.map(({ tensor }) => tensor),
      left: linearOnly ? rest.map(({ tensor }) => tensor) : [],
      bytes,
      warnings: opened.warnings,
    },
  );
  await writeFile(join(folder, "extraction.json"), `${JSON.stringify(extraction, null, 1)}\n`);
  await writeFile(join(folder, "heatmap.svg"), heatmapSvg(sharesHeatmap(extraction, base.layers)));
  return extraction;
}

/** Whether matrices are stored [in, out]. @throws MismatchError if some are and others are not */
function requireOneOrientation(weights: readonly Pair[]): boolean {
  const linear = weights.filter((pair) => !isEmbedding(pair));
  const isTransposed = linear.some(({ transposed }) => transposed);
  if (isTransposed && linear.some(({ transposed }) => !transposed)) {
    throw new MismatchError("PEFT stores the factors of a model in one orientation:", [
      "some changed matrices are stored [in, out], others [out, in]",
    ]);
  }
  return isTransposed;
}

/** Writes adapter_model.safetensors: the factors, then what is saved whole. @returns its bytes without the header */
async function writeWeights(
  folder: string,
  scratch: string,
  modules: readonly Module[],
  saved: readonly Pair[],
  { builder }: OpenedModels,
  measured: Measured,
  controls: StreamOptions,
): Promise<number> {
  const factors = modules.flatMap(({ name, pair, factors: { rank, offset } }) => {
    const names = factorNames({ module: name, isEmbedding: isEmbedding(pair) });
    const [rows = 0, columns = 0] = pair.shape;
    const [out, input] = pair.transposed || isEmbedding(pair) ? [columns, rows] : [rows, columns];
    return [
      { name: names.a, dtype: "F32" as const, shape: [rank, input], offset },
      { name: names.b, dtype: "F32" as const, shape: [out, rank], offset: offset + 4 * rank * input },
    ];
  });
  const adapted = new Set(modules.map(({ name }) => name));
  const whole = saved.map((pair) => ({
    tensor: savedName(pair, adapted),
    dtype: pair.model.dtype,
    shape: pair.shape,
    value: pair.model.value,
  }));
  const layout = layoutFolder([...factors, ...whole.map((one) => ({ ...one, name: one.tensor }))], {
    shardBytes: Number.POSITIVE_INFINITY,
  });
  const [file] = layout.shards;
  if (!file) throw new Error("an adapter has one file");
  const path = join(folder, ADAPTER_WEIGHTS);
  await withFile(path, "wx", async (handle) => {
    await handle.write(file.header);
    await handle.truncate(file.bytes);
    const written = compileWrite(whole, builder.sources, measured, layout, [path]);
    const placeOf = new Map(file.tensors.map((tensor) => [tensor.name, tensor]));
    const from = written.inputs.length;
    const copies = factors.map(({ name, dtype, shape, offset }) => ({
      kind: "copy" as const,
      name,
      bytes: 4 * elementCount(shape),
      from: { file: from, offset, dtype },
      to: { file: 0, offset: placeOf.get(name)?.offset ?? 0, dtype },
    }));
    const inputs = [...written.inputs, { path: scratch, bytes: 0 }];
    await runProgram({ ...written, inputs, jobs: [...copies, ...written.jobs] }, { ...controls, phase: "writing" });
    await handle.datasync();
  });
  return layout.totalSize;
}

// Not modules that PEFT can save beside factors in every version of transformers.
const UNSAVABLE: readonly Part[] = ["router", "shared_expert_gate", "vision", "module"];

/** @throws MismatchError for changed tensors that PEFT cannot save beside factors */
function requireSavable(saved: readonly Pair[], { base }: OpenedModels): void {
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
      "an adapter cannot hold every change; these tensors would have to stay the base's:",
      problems,
      { option: "linearOnly" },
    );
  }
}

const moduleOfSaved = (tensor: string) => tensor.replace(/\.(weight|bias)$/, "");

/** PEFT's name for a tensor that is saved whole; it moves the bias of a module with factors into `base_layer`. */
function savedName({ tensor }: Pair, adapted: ReadonlySet<string>): string {
  const module = moduleOfSaved(tensor);
  return peftName(adapted.has(module) ? `${module}.base_layer.bias` : tensor);
}

/** PEFT's `modules_to_save`, and whether biases of linear modules are saved, too. */
function savedModules(
  saved: readonly Pair[],
  linear: readonly Pair[],
): { modules: readonly string[]; hasBiases: boolean } {
  const linearModules = new Set(linear.map(({ tensor }) => moduleOf(tensor)));
  const isBias = ({ tensor }: Pair) => linearModules.has(moduleOfSaved(tensor));
  return {
    modules: [...new Set(saved.filter((pair) => !isBias(pair)).map(({ tensor }) => moduleOfSaved(tensor)))],
    hasBiases: saved.some(isBias),
  };
}
