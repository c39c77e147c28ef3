// Opens PEFT LoRA adapters and matches their factors to a base's tensors. Formula: Hu et al., arXiv 2106.09685, section
// 4.1; rank-stabilised scale: Kalajdzievski, arXiv 2312.03732. File layout: PEFT's `save_pretrained`.

import { join } from "node:path";
import { exists } from "../../kit/files/index.js";
import { CheckpointError, formatShape } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import type { TensorInfo } from "../safetensors/header.js";
import { openSafetensors, type SafetensorsFile } from "../safetensors/reader.js";
import type { RemoteFolder } from "../safetensors/sharded.js";
import { changesOfParameters, TRANSPOSED_EXPERTS } from "./adapted-parameters.js";
import { type AdapterConfig, formOfFactors, readAdapterConfig } from "./adapter-config.js";
import { ADAPTER_WEIGHTS, adapterWeights, factorOf } from "./adapter-files.js";
import type { Checkpoint, CheckpointTensor } from "./checkpoint.js";
import { namesOfBase } from "./common-names.js";
import { textOf } from "./config.js";
import { changesOfFused, joined } from "./fused-modules.js";
import { folderName } from "./locate.js";
import { isConverted, namesInMemory } from "./renamings.js";
import { unwrapped } from "./wrapped-names.js";

/** W + scale * (B A), or W + scale * (B A)^T where the base stores the weight as [in, out]. */
export interface LowRankDelta {
  readonly rank: number;
  readonly scale: number;
  /** Whether the product is transposed before it is added (`fan_in_fan_out`, embeddings). */
  readonly transposed: boolean;
  /** What the sum is rounded to before anything else. Default: nothing, it is float32. */
  readonly rounded?: "BF16" | "F16";
  /** Factors of several matrices in one, as PEFT stores those of experts: of how many, and which is the first here. */
  readonly experts?: { readonly count: number; readonly first: number };
  /** The rows that it changes, of a stack of matrices counted from the first one's. Default: all. */
  readonly rows?: { readonly from: number; readonly count: number } | undefined;
  /** Changes of other rows, where modules are parts of the tensor. */
  readonly others?: readonly LowRankDelta[] | undefined;
  /** [rank, in]; of experts [experts * rank, in] */
  readonly a: TensorInfo;
  /** [out, rank]; of experts [out, rank * experts] */
  readonly b: TensorInfo;
  /** Lengths of the sum's rows, [out]: `lora_magnitude_vector` of DoRA (arXiv 2402.09353). */
  readonly lengths?: TensorInfo;
}

export interface Adapter {
  readonly path: string;
  readonly name: string;
  readonly file: SafetensorsFile;
  /** `base_model_name_or_path`: the base that it was trained on. */
  readonly trainedOn: string | undefined;
  /** By the name of the base's tensor. */
  readonly deltas: ReadonlyMap<string, LowRankDelta>;
  /** Tensors saved whole (`modules_to_save`, trained biases), by the name of the base's tensor they replace. */
  readonly replacements: ReadonlyMap<string, TensorInfo>;
  /** The head that it unties, of the base's embedding: PEFT trains a copy of the other one. */
  readonly untiedHead?: CheckpointTensor;
  /** Rows of embeddings saved whole (`trainable_token_indices`), by the name of the base's tensor. */
  readonly rows: ReadonlyMap<string, SavedRows>;
}

export interface SavedRows {
  /** [rows, width] */
  readonly tensor: TensorInfo;
  /** The token of each row. */
  readonly ids: readonly number[];
}

/** What an adapter is fitted to. */
export type AdaptedBase = Pick<Checkpoint, "tensors" | "layerPrefix" | "tied" | "config">;

/**
 * Opens an adapter and fits it to the tensors of its base.
 * @param remote files that are not on the disk
 * @throws CheckpointError if it is not a LoRA adapter, uses a variant that is not supported, or has a tensor that matches
 *   nothing in the base
 */
