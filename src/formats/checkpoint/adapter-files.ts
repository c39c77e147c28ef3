// How PEFT names the files, the factors and the modules of an adapter.

import { SINGLE_FILE } from "../safetensors/sharded.js";

export const ADAPTER_WEIGHTS = "adapter_model.safetensors";

/** PEFT's `target_modules`, `target_parameters` and `layers_to_transform`. */
export interface PeftTargets {
  readonly targetModules: readonly string[];
  /** Default none. */
  readonly targetParameters?: readonly string[];
  readonly layersToTransform: readonly number[] | null;
}

/** PEFT's name for a tensor or module of the base. */
export function peftName(name: string): string {
  return `base_model.model.${name}`;
}

/** Names of the factors of a module, as in PEFT. */
export function factorNames({
  module,
  isEmbedding = false,
}: {
  readonly module: string;
  readonly isEmbedding?: boolean;
}) {
  const nameOf = (side: "A" | "B") =>
    `${peftName(module)}.lora_${isEmbedding ? `embedding_${side}` : `${side}.weight`}`;
  return { a: nameOf("A"), b: nameOf("B") };
}

const SIDES = { A: "a", B: "b", magnitude_vector: "magnitude" } as const;

/**
 * What the name of a factor says: its module, which one it is, whether an embedding's, and the adapter's name where it was
 * left in; undefined for others.
 */
export function factorOf(name: string) {
  const found = /^(.*)\.lora_(embedding_)?(A|B|magnitude_vector)(?:\.(?!weight$)([^.]+))?(?:\.weight)?$/.exec(name);
  if (!found) return undefined;
  return {
    module: found[1] ?? "",
    side: SIDES[found[3] as keyof typeof SIDES],
    isEmbedding: found[2] !== undefined,
    adapter: found[4],
  } as const;
}

/** An adapter's weights: the file of PEFT, or the one that a trainer writes of any model. */
const WEIGHTS = [ADAPTER_WEIGHTS, SINGLE_FILE];

/** The file of an adapter's weights among those of its folder. */
export async function adapterWeights(has: (name: string) => boolean | Promise<boolean>): Promise<string | undefined> {
  for (const name of WEIGHTS) if (await has(name)) return name;
  return undefined;
}

/**
 * Last names and layers where PEFT finds exactly these modules by them, otherwise whole names.
 * @param tensors all tensors of the base
 * @param inMemory a name's form in transformers, which adapter_config.json has; names of factors may have that of files
 */
export function peftTargets(
  modules: readonly { readonly module: string; readonly layer: number | null }[],
  tensors: ReadonlyMap<string, { readonly layer: number | null }>,
  inMemory: (name: string) => string,
): PeftTargets {
  const lastName = (module: string) => module.slice(module.lastIndexOf(".") + 1);
  const names = new Set(modules.map(({ module }) => lastName(module)));
  const layers = new Set(modules.flatMap(({ layer }) => (layer === null ? [] : [layer])));
  // PEFT looks at modules that hold modules, too, such as the clipped ones of Gemma 4's vision tower, and counts any layers.
  const named = [...tensors].flatMap(([name, { layer }]) =>
    [...name.matchAll(/\./g)].flatMap(({ index }) => {
      const module = name.slice(0, index);
      const counted = layer ?? Number(/^.*?\.[^.]*\.(\d+)\./.exec(name)?.[1] ?? Number.NaN);
      return names.has(lastName(module)) ? [{ module, layer: counted }] : [];
    }),
  );
  const own = new Set(modules.map(({ module }) => module));
  if (named.every(({ module }) => own.has(module))) return { targetModules: [...names], layersToTransform: null };
  const inLayers = named.filter(({ layer }) => layers.has(layer));
  const areInLayers = modules.every(({ layer }) => layer !== null);
  if (areInLayers && inLayers.every(({ module }) => own.has(module))) {
    return { targetModules: [...names], layersToTransform: [...layers].sort((a, b) => a - b) };
  }
  return { targetModules: [...own].map(inMemory), layersToTransform: null };
}

/** What adapter_config.json says; other fields of PEFT have their defaults. */
export interface AdapterDescription {
  /** The base: a folder, or a name on the Hub. */
  readonly base: string;
  readonly rank: number;
  readonly alpha: number;
  readonly dropout?: number;
  readonly isRankStabilised?: boolean;
  readonly targets: PeftTargets;
  /** Ranks that differ from `rank`, by module. */
  readonly rankPattern?: Readonly<Record<string, number>>;
  /** Alphas that differ from `alpha`, by module. */
  readonly alphaPattern?: Readonly<Record<string, number>>;
  readonly modulesToSave?: readonly string[] | null;
  /** Whether biases of adapted modules are saved, too. */
  readonly hasBiases?: boolean;
  /** Whether the base stores its matrices [in, out], as GPT-2 does. */
  readonly isTransposed?: boolean;
}

export function adapterConfig(adapter: AdapterDescription): Record<string, unknown> {
  return {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: adapter.base,
    r: adapter.rank,
    lora_alpha: adapter.alpha,
    ...(adapter.rankPattern ? { rank_pattern: adapter.rankPattern } : {}),
    ...(adapter.alphaPattern ? { alpha_pattern: adapter.alphaPattern } : {}),
    lora_dropout: adapter.dropout ?? 0,
    use_rslora: adapter.isRankStabilised ?? false,
    use_dora: false,
    target_modules: adapter.targets.targetModules,
    ...(adapter.targets.targetParameters?.length ? { target_parameters: adapter.targets.targetParameters } : {}),
    layers_to_transform: adapter.targets.layersToTransform,
    modules_to_save: adapter.modulesToSave ?? null,
    bias: adapter.hasBiases ? "lora_only" : "none",
    fan_in_fan_out: adapter.isTransposed ?? false,
    init_lora_weights: true,
    inference_mode: true,
  };
}
