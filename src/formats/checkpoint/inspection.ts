import { compareParts, type Part } from "../../families/index.js";
import type { StoredType } from "../../kernels/index.js";
import { elementCount, formatShape, groupBy, type Shape } from "../../kit/index.js";
import { type Checkpoint, parameterCount, storedType } from "./checkpoint.js";

/** Tensors of one part of a checkpoint, inside or outside the layers. */
export interface PartInspection {
  readonly part: Part;
  /** Layers that have it; empty for tensors outside the layers. */
  readonly layers: readonly number[];
  readonly tensors: number;
  readonly parameters: number;
  /** Distinct shapes, such as `[4096, 4096]`. */
  readonly shapes: readonly string[];
  readonly dtypes: readonly StoredType[];
}

/** One tensor of a checkpoint. */
export interface TensorInspection {
  readonly name: string;
  /** Element type as stored; of GGUF files such as `Q4_K`, of codes with scales `FP8`, `FP4`, `INT4`, ... */
  readonly dtype: StoredType;
  readonly shape: Shape;
  /** Layer number from the input; null outside the layers. */
  readonly layer: number | null;
  readonly part: Part;
  /** Whether an adapter changes it. */
  readonly adapted: boolean;
  /** Rank of what the adapter adds, where it adds a product of two matrices. */
  readonly rank?: number;
}

type Same = "name" | "folder" | "architecture" | "layers" | "tied" | "digest" | "notes";

/** Description of a checkpoint, read from its headers and configuration. */
export interface Inspection extends Pick<Checkpoint, Same> {
  /** `model_type` of config.json. */
  readonly modelType: string;
  readonly parameters: number;
  readonly vocabularySize: number | undefined;
  readonly hiddenSize: number | undefined;
  /** Parameters by dtype. */
  readonly dtypes: Readonly<Record<string, number>>;
  /** Weight files, each with its size in bytes and its number of tensors. */
  readonly files: readonly { readonly path: string; readonly bytes: number; readonly tensors: number }[];
  /** The adapter, where there is one: its name and folder, and how many tensors it adapts and replaces. */
  readonly adapter?: {
    readonly name: string;
    readonly path: string;
    readonly adapted: number;
    readonly replaced: number;
  };
  readonly parts: readonly PartInspection[];
}

/** Describes an opened checkpoint. Reads no files. */
export function inspectCheckpoint(checkpoint: Checkpoint): Inspection {
  const { name, folder, architecture, config, layers, tied, digest, files, adapter, notes } = checkpoint;
  const dtypes = new Map<string, number>();
  for (const { shape, ...tensor } of checkpoint.tensors.values()) {
    const dtype = storedType(tensor);
    dtypes.set(dtype, (dtypes.get(dtype) ?? 0) + elementCount(shape));
  }
  return {
    name,
    folder,
    architecture,
    modelType: config.modelType,
    layers,
    parameters: parameterCount(checkpoint),
    vocabularySize: config.vocabularySize,
    hiddenSize: config.hiddenSize,
    tied,
    dtypes: Object.fromEntries(dtypes),
    digest,
    files: files.map(({ path, bytes, tensors }) => ({ path, bytes, tensors: tensors.length })),
    ...(adapter && { adapter: adapterOf(adapter) }),
    parts: partsOf(checkpoint),
    notes,
  };
}

/** Every tensor of an opened checkpoint, in the order of its files. */
export function inspectTensors({ tensors }: Checkpoint): TensorInspection[] {
  return [...tensors.values()].map(({ name, shape, layer, part, lowRank, ...tensor }) => {
    const adapted = lowRank ? { adapted: true, rank: lowRank.rank } : { adapted: false };
    return { name, dtype: storedType(tensor), shape, layer, part, ...adapted };
  });
}

function adapterOf({ name, path, deltas, replacements }: NonNullable<Checkpoint["adapter"]>) {
  return { name, path, adapted: deltas.size, replaced: replacements.size };
}

function partsOf(checkpoint: Checkpoint): PartInspection[] {
  const groups = groupBy(checkpoint.tensors.values(), ({ layer, part }) => `${layer === null} ${part}`);
  const rows = [...groups.values()].map((tensors) => ({
    part: tensors[0]?.part ?? "other",
    layers: [...new Set(tensors.flatMap(({ layer }) => layer ?? []))].sort((a, b) => a - b),
    tensors: tensors.length,
    parameters: tensors.reduce((sum, { shape }) => sum + elementCount(shape), 0),
    shapes: [...new Set(tensors.map(({ shape }) => formatShape(shape)))],
    dtypes: [...new Set(tensors.map(storedType))],
  }));
  return rows.sort((a, b) => compareParts(a.part, b.part));
}