export async function openAdapter(path: string, base: AdaptedBase, remote?: RemoteFolder): Promise<Adapter> {
  const config = await readAdapterConfig(path);
  const isRemote = (name: string) => remote?.names.has(name) === true;
  const weights = await adapterWeights(async (name) => isRemote(name) || (await exists(join(path, name))));
  if (weights === undefined) {
    const pickle = "adapter_model.bin";
    const pickled =
      remote?.names.has(pickle) || (await exists(join(path, pickle)))
        ? "; its adapter_model.bin is pickled and never read. Load it in PEFT and save it again."
        : "";
    throw new CheckpointError(`${path} has no ${ADAPTER_WEIGHTS}${pickled}`, { file: path });
  }
  const file = remote && isRemote(weights) ? await remote.open(weights) : await openSafetensors(join(path, weights));
  if (weights !== ADAPTER_WEIGHTS && !file.tensors.some(({ name }) => factorOf(name))) {
    throw new CheckpointError(
      `${path} has no ${ADAPTER_WEIGHTS}, and its ${weights} has no factors of an adapter. Save the adapter in PEFT again, or give the folder of the whole model without a base.`,
      { file: file.path },
    );
  }
  return { path, name: folderName(path), file, trainedOn: config.trainedOn, ...fitToBase(file, config, base) };
}

/** What an adapter says about one module: its factors, and the lengths of DoRA. */
interface ModuleFactors {
  readonly module: string;
  readonly a?: TensorInfo;
  readonly b?: TensorInfo;
  readonly magnitude?: TensorInfo;
  readonly isEmbedding: boolean;
}

const PREFIX = /^(base_model\.model\.)+/;

/** The name of an adapter that holds its trained tensors, where a trainer left it in their names. */
function leftName(file: SafetensorsFile): string {
  const names = new Set(file.tensors.flatMap(({ name }) => factorOf(name)?.adapter ?? []));
  const [name = "default", another] = names;
  if (another === undefined) return name;
  throw new CheckpointError(
    `${file.path} has the factors of several adapters (${formatSome([...names])}). Save the one to add by itself, with selected_adapters of PEFT's save_pretrained.`,
    { file: file.path },
  );
}

function fitToBase(
  file: SafetensorsFile,
  config: AdapterConfig,
  base: AdaptedBase,
): Pick<Adapter, "deltas" | "replacements" | "rows" | "untiedHead"> {
  const untiedHead = headToUntie(config, base);
  if (untiedHead) {
    const untied = { ...base, tied: false, tensors: new Map([...base.tensors, [untiedHead.name, untiedHead]]) };
    return { ...fitToBase(file, config, untied), untiedHead };
  }
  const factors = new Map<string, ModuleFactors>();
  const saved = new Map<string, TensorInfo>();
  const tokens = new Map<string, TensorInfo>();
  const embedding = embeddingOf(base);
  // What PEFT keeps below factors and rows is the base's, and so one matrix where it is tied.
  const below = (name: string) => (base.tied && isHead(name) && embedding ? embedding.name : name);
  const left = leftName(file);
  const isLeft = (name: string | undefined) => name === undefined || name === left || name === "default";
  for (const tensor of file.tensors) {
    const name = unwrapped(tensor.name).replace(PREFIX, "");
    // The base's own weights, which PEFT keeps beside trained ones.
    if (/\.original_module\./.test(name)) continue;
    const factor = factorOf(name);
    if (factor) {
      const entry = factors.get(factor.module) ?? { module: factor.module, isEmbedding: factor.isEmbedding };
      factors.set(factor.module, { ...entry, [factor.side]: tensor });
    } else if (TOKEN_ROWS.test(name)) tokens.set(name.replace(TOKEN_ROWS, ".weight"), tensor);
    else if (BELOW.test(name)) saved.set(below(name.replace(BELOW, "")), tensor);
    else
      saved.set(
        name.replace(SAVED, (_, own?: string) => (isLeft(own?.slice(1)) ? "" : (own as string))),
        tensor,
      );
  }
  // Rows of a tied head are those of the embedding, and may be saved under both names.
  for (const name of tokens.keys()) {
    if (base.tied && isHead(name) && [...tokens.keys()].some((one) => one !== name)) tokens.delete(name);
  }
  const modules = [...factors.values()].map((one) => ({ ...one, module: one.module.replace(/(\.base_layer)+$/, "") }));
  const ofBase = namesOfBase([...modules.map(({ module }) => module), ...saved.keys(), ...tokens.keys()], base);
  const nameOf = (name: string) => ofBase(name) ?? (base.tied && isHead(name) ? embedding?.name : undefined);
  const replacements = new Map<string, TensorInfo>();
  const unused: string[] = [];
  for (const [name, tensor] of saved) {
    const target = ofBase(name) ?? (base.tied && isHead(name) ? name : undefined);
    if (target === undefined) unused.push(tensor.name);
    else replacements.set(target, tensor);
  }
  if (unused.length > 0) {
    throw new CheckpointError(
      `${file.path} has tensors that do not match the base: ${formatSome(unused)}. Check that it is the adapter's base; if it is, merge the adapter in PEFT and pass the merged checkpoint.`,
      { file: file.path, tensor: unused[0] ?? "" },
    );
  }
  checkShapes(replacements, file, base);
  const context: Context = {
    config,
    tensorOf: (name) => replacements.get(name) ?? base.tensors.get(name),
    nameOf,
    isTransposed: TRANSPOSED_EXPERTS.has(base.config.modelType),
    heads: headsOf(base),
    whyMissing: (module) => whyMissing(module, base),
    file: file.path,
  };
  const changes = modules.flatMap((module) => deltasOf(module, context));
  if (base.tied && embedding && changes.filter(([target]) => target === embedding.name).length > 1) {
    throw new CheckpointError(
      `${file.path} adapts both the embedding and the output head, which the base ties: PEFT's merge adds both changes to the one matrix, and PEFT without merging does not. Merge the adapter in PEFT and pass the merged checkpoint.`,
      { file: file.path, tensor: embedding.name },
    );
  }
  return {
    deltas: joined(changes, file.path),
    replacements,
    rows: new Map([...tokens].map(([name, tensor]) => rowsOf(name, tensor, context))),
  };
}

const TOKEN_ROWS = /\.token_adapter\.trainable_tokens_delta(\.[^.]+)?$/;
const SAVED = /\.modules_to_save(\.[^.]+)?(?=\.)/;
const BELOW = /(\.token_adapter)?\.base_layer(?=\.)/;

const embeddingOf = ({ tensors }: AdaptedBase) => [...tensors.values()].find(({ part }) => part === "embed_tokens");

/** The head of a tied base, where the adapter saves embedding or head as a module of its own. */
function headToUntie({ modulesToSave, ensuresTying }: AdapterConfig, base: AdaptedBase): CheckpointTensor | undefined {
  const embedding = embeddingOf(base);
  if (!base.tied || ensuresTying || !embedding) return undefined;
  const names = [embedding.name.replace(/\.weight$/, ""), HEAD];
  const isSaved = names.some((name) => modulesToSave.some((end) => `.${name}`.endsWith(`.${end}`)));
  return isSaved ? { ...embedding, name: `${HEAD}.weight`, part: "lm_head" } : undefined;
}

/** What transformers calls the head of every family that ties it. */
const HEAD = "lm_head";

const isHead = (name: string) => /(^|\.)lm_head\.weight$/.test(name);

/** Tensors saved whole have the shapes of the base's, but for the rows of a vocabulary that was enlarged before training. */
function checkShapes(replacements: ReadonlyMap<string, TensorInfo>, file: SafetensorsFile, base: AdaptedBase): void {
  const rowsOfVocabulary = new Map<number, string>();
  for (const [name, { part, shape }] of base.tensors) {
    if (part !== "embed_tokens" && part !== "lm_head") continue;
    const rows = (replacements.get(name)?.shape ?? shape)[0] ?? 0;
    if (shape.length === 2 && !rowsOfVocabulary.has(rows)) rowsOfVocabulary.set(rows, name);
  }
  for (const [target, tensor] of replacements) {
    const like = base.tensors.get(target) ?? [...base.tensors.values()].find(({ part }) => part === "embed_tokens");
    const shape = like?.shape ?? [];
    const isVocabulary = like?.part === "embed_tokens" || like?.part === "lm_head";
    const isEnlarged = isVocabulary && tensor.shape.length === 2 && tensor.shape[1] === shape[1];
    if (formatShape(shape) === formatShape(tensor.shape) || (isEnlarged && rowsOfVocabulary.size === 1)) continue;
    const others = [...rowsOfVocabulary].find(([rows]) => rows !== tensor.shape[0])?.[1];
    const why =
      isEnlarged && others !== undefined
        ? `; the vocabulary was enlarged before training, and the adapter has no rows for ${others}. Save it in PEFT with save_embedding_layers=True`
        : "";
    throw new CheckpointError(
      `${file.path}: ${tensor.name} is ${formatShape(tensor.shape)}, but ${target} of the base is ${formatShape(shape)}${why}`,
      { file: file.path, tensor: target, expected: formatShape(shape), actual: formatShape(tensor.shape) },
    );
  }
}

interface Context {
  readonly config: AdapterConfig;
  /** The base's tensors, those saved whole as the adapter has them. */
  readonly tensorOf: (name: string) => Pick<CheckpointTensor, "shape" | "dtype" | "blocks"> | undefined;
  readonly nameOf: (name: string) => string | undefined;
  readonly isTransposed: boolean;
  readonly heads: readonly [number, number] | undefined;
  /** Why the base has no tensor of a module, as a clause. */
  readonly whyMissing: (module: string) => string;
  readonly file: string;
}

/** Heads of queries, and of keys. */
function headsOf({ config }: AdaptedBase): readonly [number, number] | undefined {
  const { num_attention_heads: heads, num_key_value_heads: keys = heads } = textOf(config.json);
  return typeof heads === "number" && typeof keys === "number" ? [heads, keys] : undefined;
}

const APART = /\.([qkv]_proj|query|key|value)$/;
/** Matrices of queries, keys and values whose rows, or columns, are by head or have no names. */
const IN_ONE = /\.(query_key_value|c_attn|Wqkv|W_pack|in_proj|qkv|qkv_proj|att_proj)\.weight$/;

/** Why a base has no tensor of a module that an adapter of it can change, as a clause. */
function whyMissing(module: string, base: AdaptedBase): string {
  const inMemory = namesInMemory(base.config.json.model_type);
  const layer = /\.\d+\./.exec(module)?.[0] ?? "";
  const converted = [...base.tensors.keys()].filter((name) => inMemory && isConverted(inMemory(name)));
  const advice = "merge the adapter in PEFT and pass the merged checkpoint";
  const alike = converted.find((name) => name.includes(layer));
  if (alike !== undefined)
    return `which transformers makes of others when it opens the base, such as ${alike}; ${advice}`;
  const inLayer = [...base.tensors.keys()].filter((name) => name.includes(layer));
  const whole = APART.test(module) && inLayer.find((name) => IN_ONE.test(name));
  if (whole) return `and the base has queries, keys and values in ${whole}, in an order of its own; ${advice}`;
  const single = IN_ONE.test(`${module}.weight`) && inLayer.find((name) => APART.test(name.replace(/\.weight$/, "")));
  if (single)
    return `whose rows have an order of their own, and the base has queries, keys and values apart, such as ${single}; ${advice}`;
  return "which the base does not have; is it the adapter's base?";
}

/** The changes of a module, by the names of the base's tensors. */
function deltasOf(factors: ModuleFactors, context: Context): [string, LowRankDelta][] {
  const { config, tensorOf, nameOf, file } = context;
  const { module, a, b, magnitude, isEmbedding } = factors;
  const where = { file, tensor: `${module}.weight` };
  if (!a || !b) throw new CheckpointError(`${file} has only one of the two factors of ${module}`, where);
  const target = nameOf(where.tensor);
  if (target === undefined) {
    const { targetParameters } = config;
    const shapeOf = (name: string) => tensorOf(name)?.shape ?? [];
    const formOf = (name: string, count: number) => formOfFactors(name, a, b, count, config, where);
    const changes = changesOfParameters({ ...context, module, a, b, targetParameters, shapeOf, formOf });
    if (changes.length > 0) return changes;
    const ofModule = () => formOfFactors(module, a, b, 1, config, where);
    const fused = changesOfFused({ ...context, module, a, b, lengths: magnitude, shapeOf, formOf: ofModule });
    if (fused.length > 0) return fused;
    throw new CheckpointError(`${file} adapts ${module}, ${context.whyMissing(module)}`, where);
  }
  // PEFT takes only matrices of GPT-2's own kind as [in, out], and its head is another.
  const transposed = isEmbedding || (config.fanInFanOut && !isHead(where.tensor));
  const delta = lowRank(module, a, b, tensorOf(target)?.shape ?? [], transposed, config, where);
  if (config.isDora !== (magnitude !== undefined)) {
    const has = magnitude ? "a" : "no";
    throw new CheckpointError(
      `${file} has ${has} lora_magnitude_vector for ${module}, but use_dora is ${config.isDora} in ${config.file}; correct use_dora, or save the adapter in PEFT again`,
      { ...where, field: "use_dora" },
    );
  }
  if (!magnitude) return [[target, delta]];
  if (transposed) {
    const what = isEmbedding ? "an embedding" : "a matrix stored as [in, out]";
    throw new CheckpointError(
      `${file} uses DoRA on ${module}, ${what}, which is not supported. Merge the adapter in PEFT and pass the merged checkpoint.`,
      where,
    );
  }
  if (magnitude.shape.length !== 1 || magnitude.shape[0] !== b.shape[0]) {
    throw new CheckpointError(
      `${file}: ${magnitude.name} is ${formatShape(magnitude.shape)}, but ${target} has ${b.shape[0]} rows`,
      { ...where, expected: formatShape([b.shape[0] ?? 0]), actual: formatShape(magnitude.shape) },
    );
  }
  return [[target, { ...delta, lengths: magnitude }]];
}

/** The rows of trained tokens. */
function rowsOf(name: string, tensor: TensorInfo, context: Context): [string, SavedRows] {
  const { config, tensorOf, nameOf, file } = context;
  const target = nameOf(name) ?? name;
  const where = { file, tensor: name, field: "trainable_token_indices" };
  const [, ids = []] = Object.entries(config.tokens).find(([end]) => `.${name}`.endsWith(`.${end}.weight`)) ?? [];
  const { shape, dtype, blocks } = tensorOf(target) ?? { shape: [], dtype: tensor.dtype };
  const isThere = (id: number) => Number.isSafeInteger(id) && id >= 0 && id < (shape[0] ?? 0);
  if (tensor.shape[0] !== ids.length || tensor.shape[1] !== shape[1] || !ids.every(isThere)) {
    throw new CheckpointError(
      `${file}: ${tensor.name} is ${formatShape(tensor.shape)} for ${ids.length} trainable_token_indices, which do not fit ${name} ${formatShape(shape)} of the base`,
      where,
    );
  }
  if (tensor.dtype !== dtype && blocks === undefined) {
    throw new CheckpointError(
      `${file} stores the rows of trained tokens as ${tensor.dtype}, and the base stores ${target} as ${dtype}; merge the adapter in PEFT and pass the merged checkpoint`,
      where,
    );
  }
  return [target, { tensor, ids }];
}

function lowRank(
  module: string,
  factorA: TensorInfo,
  factorB: TensorInfo,
  weight: readonly number[],
  transposed: boolean,
  config: AdapterConfig,
  where: { file: string; tensor: string },
): LowRankDelta {
  // The second factor of a convolution has one value for each pair of channels, so both are matrices.
  const isConvolution = weight.length > 2 && factorB.shape.slice(2).every((size) => size === 1);
  const flat = (sizes: readonly number[]) =>
    isConvolution ? [sizes[0] ?? 0, sizes.slice(1).reduce((product, size) => product * size, 1)] : sizes;
  const [a, b] = [factorA, factorB].map((factor) => ({ ...factor, shape: flat(factor.shape) })) as [
    TensorInfo,
    TensorInfo,
  ];
  const shape = flat(weight);
  const [out, input] = transposed ? [shape[1], shape[0]] : [shape[0], shape[1]];
  const fits = shape.length === 2 && a.shape.length === 2 && b.shape.length === 2;
  if (!fits || a.shape[1] !== input || b.shape[0] !== out || b.shape[1] !== a.shape[0]) {
    throw new CheckpointError(
      `${where.file}: the factors of ${module} are ${formatShape(factorA.shape)} and ${formatShape(factorB.shape)}, which do not fit its weight ${formatShape(weight)}; is it the adapter's base?`,
      { ...where, expected: formatShape(weight) },
    );
  }
  return { a, b, ...formOfFactors(module, a, b, 1, config, where), transposed };
}
